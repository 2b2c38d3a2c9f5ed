"""Commands in a running container: run to the end (`run_command`), or with streams for the kubelet (`ExecStreams`)."""

from __future__ import annotations

import functools
import os
from typing import Final

from bridgehead.kubelet.runtimes.runtime import ExecResult, RuntimeFailure
from bridgehead.kubelet.runtimes.spawn import program_start
from bridgehead.kubelet.runtimes.spawn.jobs import Program, RunCommand
from bridgehead.kubelet.runtimes.spawn.zygote import FORK_IN_GIVEN, Zygote

from . import coroutines
from .child_processes import Child
from .coroutines import Outcome
from .reactor import Reactor
from .tasks import Task

OUTPUT_LIMIT: Final = 10 << 10  # bytes
_CHUNK: Final = 64 << 10  # bytes
# Bytes of output that are dropped for a command that nobody listens to any more. A command with more output gets
# SIGPIPE then.
_DROPPED_LIMIT: Final = 64 << 20


def _fork(
    reactor: Reactor,
    zygote: Zygote,
    task: Task,
    program: Program,
    streams: tuple[int, int, int] | None,
) -> Child:
    """Without `streams` the command gets a terminal of its own. Raises `RuntimeFailure`."""
    namespaces = {**task.sandbox.descriptors, **task.namespaces}
    pid_namespace = namespaces.pop("pid", None)
    if pid_namespace is None:
        raise RuntimeFailure("container is not running")
    descriptors = [*namespaces.values(), *(streams or ())]
    if task.sandbox.user_namespace is not None:
        descriptors.append(task.sandbox.user_namespace)
    procs = None
    try:
        procs = task.open_cgroup()
        job = RunCommand(
            spec=task.spec,
            program=program,
            namespaces=tuple(namespaces),
            has_terminal=streams is None,
            has_cgroup=procs is not None,
            id_base=task.job.id_base,
        )
        if procs is not None:
            descriptors.append(procs)
        return Child(reactor, zygote, job, descriptors, where=FORK_IN_GIVEN, pid_namespace=pid_namespace)
    except OSError as error:
        raise RuntimeFailure(f"failed to exec in container: {error}") from error
    finally:
        if procs is not None:
            os.close(procs)


class _Output:
    """The output of a command from a pipe, up to `OUTPUT_LIMIT`."""

    def __init__(self, reactor: Reactor, reader: int) -> None:
        self._reactor = reactor
        self._reader = reader
        self.data = bytearray()
        os.set_blocking(reader, False)
        reactor.watch(reader, self.read)

    def read(self) -> None:
        """Read what is there."""
        while self._reader >= 0:
            try:
                data = os.read(self._reader, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self.close()
            self.data += data[: max(0, OUTPUT_LIMIT - len(self.data))]

    def close(self) -> None:
        if self._reader >= 0:
            self._reactor.unwatch(self._reader)
            os.close(self._reader)
            self._reader = -1


class _TimeLimit:
    """Kills a command when its time is over; 0 seconds: never."""

    def __init__(self, reactor: Reactor, child: Child, seconds: float) -> None:
        self._child = child
        self.is_over = False
        self._timer = reactor.call_later(seconds, self._kill) if seconds > 0 else None

    def _kill(self) -> None:
        self.is_over = True
        self._child.kill_group()

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


async def run_command(reactor: Reactor, zygote: Zygote, task: Task, program: Program, timeout: float) -> ExecResult:
    """Run a command to its end, or for `timeout` seconds. Raises `RuntimeFailure` or `TimeoutError`."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    try:
        child = _fork(reactor, zygote, task, program, (null, writer, writer))
    except RuntimeFailure:
        os.close(reader)
        raise
    finally:
        os.close(writer)
        os.close(null)
    output, limit = _Output(reactor, reader), _TimeLimit(reactor, child, timeout)
    try:
        await child.started
        code = await child.exited
        output.read()
    finally:
        limit.cancel()
        output.close()
    if limit.is_over:
        raise TimeoutError(f"command timed out after {timeout:g}s")
    return ExecResult(exit_code=code, output=bytes(output.data))


class ExecStreams:
    """A command whose standard streams the kubelet holds, until the kubelet lets go of the command (`end`).

    The runtime keeps the readable ends of the output's pipes as well: without them, a command that reports what it does
    (tar with -v) would be killed while it takes what its client sent before it left.

    `opened` has the failure, or descriptors for the kubelet: the terminal's master, or else stdin (if asked for),
    stdout, stderr (if separate). `ended` is the exit code.
    """

    def __init__(
        self,
        reactor: Reactor,
        zygote: Zygote,
        task: Task,
        program: Program,
        *,
        stdin: bool,
        tty: bool,
        stderr: bool,
    ) -> None:
        self.opened: Outcome[list[int]] = Outcome()
        self.ended: Outcome[int] = Outcome()
        self._reactor = reactor
        self._kubelet_ends: list[int] = []
        self._has_client = True
        self._outputs: dict[int, int] = {}  # readable ends of pipes -> bytes that were dropped
        child_ends: list[int] = []
        try:
            streams = None if tty else self._make_streams(child_ends, stdin=stdin, stderr=stderr)
            child = _fork(reactor, zygote, task, program, streams)
        except RuntimeFailure:
            self._close()
            raise
        except OSError as error:
            self._close()
            raise RuntimeFailure(f"failed to exec in container: {error}") from error
        finally:
            for fd in child_ends:
                os.close(fd)
        coroutines.start(self._follow(child))

    async def _follow(self, child: Child) -> None:
        try:
            await child.started
        except RuntimeFailure as failure:
            self._close()
            self.opened.fail(failure)
            return
        terminal = child.take(program_start.TERMINAL)
        kubelet_ends, self._kubelet_ends = self._kubelet_ends, []
        self.opened.set(kubelet_ends if terminal < 0 else [terminal])
        code = await child.exited
        self._close()
        self.ended.set(code)

    def _make_streams(self, child_ends: list[int], *, stdin: bool, stderr: bool) -> tuple[int, int, int]:
        def pipe(*, to_child: bool) -> int:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            child_ends.append(reader if to_child else writer)
            self._kubelet_ends.append(writer if to_child else reader)
            if not to_child:
                self._outputs[os.dup(reader)] = 0
            return child_ends[-1]

        if stdin:
            first = pipe(to_child=True)
        else:
            first = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            child_ends.append(first)
        second = pipe(to_child=False)
        return first, second, pipe(to_child=False) if stderr else second

    def end(self) -> None:
        """Let go of the command, which runs on without a client: its output is dropped from now on.

        The kubelet has closed its ends, so the command has got the end of its input, or the hang-up of its terminal.
        """
        if self._has_client:
            self._has_client = False
            for fd in self._outputs:
                os.set_blocking(fd, False)
                self._reactor.watch(fd, functools.partial(self._drop_output, fd))

    def _drop_output(self, fd: int) -> None:
        try:
            data = os.read(fd, _CHUNK)
        except BlockingIOError:
            return
        self._outputs[fd] += len(data)
        if not data or self._outputs[fd] > _DROPPED_LIMIT:
            self._close_output(fd)

    def _close_output(self, fd: int) -> None:
        del self._outputs[fd]
        self._reactor.unwatch(fd)
        os.close(fd)

    def _close(self) -> None:
        for fd in self._kubelet_ends:
            os.close(fd)
        self._kubelet_ends.clear()
        for fd in list(self._outputs):
            self._close_output(fd)
