"""What a kubelet asks of a container runtime (after the CRI, cut to what is used).

The runtime is a process of its own on each node (`bridgehead runtime`): containers outlive a kubelet that dies, and
the next kubelet finds them by `list_containers`. Container ids are chosen by the runtime and never reused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from typing import Protocol

import msgspec

from bridgehead.objects.addresses import join_host_port


class Image(msgspec.Struct, frozen=True, kw_only=True):
    """An image the node can run.

    `source` is "store" (a root file system in the local image store), "stand-in" (a host program or a built-in server
    that plays the image's part) or "part" (one of Bridgehead's own parts). `id` is what `imageID` shows and names
    a stand-in as one.
    """

    name: str
    id: str
    source: str
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    working_dir: str = "/"
    user: str = ""  # USER or USER:GROUP as in the image's configuration, names or numbers; "" is root
    description: str = ""  # who plays a stand-in's part, for an Event


class ImageUnavailable(Exception):
    """No such image here; the message says where it was looked for and what to do."""


class RuntimeFailure(Exception):
    """The runtime could not do it; the message is one line for an Event."""


def port_refused(address: str, port: int, code: int) -> str:
    """Why there is no connection to a pod's own address, in Go's words; `code` is an errno."""
    family = "tcp6" if ":" in address else "tcp4"
    return f"dial {family} {join_host_port(address, port)}: connect: {os.strerror(code).lower()}"


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's namespaces. `ips` are its addresses, at most one of each family, the primary one first; none with
    `host_network`. `sysctls` are set in the pod's own namespaces ("net.ipv4.ip_local_port_range": "1024 65535")."""

    pod_uid: str
    namespace: str
    name: str
    hostname: str
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    sysctls: dict[str, str] = {}
    ips: tuple[str, ...] = ()
    mtu: int = 1500


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """Bind `source` (on the node), or what `sub_path` names below it, to `target` (in the container).

    `sub_path` is relative. The runtime resolves it beneath the volume's descriptor, so that no link leads out of the
    volume, and makes a directory that is not there, with the mode of the volume's root.
    """

    source: str
    target: str
    read_only: bool = False
    sub_path: str = ""


class Seccomp(msgspec.Struct, frozen=True, kw_only=True):
    """A pod's or container's `seccompProfile`: `kind` is RuntimeDefault, Unconfined or Localhost, and `path` names a
    Localhost profile (an absolute path on the node, JSON as in the OCI runtime specification)."""

    kind: str = "RuntimeDefault"
    path: str = ""


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """Who a container runs as and what it may do. Ids are those of the pod.

    `user` None is the user that the image names, or root; `group` None the group that the image names, or the user's in
    the container's /etc/passwd, or root's. `strict_groups`: the groups that the container's /etc/group gives the user
    are not added. Capabilities are names as in a Pod ("NET_ADMIN", "ALL"), applied to containerd's default set in
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


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """A container's share of the node, for its cgroup: memory in bytes, processors in thousandths. None: no limit."""

    memory: int | None = None
    cpu_millis: int | None = None
    cpu_request_millis: int = 0
    pids: int | None = None
    oom_score_adj: int = 0


class ContainerSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one container. `command` replaces the image's entrypoint, `args` its command, as in a Pod."""

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
    stdin: bool = False  # keep its standard input open for `open_attach`
    stdin_once: bool = False  # and close it when the first session that has it does
    tty: bool = False


class ContainerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """`state` is "running" or "exited"; times are seconds since the epoch; `exit_code` is 128 + signal for a killed
    one."""

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
    signal: int | None = None
    is_oom_killed: bool = False
    message: str = ""  # the last words of /dev/termination-log


class SandboxInfo(msgspec.Struct, frozen=True, kw_only=True):
    pod_uid: str
    namespace: str
    name: str
    ips: tuple[str, ...]
    netns: str  # path that setns(2) accepts; "" with host_network


class RuntimeFeatures(msgspec.Struct, frozen=True, kw_only=True):
    """What the runtime can do on this node. `limits` is why `Limits` are not enforced; "" if they are."""

    limits: str = ""


class ExecResult(msgspec.Struct, frozen=True, kw_only=True):
    exit_code: int
    output: bytes


class ExecSession(Protocol):
    """A running command whose standard streams are ours. Used by exec, attach and port-forward."""

    stdin_fd: int | None  # close it for end of input
    stdout_fd: int | None
    stderr_fd: int | None  # None with a terminal: everything comes on stdout_fd

    async def wait(self) -> int:
        """The exit code."""
        ...

    def resize(self, columns: int, rows: int) -> None: ...

    async def close(self) -> None:
        """End the command if it still runs."""
        ...


class Runtime(Protocol):
    async def find_features(self) -> RuntimeFeatures: ...

    async def find_image(self, name: str) -> Image:
        """Raises `ImageUnavailable`."""
        ...

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        """Make the pod's namespaces, or find them if they are there already. Raises `RuntimeFailure`."""
        ...

    async def remove_sandbox(self, pod_uid: str) -> None:
        """Kill what still runs in it and remove its namespaces and container files. Fine if it is gone already."""
        ...

    async def list_sandboxes(self) -> list[SandboxInfo]: ...

    async def start_container(self, spec: ContainerSpec) -> ContainerInfo:
        """Raises `RuntimeFailure`, for example when the program does not exist in the image."""
        ...

    async def signal_container(self, container_id: str, signal: int) -> None:
        """Send `signal` to its first process. Fine if it has exited already."""
        ...

    async def list_containers(self) -> list[ContainerInfo]:
        """All containers of the node's sandboxes, exited ones included (the newest attempt of each)."""
        ...

    async def exec_in_container(self, container_id: str, argv: tuple[str, ...], *, timeout: float) -> ExecResult:
        """Run to the end, output bounded to 10 KiB. Raises `RuntimeFailure`, `TimeoutError` (the command is ended)."""
        ...

    async def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool = True
    ) -> ExecSession: ...

    async def open_attach(self, container_id: str, *, stdin: bool, stderr: bool = True) -> ExecSession:
        """A session on the container's own streams, from now on; it has a terminal if the container has one. `wait`
        gives the container's exit code, or 0 for a session that ends before because its output is not read; `close`
        leaves the container alone. Raises `RuntimeFailure`."""
        ...

    async def open_port(self, pod_uid: str, port: int) -> socket.socket:
        """A non-blocking stream to a port on the pod's own loopback. Raises `RuntimeFailure`, also when it is
        refused."""
        ...

    def exits(self) -> AsyncIterator[ContainerInfo]:
        """Containers as they exit, from now on. Raises `RuntimeFailure` when the runtime cannot be heard any more; what
        was missed by then, list_containers tells."""
        ...
