"""Tasks: the process, streams and exit status of one run of a container, from its start until it is removed.

A task is what containerd calls a task and does what a containerd shim does: it holds the container's pipes or terminal,
writes the log and reports the exit.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import time
from typing import Final

from bridgehead.kubelet.runtimes.isolation.container_cgroups import ContainerCgroup, PodCgroup
from bridgehead.kubelet.runtimes.runtime import ContainerInfo, ContainerSpec, Image, Limits, RuntimeFailure
from bridgehead.kubelet.runtimes.spawn import program_start
from bridgehead.kubelet.runtimes.spawn.jobs import Part, RunContainer, StandInProgram
from bridgehead.kubelet.runtimes.spawn.zygote import FORK_IN_GIVEN, FORK_IN_NEW, FORK_IN_NODE, Zygote

from . import coroutines, log_writer, process_ledger
from .attached_output import Attachment
from .cgroup_removal import remove_cgroup
from .child_processes import Child
from .coroutines import Outcome
from .process_ledger import ProcessLedger
from .reactor import Reactor
from .sandboxes import Sandbox

TERMINATION_MESSAGE_LIMIT: Final = 4096  # bytes, as the kubelet's
_LOG_CHUNK: Final = 64 << 10  # bytes
_NAMESPACES: Final = {program_start.MOUNT_NAMESPACE: "mnt", program_start.PID_NAMESPACE: "pid"}
_CHUNKS_PER_ROUND: Final = 16  # copied from one container before the other containers get their turn


class Task:
    """A run of a container. `started` is known when its program runs, or has the failure; `ended` is known when the
    process is gone, also after a failure."""

    def __init__(
        self,
        reactor: Reactor,
        job: RunContainer,
        sandbox: Sandbox,
        image: Image,
        pod_group: PodCgroup | None,
        ledger: ProcessLedger,
        host: Task | None = None,
    ) -> None:
        """`host`: the task whose PID namespace this one shares."""
        self.job = job
        self._host = host
        self.sandbox = sandbox
        self.namespaces: dict[str, int] = {}  # descriptors of its mount and PID namespaces, while it runs
        self.id = secrets.token_hex(32)
        self._reactor = reactor
        self._image = image
        self._pod_group = pod_group
        self._group: ContainerCgroup | None = None
        self._is_oom_killed = False
        self._ledger = ledger
        self._log: log_writer.LogFile | None = None
        self._streams: dict[int, log_writer.LineCutter] = {}
        self._messages = -1
        self._stdin = -1
        self._terminal = -1
        self._attachments: list[Attachment] = []
        self._child: Child | None = None
        self._started_at = time.time()
        self._finished_at: float | None = None
        self._exit_code: int | None = None
        self._message = ""
        self.is_started = False
        self.started: Outcome[None] = Outcome()
        self.ended: Outcome[None] = Outcome()

    @property
    def spec(self) -> ContainerSpec:
        return self.job.spec

    def fork(self, zygote: Zygote) -> None:
        """Raises `RuntimeFailure`."""
        spec = self.spec
        where, pid_namespace = self._choose_pid_namespace()
        child_ends: list[int] = []
        try:
            if spec.log_path:
                self._log = log_writer.LogFile(spec.log_path)
            if self.job.has_stdin:
                stdin, self._stdin = os.pipe2(os.O_CLOEXEC)
                child_ends.append(stdin)
            if not spec.tty:
                for stream in ("stdout", "stderr"):
                    self._make_output(stream, child_ends)
            if self.sandbox.user_namespace is not None:
                child_ends.append(os.dup(self.sandbox.user_namespace))
            if self._pod_group is not None:
                self._group = self._pod_group.make(self.id, spec.limits)
                child_ends.append(self._group.open_procs())
            if isinstance(self.job.program.built_in, StandInProgram):
                zygote.load(self.job.program.built_in.name)
            child = self._child = Child(
                self._reactor,
                zygote,
                self.job,
                [*(self.sandbox.descriptors[kind] for kind in self.job.namespaces), *child_ends],
                where=where,
                pid_namespace=pid_namespace,
                for_part=isinstance(self.job.program.built_in, Part),
            )
        except OSError as error:
            self._close_streams()
            self._remove_group()
            raise RuntimeFailure(f"failed to start container: {error}") from error
        finally:
            for fd in child_ends:
                os.close(fd)
        for reader in self._streams:
            self._reactor.watch(reader, functools.partial(self._copy, reader))
        coroutines.start(self._follow(child))

    def _choose_pid_namespace(self) -> tuple[bytes, int | None]:
        """Return where to fork, and the descriptor of a namespace that exists. Raises `RuntimeFailure`."""
        if self.sandbox.spec.host_pid:
            return FORK_IN_NODE, None
        if self._host is None:
            return FORK_IN_NEW, None
        if "pid" not in self._host.namespaces:
            raise RuntimeFailure("container is not running")
        return FORK_IN_GIVEN, self._host.namespaces["pid"]

    def _make_output(self, stream: str, child_ends: list[int]) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        child_ends.append(writer)
        os.set_blocking(reader, False)
        self._streams[reader] = log_writer.LineCutter(stream)

    def attach(self, *, stdin: bool, stderr: bool) -> tuple[Attachment, list[int]]:
        """Attach to the streams. Returns the attachment and the descriptors for the kubelet: the terminal's master,
        or (if asked for) stdin, then stdout, then stderr (if separate). Raises `RuntimeFailure`."""
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
        attachment = Attachment(separate_stderr=stderr and self._terminal < 0)
        self._attachments = [*self._lasting_attachments(), attachment]
        return attachment, [*descriptors, *attachment.take_readers()]

    def _lasting_attachments(self) -> list[Attachment]:
        return [attachment for attachment in self._attachments if not attachment.ended.is_known]

    @property
    def pid(self) -> int:
        """The PID in the runtime's PID namespace, also after the exit."""
        return self._child.pid if self._child is not None else 0

    @property
    def is_running(self) -> bool:
        return self._child is not None and self._child.is_alive

    def signal(self, number: int) -> None:
        if self._child is not None:
            self._child.signal(number)

    def update(self, limits: Limits) -> None:
        """Change the limits. Does nothing without a cgroup. Raises `RuntimeFailure`."""
        if self._group is None:
            return
        try:
            self._group.update(limits)
        except OSError as error:
            raise RuntimeFailure(f"failed to update the limits of the container: {error}") from error

    def measure_layer(self) -> int:
        """Return the bytes that the container has written to its own layer. Raises OSError when it ends."""
        if "" in self.job.root.copied:  # on the node's disk, where the kubelet measures it
            return 0
        disk = os.statvfs(f"/proc/{self.pid}/root")
        return (disk.f_blocks - disk.f_bfree) * disk.f_frsize

    @property
    def info(self) -> ContainerInfo:
        spec = self.spec
        return ContainerInfo(
            id=self.id,
            pod_uid=spec.pod_uid,
            name=spec.name,
            attempt=spec.attempt,
            image=self._image,
            state="running" if self._exit_code is None else "exited",
            pid=self.pid if self._exit_code is None else 0,
            started_at=self._started_at,
            finished_at=self._finished_at,
            exit_code=self._exit_code,
            is_oom_killed=self._is_oom_killed,
            message=self._message,
            user=None if self._child is None else self._child.user,
        )

    async def _follow(self, child: Child) -> None:
        """The life of the process, from its fork on."""
        try:
            await child.started
        except RuntimeFailure as failure:
            self._close_streams()
            self._remove_group()
            self.started.fail(failure)
            self.ended.set(None)
            return
        self._started_at = time.time()
        self._take_descriptors(child)
        self._ledger.add(child.pid)
        self.is_started = True
        self.started.set(None)
        code = await child.exited
        try:
            self._finish(code)
        finally:
            self._ledger.remove(child.pid)
            self.ended.set(None)

    def _take_descriptors(self, child: Child) -> None:
        self._messages = child.take(program_start.TERMINATION_LOG)
        for kind, name in _NAMESPACES.items():
            namespace = child.take(kind)
            if namespace >= 0:
                self.namespaces[name] = namespace
        self._terminal = child.take(program_start.TERMINAL)
        if self._terminal >= 0:
            os.set_blocking(self._terminal, False)
            self._streams[self._terminal] = log_writer.LineCutter("stdout")
            self._reactor.watch(self._terminal, functools.partial(self._copy, self._terminal))

    def _finish(self, exit_code: int) -> None:
        """Read what the process left, and release what it had."""
        self._finished_at = time.time()
        self._exit_code = exit_code
        if self._group is not None:
            with contextlib.suppress(OSError):
                self._is_oom_killed = self._group.oom_kills() > 0
        self._remove_group()
        if (self.sandbox.spec.host_pid or self._host is not None) and "mnt" in self.namespaces:
            process_ledger.kill_members(self.namespaces["mnt"])  # otherwise they end with the PID namespace
        for fd in list(self._streams):
            while fd in self._streams and self._copy(fd):
                pass
        if self._messages >= 0:
            self._message = os.pread(self._messages, TERMINATION_MESSAGE_LIMIT, 0).decode("utf-8", "replace")
        self._close_streams()
        for attachment in self._attachments:
            attachment.end(exit_code)
        self._attachments = []

    def open_cgroup(self) -> int | None:
        """A descriptor by which a process joins the cgroup (see `ContainerCgroup.open_procs`). Raises OSError."""
        return None if self._group is None else self._group.open_procs()

    def _remove_group(self) -> None:
        group, self._group = self._group, None
        if group is not None:
            remove_cgroup(self._reactor, group)

    # Output.

    def _copy(self, fd: int) -> bool:
        """Copy available output to the log and to attachments; False when nothing is left for now."""
        cutter = self._streams[fd]
        timestamp = log_writer.timestamp(time.time_ns())
        for _ in range(_CHUNKS_PER_ROUND):
            try:
                data = os.read(fd, _LOG_CHUNK)
            except BlockingIOError:
                return False
            except OSError:  # EIO: no process has the terminal open any more
                data = b""
            if not data:
                self._close_stream(fd)
                return False
            if self._log is not None:
                self._log.write(cutter.feed(data, timestamp))
            for attachment in self._attachments:
                if not attachment.write(data, cutter.stream):
                    attachment.end()
            self._attachments = self._lasting_attachments()
        return True

    def _close_stream(self, fd: int) -> None:
        cutter = self._streams.pop(fd)
        if self._log is not None:
            self._log.write(cutter.finish(log_writer.timestamp(time.time_ns())))
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
