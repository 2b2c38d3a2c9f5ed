"""The interface between a kubelet and its container runtime (after the CRI, reduced to what is used).

The runtime is a separate process on each node (`bridgehead runtime`): containers outlive a kubelet that ends, and the
next kubelet finds them by `list_containers`. The runtime chooses container ids and never reuses one.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from typing import Final, Protocol

import msgspec

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.core import LinuxContainerUser

# Debian's nobody: images have files and users up to this id.
LAST_IMAGE_ID: Final = 65534
# Users, and groups, of a pod with a user namespace of its own; Kubernetes' number.
POD_IDS: Final = 65536


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image the node can run.

    `source` is "store" (a root file system in the local image store), "registry" (pulled), "stand-in" (a host program
    or a built-in server that plays the image's part) or "part" (a part of Bridgehead).
    `id` is shown as `imageID`, in which a stand-in is named as one.
    """

    name: str
    id: str
    source: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = "/"
    user: str = ""  # USER or USER:GROUP as in the image's configuration, names or numbers; "" is root
    stop_signal: str = ""  # as "SIGQUIT" or "3"; "" is SIGTERM
    volumes: tuple[str, ...] = ()  # paths at which each container has a directory of its own
    description: str = ""  # of a stand-in, for an Event


class ImageUnavailable(Exception):
    """The node has no such image; the message has the places searched and what to do."""


class RuntimeFailure(Exception):
    """The runtime could not do what was requested; the message is one line for an Event."""


class ContainerRefused(RuntimeFailure):
    """The image lacks what the container is to have, so that none is created; the message names it."""


class SandboxMissing(RuntimeFailure):
    """The runtime has no sandbox of the pod, or removes it."""

    def __init__(self, message: str = "the pod has no sandbox") -> None:
        super().__init__(message)


def port_refused(address: str, port: int, code: int) -> str:
    """The message for a failed connection to a pod's own address, as Go writes it; `code` is an errno."""
    family = "tcp6" if ":" in address else "tcp4"
    return f"dial {family} {join_host_port(address, port)}: connect: {os.strerror(code).lower()}"


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a container or a pod: memory in bytes, CPU in thousandths of a processor. None: no limit.

    `oom_score_adj` is for a container's processes.
    """

    memory: int | None = None
    cpu_millis: int | None = None
    cpu_request_millis: int = 0
    pids: int | None = None
    oom_score_adj: int = 0


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of a pod's namespaces.

    `ips` are the pod's addresses, at most one of each family, the primary one first; none with `host_network`.
    `share_processes`: all containers are in one PID namespace, whose first process only waits.
    `sysctls` are set in the pod's own namespaces ("net.ipv4.ip_local_port_range": "1024 65535"). `has_host_ports`:
    ports of the node, also of 127.0.0.1, may lead to the pod. `limits` bound all containers together.
    `id_base`: the node's id of the root of the pod's own user namespace, whose further ids follow it; 0: the pod has
    the node's users.
    """

    pod_uid: str
    namespace: str
    name: str
    hostname: str
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_processes: bool = False
    sysctls: dict[str, str] = {}
    has_host_ports: bool = False
    ips: tuple[str, ...] = ()
    mtu: int = 1500
    limits: Limits = Limits()
    id_base: int = 0


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """A bind mount of `source` (on the node), or of `sub_path` below it, to `target` (in the container).

    `sub_path` is relative. The runtime resolves it beneath the volume's descriptor, so that no link leads out of the
    volume, and makes a missing directory, with the mode of the volume's root. Without `follows_links`, a symbolic link
    in `source` is an error.

    With an `image` there is no `source`, and the volume is the files of that image, read-only. The runtime finds its
    `layers`, directories with the lowest first.
    """

    source: str
    target: str
    read_only: bool = False
    sub_path: str = ""
    follows_links: bool = True
    image: str = ""
    layers: tuple[str, ...] = ()


