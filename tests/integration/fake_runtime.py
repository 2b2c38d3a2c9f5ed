"""A runtime in memory for tests of the kubelet, without processes; it rejects what the real one rejects.

Containers run until `finish` or a signal ends them. `Behaviour` defines how the containers of an image act.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import signal as signals
import socket
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from bridgehead.kubelet.runtimes.runtime import (
    ContainerInfo,
    ContainerRefused,
    ContainerSpec,
    ExecResult,
    ExecSession,
    Image,
    ImageUnavailable,
    Limits,
    Mount,
    RuntimeFailure,
    RuntimeFeatures,
    SandboxInfo,
    SandboxMissing,
    SandboxSpec,
    Seccomp,
)

Exec = Callable[[ContainerSpec, tuple[str, ...]], ExecResult]


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """The behaviour of an image's containers. `exits_with`: a container ends as soon as it has started.

    `ignores_term`: only SIGKILL ends it. `volumes` are those that the image declares. `refused`: the reason why no
    container is created.
    """

    exits_with: int | None = None
    volumes: tuple[str, ...] = ()
    ignores_term: bool = False
    term_exit_code: int = 143
    fails_to_start: str = ""
    refused: ImageUnavailable | ContainerRefused | None = None
    exec: Exec = lambda spec, argv: ExecResult(exit_code=0, output=b"")


class FakeSession:
    """A command whose streams are real pipes: `argv` is "cat", or "fail" and an exit code.

    `sizes` are the terminal sizes that were set, as (columns, rows). With `on_input_end`, which is called at the end of
    the input, the command lasts until `end`.
    """

    def __init__(
        self, argv: tuple[str, ...], *, stdin: bool, stderr: bool, on_input_end: Callable[[], None] | None = None
    ) -> None:
        self.argv = argv
        self._on_input_end = on_input_end
        self.sizes: list[tuple[int, int]] = []
        self._command_ends: list[int] = []
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.stdin_fd = self._pipe(writes=False) if stdin else None
        self._stdin = self._command_ends[-1] if stdin else None
        self.stdout_fd: int | None = self._pipe(writes=True)
        self._stdout = self._command_ends[-1]
        self.stderr_fd = self._pipe(writes=True) if stderr else None
        if argv[0] == "fail":
            os.write(self._command_ends[-1], b"failing\n")
            self.end(int(argv[1]))
        elif self._stdin is None:
            if on_input_end is None:
                self.end(0)
        else:
            asyncio.get_running_loop().add_reader(self._stdin, self._copy)

    def _pipe(self, *, writes: bool) -> int:
        """Make a pipe; the command keeps one end, the other is returned."""
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._command_ends.append(writer if writes else reader)
        return reader if writes else writer

    def _copy(self) -> None:
        if self._stdin is None:
            return
        data = os.read(self._stdin, 4096)
        if data:
            with contextlib.suppress(BrokenPipeError):  # nobody listens any more
                os.write(self._stdout, data)
        elif self._on_input_end is None:
            self.end(0)
        else:
            asyncio.get_running_loop().remove_reader(self._stdin)
            self._on_input_end()

    def end(self, exit_code: int) -> None:
        """End the command. Does nothing after its end."""
        if self._ended.done():
            return
        if self._stdin is not None:
            asyncio.get_running_loop().remove_reader(self._stdin)
        for fd in self._command_ends:
            os.close(fd)
        self._command_ends.clear()
        self._ended.set_result(exit_code)

    async def wait(self) -> int:
        return await asyncio.shield(self._ended)

    def resize(self, columns: int, rows: int) -> None:
        self.sizes.append((columns, rows))

    async def close(self) -> None:
        """Close the streams. A command goes on until it has read its input; an attachment ends."""
        if self._on_input_end is not None:
            self.end(0)
        for fd in (self.stdin_fd, self.stdout_fd, self.stderr_fd):
            if fd is not None:
                os.close(fd)
        self.stdin_fd = self.stdout_fd = self.stderr_fd = None


class FakeRuntime:
    """A `Runtime` whose state tests read and set.

    `features` is the result of `find_features`. `sandbox_specs` and `specs` are the sandboxes and the containers
    started so far, oldest first; `users` the users that images name; `memory_used` the memory that each container uses,
    in bytes; `signals` the signals sent to containers, as (name, number); `sessions` the commands opened in containers,
    and `attached` the sessions on their own streams, by container id.
    """

    def __init__(self, images: dict[str, Behaviour] | None = None) -> None:
        self.images = {"app:1": Behaviour()} if images is None else images
        self.features = RuntimeFeatures()
        self.users: dict[str, str] = {}
        self.memory_used = 0
        self.sandbox_specs: list[SandboxSpec] = []
        self.specs: list[ContainerSpec] = []
        self.signals: list[tuple[str, int]] = []
        self.layers: dict[str, int] = {}  # bytes in the layers of containers, by name
        self.sessions: list[FakeSession] = []
        self.attached: dict[str, list[FakeSession]] = {}
        self.sandboxes: dict[str, SandboxInfo] = {}
        self.containers: dict[str, ContainerInfo] = {}
        self._numbers = itertools.count(1)
        self._listeners: list[asyncio.Queue[ContainerInfo]] = []

    async def find_features(self) -> RuntimeFeatures:
        return self.features

    async def find_image(self, name: str) -> Image:
        if name not in self.images:
            raise ImageUnavailable(f"{name}: not in the local image store and no stand-in plays it")
        user, volumes = self.users.get(name, ""), self.images[name].volumes
        return Image(name=name, id=f"fake://{name}", source="store", user=user, volumes=volumes)

    async def run_sandbox(self, spec: SandboxSpec) -> SandboxInfo:
        if spec.pod_uid in self.sandboxes:
            return self.sandboxes[spec.pod_uid]
        if not spec.host_network and not spec.ips:
            raise RuntimeFailure("a pod without the host's network needs an address")
        if taken := {ip for sandbox in self.sandboxes.values() for ip in sandbox.ips} & set(spec.ips):
            raise RuntimeFailure(f"address {taken.pop()} is taken")
        netns = "" if spec.host_network else f"/run/netns/{spec.pod_uid}"
        info = SandboxInfo(pod_uid=spec.pod_uid, namespace=spec.namespace, name=spec.name, ips=spec.ips, netns=netns)
        self.sandboxes[spec.pod_uid] = info
        self.sandbox_specs.append(spec)
        return info

    async def update_sandbox(self, pod_uid: str, limits: Limits) -> None:
        if pod_uid not in self.sandboxes:
            raise SandboxMissing
        self._check_memory(limits)
        index = next(i for i, spec in enumerate(self.sandbox_specs) if spec.pod_uid == pod_uid)
        self.sandbox_specs[index] = msgspec.structs.replace(self.sandbox_specs[index], limits=limits)

    def _check_memory(self, limits: Limits) -> None:
        if limits.memory is not None and limits.memory < self.memory_used:
            raise RuntimeFailure(
                f"attempting to set a memory limit ({limits.memory}) below the current usage ({self.memory_used})"
            )

    async def remove_sandbox(self, pod_uid: str) -> None:
        for info in [c for c in self.containers.values() if c.pod_uid == pod_uid]:
            if info.state == "running":
                self.finish(info.id, 128 + signals.SIGKILL)
            del self.containers[info.id]
        self.sandboxes.pop(pod_uid, None)

    async def list_sandboxes(self) -> list[SandboxInfo]:
        return list(self.sandboxes.values())

    async def start_container(self, spec: ContainerSpec) -> ContainerInfo:
        if spec.pod_uid not in self.sandboxes:
            raise SandboxMissing
        for mount in spec.mounts:
            _check_mount(mount)
        _check_seccomp(spec.security.seccomp)
        target = self.containers.get(spec.target)
        if spec.target and (target is None or target.state != "running"):
            raise RuntimeFailure("container is not running")
        others = [c for c in self.containers.values() if c.pod_uid == spec.pod_uid and c.name == spec.name]
        if any(c.state == "running" for c in others):
            raise RuntimeFailure(f"container {spec.name} runs already")
        behaviour = self.images[spec.image.name]
        if behaviour.refused is not None:
            raise behaviour.refused
        if behaviour.fails_to_start:
            raise RuntimeFailure(behaviour.fails_to_start)
        for other in others:
            del self.containers[other.id]
        for volume in range(len(spec.image.volumes)):
            os.makedirs(f"{spec.volume_directory}/{volume}")
        number = next(self._numbers)
        info = ContainerInfo(
            id=f"{number:064x}",
            pod_uid=spec.pod_uid,
            name=spec.name,
            attempt=spec.attempt,
            image=spec.image,
            state="running",
            pid=100000 + number,
            started_at=time.time(),
        )
        self.specs.append(spec)
        self.containers[info.id] = info
        if behaviour.exits_with is not None:
            asyncio.get_running_loop().call_soon(self.finish, info.id, behaviour.exits_with)
        return info

    async def update_container(self, container_id: str, limits: Limits) -> None:
        info = self.containers.get(container_id)
        if info is None or info.state != "running":
            raise RuntimeFailure("container is not running")
        self._check_memory(limits)
        index = self.specs.index(self._spec(info))
        self.specs[index] = msgspec.structs.replace(self.specs[index], limits=limits)

    async def signal_container(self, container_id: str, signal: int) -> None:
        info = self.containers.get(container_id)
        if info is None or info.state != "running":
            return
        self.signals.append((info.name, signal))
        behaviour = self.images[info.image.name]
        if signal == signals.SIGKILL:
            self.finish(container_id, 128 + signal)
        elif signal == signals.SIGTERM and not behaviour.ignores_term:
            self.finish(container_id, behaviour.term_exit_code)

    async def measure_layers(self, pod_uid: str) -> dict[str, int]:
        running = (one for one in self.containers.values() if one.pod_uid == pod_uid and one.state == "running")
        return {one.name: self.layers.get(one.name, 0) for one in running}

    async def list_containers(self) -> list[ContainerInfo]:
        return list(self.containers.values())

    async def exec_in_container(self, container_id: str, argv: tuple[str, ...], *, timeout: float) -> ExecResult:
        info = self.containers.get(container_id)
        if info is None or info.state != "running":
            raise RuntimeFailure(f"container {container_id} does not run")
        return self.images[info.image.name].exec(self._spec(info), argv)

    async def open_exec(
        self, container_id: str, argv: tuple[str, ...], *, stdin: bool, tty: bool, stderr: bool = True
    ) -> ExecSession:
        info = self.containers.get(container_id)
        if info is None or info.state != "running":
            raise RuntimeFailure(f"container {container_id} does not run")
        session = FakeSession(argv, stdin=stdin, stderr=stderr and not tty)
        self.sessions.append(session)
        return session

    async def open_attach(self, container_id: str, *, stdin: bool, stderr: bool = True) -> ExecSession:
        """Attach to a container that copies its input to its output, as cat does."""
        info = self.containers.get(container_id)
        if info is None or info.state != "running":
            raise RuntimeFailure("container is not running")
        spec = self._spec(info)
        if stdin and not spec.stdin:
            raise RuntimeFailure("the container has no standard input to attach to")

        def on_input_end() -> None:
            if spec.stdin_once:
                self.finish(container_id, 0)

        session = FakeSession(("cat",), stdin=stdin, stderr=stderr and not spec.tty, on_input_end=on_input_end)
        self.attached.setdefault(container_id, []).append(session)
        return session

    def _spec(self, info: ContainerInfo) -> ContainerSpec:
        return next(s for s in self.specs if (s.pod_uid, s.name, s.attempt) == (info.pod_uid, info.name, info.attempt))

    async def open_port(self, pod_uid: str, port: int) -> socket.socket:
        """Connect to the test's own loopback, which stands for the pod's."""
        if pod_uid not in self.sandboxes:
            raise SandboxMissing
        stream = socket.socket()
        stream.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(stream, ("127.0.0.1", port))
        except OSError as error:
            stream.close()
            raise RuntimeFailure(f"dial tcp4 127.0.0.1:{port}: connect: {(error.strerror or '').lower()}") from error
        return stream

    async def exits(self) -> AsyncIterator[ContainerInfo]:
        queue: asyncio.Queue[ContainerInfo] = asyncio.Queue()
        self._listeners.append(queue)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove(queue)

    # Events in the runtime, caused by tests.

    def finish(self, container_id: str, exit_code: int, message: str = "", *, is_oom_killed: bool = False) -> None:
        """End the container's process."""
        info = self.containers.get(container_id)
        if info is None or info.state != "running":
            return
        ended = msgspec.structs.replace(
            info,
            state="exited",
            finished_at=time.time(),
            exit_code=exit_code,
            message=message,
            is_oom_killed=is_oom_killed,
        )
        self.containers[container_id] = ended
        for session in self.attached.pop(container_id, ()):
            session.end(exit_code)
        for queue in self._listeners:
            queue.put_nowait(ended)

    def lose(self, pod_uid: str) -> None:
        """Forget a sandbox without notifications, as when the node's runtime is killed."""
        self.sandboxes.pop(pod_uid, None)
        for info in [c for c in self.containers.values() if c.pod_uid == pod_uid]:
            del self.containers[info.id]


def _check_mount(mount: Mount) -> None:
    if not mount.image and not os.path.exists(mount.source):
        raise RuntimeFailure(f"mount source {mount.source} does not exist")
    if mount.sub_path.startswith("/") or ".." in mount.sub_path.split("/"):
        raise RuntimeFailure(f"{mount.sub_path} leads out of the volume")


def _check_seccomp(profile: Seccomp) -> None:
    if profile.kind not in ("RuntimeDefault", "Unconfined", "Localhost"):
        raise RuntimeFailure(f"unknown seccomp profile type {profile.kind}")
    if profile.kind == "Localhost" and not os.path.isfile(profile.path):
        raise RuntimeFailure(f'cannot load seccomp profile "{profile.path}": No such file or directory')
