"""Pods, and the statuses of their containers.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any

from bridgehead.objects.meta import Condition, Object, Part, is_condition_true

from .containers import Container, EphemeralContainer, ResourceRequirements
from .security_contexts import PodSecurityContext
from .volumes import Volume


class PodDNSConfigOption(Part, frozen=True, kw_only=True):
    name: str = ""
    value: str | None = None


class PodDNSConfig(Part, frozen=True, kw_only=True):
    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class HostAlias(Part, frozen=True, kw_only=True):
    ip: str
    hostnames: tuple[str, ...] = ()


class Toleration(Part, frozen=True, kw_only=True):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodReadinessGate(Part, frozen=True, kw_only=True):
    condition_type: str


class LocalObjectReference(Part, frozen=True, kw_only=True):
    """A reference to an object in the same namespace."""

    name: str = ""


class PodOS(Part, frozen=True, kw_only=True):
    name: str = ""


class PodSpec(Part, frozen=True, kw_only=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[EphemeralContainer, ...] = ()
    volumes: tuple[Volume, ...] = ()
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    node_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[dict[str, Any], ...] = ()
    scheduler_name: str = "default-scheduler"
    scheduling_gates: tuple[dict[str, str], ...] = ()
    restart_policy: str = "Always"
    os: PodOS | None = None
    termination_grace_period_seconds: int = 30
    active_deadline_seconds: int | None = None
    dns_policy: str = "ClusterFirst"
    dns_config: PodDNSConfig | None = None
    host_aliases: tuple[HostAlias, ...] = ()
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    host_users: bool = True
    share_process_namespace: bool = False
    hostname: str = ""
    subdomain: str = ""
    set_hostname_as_fqdn: bool = False
    hostname_override: str = ""
    enable_service_links: bool = True
    service_account_name: str = ""
    automount_service_account_token: bool | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    security_context: PodSecurityContext | None = None
    priority_class_name: str = ""
    priority: int | None = None
    preemption_policy: str = ""
    runtime_class_name: str | None = None
    overhead: dict[str, str | int | float] = {}
    resources: ResourceRequirements | None = None  # of the whole pod


class ContainerStateWaiting(Part, frozen=True, kw_only=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Part, frozen=True, kw_only=True):
    started_at: str | None = None


class ContainerStateTerminated(Part, frozen=True, kw_only=True):
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = ""


class ContainerState(Part, frozen=True, kw_only=True):
    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class VolumeMountStatus(Part, frozen=True, kw_only=True):
    name: str
    mount_path: str
    read_only: bool = False
    recursive_read_only: str | None = None


class LinuxContainerUser(Part, frozen=True, kw_only=True, omit_defaults=False):
    uid: int
    gid: int
    supplemental_groups: tuple[int, ...] = ()


class ContainerUser(Part, frozen=True, kw_only=True):
    linux: LinuxContainerUser | None = None


class ContainerStatus(Part, frozen=True, kw_only=True, omit_defaults=False):
    name: str
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    resources: ResourceRequirements | None = None
    allocated_resources: dict[str, str | int | float] | None = None
    volume_mounts: tuple[VolumeMountStatus, ...] | None = None
    user: ContainerUser | None = None


class PodIP(Part, frozen=True, kw_only=True):
    ip: str = ""


class PodStatus(Part, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    reason: str = ""
    message: str = ""
    host_ip: str = ""
    host_ips: tuple[PodIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    observed_generation: int | None = None
    qos_class: str = ""
    nominated_node_name: str = ""
    resources: ResourceRequirements | None = None  # of the whole pod
    allocated_resources: dict[str, str | int | float] | None = None


class Pod(Object, frozen=True, kw_only=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """Whether the pod's Ready condition is True."""
        return is_condition_true(self.status.conditions, "Ready")

    @property
    def is_terminating(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_finished(self) -> bool:
        """Whether all containers have ended and none will be started again."""
        return self.status.phase in ("Succeeded", "Failed")
