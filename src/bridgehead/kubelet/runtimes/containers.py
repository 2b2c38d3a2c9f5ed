"""One container: what its image and its Pod make of it, and the runtime's record of it until it is removed."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import secrets
import time
from collections.abc import Callable
from typing import Final

from bridgehead.kubelet.runtimes import leftovers, logs, processes, rootfs
from bridgehead.kubelet.runtimes.cgroups import ContainerGroup, Delegation
from bridgehead.kubelet.runtimes.children import Child, Exit, Listener
from bridgehead.kubelet.runtimes.images import FoundImage
from bridgehead.kubelet.runtimes.jobs import RunContainer
from bridgehead.kubelet.runtimes.reactor import Reactor
from bridgehead.kubelet.runtimes.rootfs import RootPlan
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, ContainerSpec, Image, RuntimeFailure
from bridgehead.kubelet.runtimes.sandboxes import Sandbox
from bridgehead.kubelet.runtimes.zygote import IN_NEW, IN_NODE, Zygote

TERMINATION_MESSAGE_LIMIT: Final = 4096
_LOG_CHUNK: Final = 64 << 10
_TAP_SIZE: Final = 1 << 20
_NAMESPACES: Final = {processes.MOUNT_NAMESPACE: "mnt", processes.PID_NAMESPACE: "pid"}
_GROUP_ENDS_SECONDS: Final = 0.1
_LOG_ROUNDS: Final = 16  # how much one container may write before the others are looked after


def plan_argv(image: Image, spec: ContainerSpec) -> tuple[str, ...]:
    """A Pod's `command` replaces entrypoint and command of the image; its `args` only the command."""
    if spec.command:
        return (*spec.command, *spec.args)
    return (*image.entrypoint, *(spec.args or image.command))


def plan_environment(image: Image, spec: ContainerSpec, hostname: str) -> dict[str, str]:
    """Without HOME, which is known when the container's /etc/passwd is."""
    return {"PATH": processes.DEFAULT_PATH, "HOSTNAME": hostname, **image.env, **spec.env}


def plan_working_dir(image: Image, spec: ContainerSpec) -> str:
    return spec.working_dir or image.working_dir or "/"


class Tap:
    """One who listens to a container's output, over pipes. Who does not read them is cut off, not the container."""

    def __init__(self, container: Container, on_end: Callable[[int], None], *, apart: bool) -> None:
        self.on_end = on_end
        self._container = container
        self._writers: dict[str, int] = {}
        self._readers: list[int] = []
        for stream in ("stdout", "stderr") if apart else ("stdout",):
            reader, writer = os.pipe2(os.O_CLOEXEC)
            os.set_blocking(writer, False)
            with contextlib.suppress(OSError):  # more than an ordinary user may have: the default then
                fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, _TAP_SIZE)
            self._writers[stream] = writer
            self._readers.append(reader)

    def take_readers(self) -> list[int]:
        readers, self._readers = self._readers, []
        return readers

    def write(self, data: bytes, stream: str) -> bool:
        """False when the listener has gone or does not keep up."""
        try:
            return os.write(self._writers.get(stream, self._writers["stdout"]), data) == len(data)
        except OSError:
            return False

    def end(self) -> None:
        """The listener has gone or is cut off; the container runs on. Fine if it has ended."""
        if self._container.detach(self):
            self.on_end(0)

    def close(self) -> None:
        for fd in (*self._writers.values(), *self._readers):
            os.close(fd)


