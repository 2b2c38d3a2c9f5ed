"""Containers of pods: their ports, mounts, probes, hooks and resources.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.meta import Part

from .environment import EnvFromSource, EnvVar
from .security_contexts import SecurityContext


class ContainerPort(Part, frozen=True, kw_only=True):
    container_port: int
    name: str = ""
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = ""


class VolumeMount(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    sub_path: str = ""
    sub_path_expr: str = ""
    read_only: bool = False
    recursive_read_only: str = "Disabled"


class ExecAction(Part, frozen=True, kw_only=True):
    command: tuple[str, ...] = ()


class HTTPHeader(Part, frozen=True, kw_only=True):
    name: str
    value: str = ""


class HTTPGetAction(Part, frozen=True, kw_only=True):
    port: int | str
    path: str = ""
    host: str = ""
    scheme: str = "HTTP"
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(Part, frozen=True, kw_only=True):
    port: int | str
    host: str = ""


class GRPCAction(Part, frozen=True, kw_only=True):
    port: int
    service: str = ""


class SleepAction(Part, frozen=True, kw_only=True):
    seconds: int = 0


class Action(Part, frozen=True, kw_only=True):
    """Action of a probe or a lifecycle hook. Exactly one field is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None


class LifecycleHandler(Action, frozen=True, kw_only=True):
    sleep: SleepAction | None = None


class Lifecycle(Part, frozen=True, kw_only=True):
    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str = ""


class Probe(Action, frozen=True, kw_only=True):
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class ResourceRequirements(Part, frozen=True, kw_only=True):
    limits: dict[str, str | int | float] = {}
    requests: dict[str, str | int | float] = {}


class ContainerRestartRuleOnExitCodes(Part, frozen=True, kw_only=True):
    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(Part, frozen=True, kw_only=True):
    """The action after certain exits of a container, in place of its `restartPolicy`."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None

    def matches(self, exit_code: int) -> bool:
        if self.exit_codes is None:
            return False
        return (exit_code in self.exit_codes.values) == (self.exit_codes.operator == "In")


class ContainerResizePolicy(Part, frozen=True, kw_only=True):
    resource_name: str = ""
    restart_policy: str = "NotRequired"


class Container(Part, frozen=True, kw_only=True):
    name: str
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env: tuple[EnvVar, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None
    termination_message_path: str = "/dev/termination-log"
    termination_message_policy: str = "File"
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False

    @property
    def is_sidecar(self) -> bool:
        """Whether it is an init container that runs as long as the pod."""
        return self.restart_policy == "Always"


class EphemeralContainer(Container, frozen=True, kw_only=True):
    target_container_name: str = ""