class Seccomp(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's or container's `seccompProfile`: `kind` is RuntimeDefault, Unconfined or Localhost, and `path` names a
    Localhost profile (an absolute path on the node, JSON as in the OCI runtime specification)."""

    kind: str = "RuntimeDefault"
    path: str = ""


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """The user and the privileges of a container. Ids are those of the pod.

    `user` None: the user that the image names, or root. `group` None: the group that the image names, or the user's in
    the container's /etc/passwd, or root's. `strict_groups`: the user's groups in the container's /etc/group are not
    added. Capabilities are names as in a Pod ("NET_ADMIN", "ALL"), applied to containerd's default set in
    containerd's order: add ALL, drop ALL, add the named ones, drop the named ones.
    """

    user: int | None = None
    group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    strict_groups: bool = False
    privileged: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    no_new_privileges: bool = False
    read_only_root: bool = False
    unmasked_proc: bool = False
    seccomp: Seccomp = Seccomp()


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """The specification of one run of a container. `command` replaces the image's entrypoint, `args` its command."""

    pod_uid: str
    name: str
    attempt: int
    image: Image
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = ""
    mounts: tuple[Mount, ...] = ()
    log_path: str = ""  # CRI log format: "<RFC3339Nano> stdout F <line>"
    security: Security = Security()
    limits: Limits = Limits()
    termination_message_path: str = "/dev/termination-log"
    stdin: bool = False  # keep standard input open for `open_attach`
    stdin_once: bool = False  # close standard input when the first session with it closes it
    tty: bool = False
    target: str = ""  # the id of a container whose PID namespace this one shares
    volume_directory: str = ""  # the runtime makes it for the image's volumes; the caller removes it after the run
    ports: tuple[str, ...] = ()  # `containerPort`s as "80/TCP", for the log of a stand-in
    variables: tuple[str, ...] = ()  # the names in `env` that the pod itself sets, for the log of a stand-in


class ContainerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a container: "running" or "exited". Times are seconds since the epoch; after a signal, `exit_code`
    is 128 and its number."""

    id: str
    pod_uid: str
    name: str
    attempt: int
    image: Image
    state: str
    pid: int
    started_at: float
    finished_at: float | None = None
    exit_code: int | None = None
    is_oom_killed: bool = False
    message: str = ""  # the content of the termination log
    user: LinuxContainerUser | None = None  # with which its program began


class SandboxInfo(msgspec.Struct, frozen=True, kw_only=True):
    pod_uid: str
    namespace: str
    name: str
    ips: tuple[str, ...]
    netns: str  # path that setns(2) accepts; "" with host_network


class RuntimeFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """Capabilities of the runtime on this node.

    `limits`: the reason why `Limits` are not enforced, "" if they are. `last_id`: the last id for which it and all
    before it are users of the node, as far as images have any. `copies`: the reason why root file systems of containers
    are copies, "" where they are overlays. `pod_id_ranges`: how many pods can have a user namespace; their users are
    the node's from `POD_IDS` on, as many for each pod.
    """

    limits: str = ""
    last_id: int = LAST_IMAGE_ID
    copies: str = ""
    pod_id_ranges: int = 0


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    output: bytes


class ExecSession(Protocol):
    """A running command whose standard streams the caller has. Used by exec and attach."""

    stdin_fd: int | None  # close it for end of input
    stdout_fd: int | None
    stderr_fd: int | None  # None with a terminal: all output is on stdout_fd

    async def wait(self) -> int:
        """Wait for the end; returns the exit code."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def close(self) -> None:
        """Close the streams. A command that still runs goes on: its input ends, or its terminal hangs up, and its
        output is dropped."""
        ...


class Runtime(Protocol):
    """The operations of a container runtime."""

    async def find_features(self) -> RuntimeFeatures: ...

    async def find_image(self, name: str) -> Image:
        """Raises `ImageUnavailable`."""
        ...

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        """Make the pod's namespaces, or return those that exist. Raises `RuntimeFailure`."""
        ...

    async def update_sandbox(self, pod_uid: str, limits: Limits) -> None:
        """Change the limits of a pod as `update_container` does those of a container. Raises `RuntimeFailure`."""
        ...

    async def remove_sandbox(self, pod_uid: str) -> None:
        """Kill the pod's containers and remove its namespaces. Does nothing if the sandbox is gone."""
        ...

    async def list_sandboxes(self) -> list[SandboxInfo]: ...

    async def start_container(self, spec: ContainerSpec) -> ContainerInfo:
        """Raises `ImageUnavailable`, or `RuntimeFailure`, for example when the program does not exist in the image."""
        ...

    async def update_container(self, container_id: str, limits: Limits) -> None:
        """Change the limits of a running container; those that become None stay as they are.

        Does nothing where limits are not enforced. Raises `RuntimeFailure`, also for less memory than is in use.
        """
        ...

    async def signal_container(self, container_id: str, signal: int) -> None:
        """Send `signal` to the container's first process; SIGTERM is the stop signal that the image names.

        Does nothing after the exit of the process.
        """
        ...

    async def measure_layers(self, pod_uid: str) -> dict[str, int]:
        """The bytes that the pod's running containers have written to their own layers, by name."""
        ...

    async def list_containers(self) -> list[ContainerInfo]:
        """All containers of the node's sandboxes, exited ones included (the newest attempt of each)."""
        ...

    async def exec_in_container(self, container_id: str, argv: tuple[str, ...], *, timeout: float) -> ExecResult:
        """Run a command to its end; output beyond 10 KiB is dropped.

        Raises `RuntimeFailure`, `TimeoutError` (the command is killed).
        """
        ...

    async def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool = True
    ) -> ExecSession: ...

    async def open_attach(self, container_id: str, *, stdin: bool, stderr: bool = True) -> ExecSession:
        """A session on the container's own streams, from now on; it has a terminal if the container has one.

        `wait` returns the container's exit code, or 0 for a session that ends before because its output is not read.
        `close` does not affect the container. Raises `RuntimeFailure`.
        """
        ...

    async def open_port(self, pod_uid: str, port: int) -> socket.socket:
        """A non-blocking stream to a port on the pod's own loopback. Raises `RuntimeFailure`, also when the port
        refuses it."""
        ...

    def exits(self) -> AsyncIterator[ContainerInfo]:
        """Containers as they exit, from now on. Raises `RuntimeFailure` when the connection to the runtime breaks:
        `list_containers` returns the exits that were missed."""
        ...