class Container(Listener):
    """The runtime's record. `on_start` is called once, with what went wrong or None; `on_end` when it has exited."""

    def __init__(
        self,
        reactor: Reactor,
        job: RunContainer,
        sandbox: Sandbox,
        found: FoundImage,
        delegation: Delegation | None,
        *,
        on_start: Callable[[Container, RuntimeFailure | None], None],
        on_end: Callable[[Container], None],
    ) -> None:
        self.job = job
        self.sandbox = sandbox
        self.namespaces: dict[str, int] = {}  # its own mount and PID namespaces, by kind, while it runs
        self.id = secrets.token_hex(32)
        self._reactor = reactor
        self._image = found.image
        self._delegation = delegation
        self._group: ContainerGroup | None = None
        self._is_oom_killed = False
        self._on_start = on_start
        self._on_end = on_end
        self._log: logs.LogFile | None = None
        self._streams: dict[int, logs.LineCutter] = {}
        self._messages = -1
        self._stdin = -1
        self._terminal = -1
        self._taps: list[Tap] = []
        self._child: Child | None = None
        self._started_at = time.time()
        self._finished_at: float | None = None
        self._exit: Exit | None = None
        self._message = ""
        self.is_started = False

    @property
    def spec(self) -> ContainerSpec:
        return self.job.spec

    def fork(self, zygote: Zygote) -> None:
        """Raises `RuntimeFailure`."""
        spec = self.spec
        theirs: list[int] = []
        try:
            if spec.log_path:
                self._log = logs.LogFile(spec.log_path)
            if self.job.has_stdin:
                stdin, self._stdin = os.pipe2(os.O_CLOEXEC)
                theirs.append(stdin)
            if not spec.tty:
                for stream in ("stdout", "stderr"):
                    self._make_output(stream, theirs)
            if self._delegation is not None:
                self._group = self._delegation.make(self.id, spec.limits)
                theirs.append(self._group.open_procs())
            self._child = Child(
                self._reactor,
                zygote,
                self.job,
                [*(self.sandbox.descriptors[kind] for kind in self.job.namespaces), *theirs],
                self,
                where=IN_NODE if self.sandbox.spec.host_pid else IN_NEW,
            )
        except OSError as error:
            self._close_streams()
            self._remove_group()
            raise RuntimeFailure(f"failed to start container: {error}") from error
        finally:
            for fd in theirs:
                os.close(fd)
        for reader in self._streams:
            self._reactor.watch(reader, functools.partial(self._copy, reader))

    def _make_output(self, stream: str, theirs: list[int]) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        theirs.append(writer)
        os.set_blocking(reader, False)
        self._streams[reader] = logs.LineCutter(stream)

    def attach(self, *, stdin: bool, stderr: bool, on_end: Callable[[int], None]) -> tuple[Tap, list[int]]:
        """Listen in; returns the descriptors for the other side: the terminal or (if asked for) stdin, stdout, stderr.
        Raises `RuntimeFailure`."""
        if not self.is_running:
            raise RuntimeFailure("container is not running")
        descriptors = []
        if self._terminal >= 0:
            descriptors.append(os.dup(self._terminal))
        elif stdin:
            if self._stdin < 0:
                raise RuntimeFailure("the container has no standard input to attach to")
            descriptors.append(os.dup(self._stdin))
            if self.spec.stdin_once:
                os.close(self._stdin)
                self._stdin = -1
        tap = Tap(self, on_end, apart=stderr and self._terminal < 0)
        self._taps.append(tap)
        return tap, [*descriptors, *tap.take_readers()]

    def detach(self, tap: Tap) -> bool:
        """False if it is not attached any more."""
        if tap not in self._taps:
            return False
        self._taps.remove(tap)
        tap.close()
        return True

    @property
    def pid(self) -> int:
        """As the runtime sees it; it is remembered after the exit."""
        return self._child.pid if self._child is not None else 0

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_alive

    def signal(self, number: int) -> None:
        if self._child is not None:
            self._child.signal(number)

    @property
    def info(self) -> ContainerInfo:
        spec = self.spec
        return ContainerInfo(
            id=self.id,
            pod_uid=spec.pod_uid,
            name=spec.name,
            attempt=spec.attempt,
            image=self._image,
            state="running" if self._exit is None else "exited",
            pid=self.pid if self._exit is None else 0,
            started_at=self._started_at,
            finished_at=self._finished_at,
            exit_code=None if self._exit is None else self._exit.code,
            signal=None if self._exit is None else self._exit.signal,
            is_oom_killed=self._is_oom_killed,
            message=self._message,
        )

    # What the child tells.

    def on_descriptor(self, kind: bytes, fd: int) -> None:
        if kind == processes.TERMINATION_LOG and self._messages < 0:
            self._messages = fd
        elif kind in _NAMESPACES and _NAMESPACES[kind] not in self.namespaces:
            self.namespaces[_NAMESPACES[kind]] = fd
        elif kind == processes.TERMINAL and self._terminal < 0:
            self._terminal = fd
            os.set_blocking(fd, False)
            self._streams[fd] = logs.LineCutter("stdout")
            self._reactor.watch(fd, functools.partial(self._copy, fd))
        else:
            os.close(fd)

    def on_started(self) -> None:
        self._started_at = time.time()
        self.is_started = True
        self._on_start(self, None)

    def on_failed(self, reason: str) -> None:
        self._close_streams()
        self._remove_group()
        self._on_start(self, RuntimeFailure(reason))

    def on_exit(self, exit: Exit) -> None:
        self._finished_at = time.time()
        self._exit = exit
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._is_oom_killed = self._group.oom_kills() > 0
        self._remove_group()
        if self.sandbox.spec.host_pid and "mnt" in self.namespaces:
            leftovers.kill_members(self.namespaces["mnt"])  # elsewhere they end with the PID namespace
        for fd in list(self._streams):
            while fd in self._streams and self._copy(fd):
                pass
        if self._messages >= 0:
            self._message = os.pread(self._messages, TERMINATION_MESSAGE_LIMIT, 0).decode("utf-8", "replace")
        self._close_streams()
        taps, self._taps = self._taps, []
        for tap in taps:
            tap.close()
            tap.on_end(exit.code)
        self._on_end(self)

    def open_cgroup(self) -> int | None:
        """For a process that is to be a member (see `ContainerGroup.open_procs`). Raises OSError."""
        return None if self._group is None else self._group.open_procs()

    def _remove_group(self) -> None:
        """And all that is left in it; what has not ended yet is looked for again."""
        if self._group is None:
            return
        with contextlib.suppress(OSError):
            self._group.kill()
            if self._group.remove():
                self._group = None
                return
        self._reactor.call_later(_GROUP_ENDS_SECONDS, self._remove_group)

    # Its output.

    def _copy(self, fd: int) -> bool:
        """Copy what there is to the log; False when nothing is left for now."""
        cutter = self._streams[fd]
        stamp = logs.timestamp(time.time_ns())
        for _ in range(_LOG_ROUNDS):
            try:
                data = os.read(fd, _LOG_CHUNK)
            except BlockingIOError:
                return False
            except OSError:  # a terminal whose last user has gone
                data = b""
            if not data:
                self._close_stream(fd)
                return False
            if self._log is not None:
                self._log.write(cutter.feed(data, stamp))
            for tap in list(self._taps):
                if not tap.write(data, cutter.stream):
                    tap.end()
        return True

    def _close_stream(self, fd: int) -> None:
        cutter = self._streams.pop(fd)
        if self._log is not None:
            self._log.write(cutter.finish(logs.timestamp(time.time_ns())))
        self._reactor.unwatch(fd)
        os.close(fd)
        if fd == self._terminal:
            self._terminal = -1

    def _close_streams(self) -> None:
        for fd in list(self._streams):
            self._close_stream(fd)
        if self._log is not None:
            self._log.close()
            self._log = None
        if self._messages >= 0:
            os.close(self._messages)
            self._messages = -1
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1
        for namespace in self.namespaces.values():
            os.close(namespace)
        self.namespaces.clear()


def root_of(found: FoundImage, host: RootPlan) -> RootPlan:
    return host if found.rootfs is None else rootfs.plan_image_root(found.rootfs)
