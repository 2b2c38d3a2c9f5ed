"""Commands in a running container: to the end (`Capture`), or with their streams handed out (`Session`)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Final

from bridgehead.kubelet.runtimes import processes
from bridgehead.kubelet.runtimes.children import Child, Exit, Listener
from bridgehead.kubelet.runtimes.containers import Container
from bridgehead.kubelet.runtimes.jobs import Program, RunCommand
from bridgehead.kubelet.runtimes.reactor import Reactor
from bridgehead.kubelet.runtimes.runtime import ExecResult, RuntimeFailure
from bridgehead.kubelet.runtimes.zygote import IN_GIVEN, Zygote

OUTPUT_LIMIT: Final = 10 << 10


def _fork(
    reactor: Reactor,
    zygote: Zygote,
    container: Container,
    program: Program,
    streams: tuple[int, int, int] | None,
    listener: Listener,
) -> Child:
    """Without `streams` the command gets a terminal of its own. Raises `RuntimeFailure`."""
    entered = {**container.sandbox.descriptors, **container.namespaces}
    pid_namespace = entered.pop("pid", None)
    if pid_namespace is None:
        raise RuntimeFailure("container is not running")
    descriptors = [*entered.values(), *(streams or ())]
    procs = None
    try:
        procs = container.open_cgroup()
        job = RunCommand(
            spec=container.spec,
            program=program,
            namespaces=tuple(entered),
            has_terminal=streams is None,
            has_cgroup=procs is not None,
        )
        if procs is not None:
            descriptors.append(procs)
        return Child(reactor, zygote, job, descriptors, listener, where=IN_GIVEN, pid_namespace=pid_namespace)
    except OSError as error:
        raise RuntimeFailure(f"failed to exec in container: {error}") from error
    finally:
        if procs is not None:
            os.close(procs)


class Capture(Listener):
    """A command whose output is kept, up to `OUTPUT_LIMIT`. `on_done` gets its result or what went wrong."""

    def __init__(
        self,
        reactor: Reactor,
        zygote: Zygote,
        container: Container,
        program: Program,
        timeout: float,
        on_done: Callable[[ExecResult | Exception], None],
    ) -> None:
        self._reactor = reactor
        self._on_done = on_done
        self._timeout = timeout
        self._output = bytearray()
        self._timed_out = False
        reader, writer = os.pipe2(os.O_CLOEXEC)
        null = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        self._reader = reader
        try:
            self._child = _fork(reactor, zygote, container, program, (null, writer, writer), self)
        except RuntimeFailure:
            os.close(reader)
            raise
        finally:
            os.close(writer)
            os.close(null)
        os.set_blocking(reader, False)
        reactor.watch(reader, self._read)
        self._timer = reactor.call_later(timeout, self._time_out) if timeout > 0 else None

    def _time_out(self) -> None:
        self._timed_out = True
        self._child.kill_group()

    def _read(self) -> None:
        while self._reader >= 0:
            try:
                data = os.read(self._reader, 65536)
            except BlockingIOError:
                return
            if not data:
                self._close()
                return
            self._output += data[: max(0, OUTPUT_LIMIT - len(self._output))]

    def _close(self) -> None:
        if self._reader >= 0:
            self._reactor.unwatch(self._reader)
            os.close(self._reader)
            self._reader = -1

    def on_started(self) -> None:
        pass

    def on_failed(self, reason: str) -> None:
        self._finish(RuntimeFailure(reason))

    def on_exit(self, exit: Exit) -> None:
        self._read()
        if self._timed_out:
            self._finish(TimeoutError(f"command timed out after {self._timeout:g}s"))
        else:
            self._finish(ExecResult(exit_code=exit.code, output=bytes(self._output)))

    def _finish(self, result: ExecResult | Exception) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._close()
        self._on_done(result)


class Session(Listener):
    """A command whose standard streams the kubelet holds. `on_open` gets their descriptors (stdin if asked for, stdout,
    stderr if apart; with a terminal, its master) or what went wrong; it owns them. `on_end` gets the exit code."""

    def __init__(
        self,
        reactor: Reactor,
        zygote: Zygote,
        container: Container,
        program: Program,
        *,
        stdin: bool,
        tty: bool,
        stderr: bool,
        on_open: Callable[[list[int] | RuntimeFailure], None],
        on_end: Callable[[int], None],
    ) -> None:
        self._on_open = on_open
        self._on_end = on_end
        self._ours: list[int] = []
        theirs: list[int] = []
        try:
            streams = None if tty else self._make_streams(theirs, stdin=stdin, stderr=stderr)
            self._child = _fork(reactor, zygote, container, program, streams, self)
        except RuntimeFailure:
            self._close()
            raise
        except OSError as error:
            self._close()
            raise RuntimeFailure(f"failed to exec in container: {error}") from error
        finally:
            for fd in theirs:
                os.close(fd)

    def _make_streams(self, theirs: list[int], *, stdin: bool, stderr: bool) -> tuple[int, int, int]:
        def pipe(*, to_child: bool) -> int:
            reader, writer = os.pipe2(os.O_CLOEXEC)
            theirs.append(reader if to_child else writer)
            self._ours.append(writer if to_child else reader)
            return theirs[-1]

        if stdin:
            first = pipe(to_child=True)
        else:
            first = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
            theirs.append(first)
        second = pipe(to_child=False)
        return first, second, pipe(to_child=False) if stderr else second

    def end(self) -> None:
        """As the kubelet's side went away: hang up, then kill."""
        self._child.signal(signal.SIGHUP)
        self._child.kill_group()

    def _close(self) -> None:
        for fd in self._ours:
            os.close(fd)
        self._ours.clear()

    def on_descriptor(self, kind: bytes, fd: int) -> None:
        if kind == processes.TERMINAL:
            self._ours.append(fd)
        else:
            os.close(fd)

    def on_started(self) -> None:
        ours, self._ours = self._ours, []
        self._on_open(ours)

    def on_failed(self, reason: str) -> None:
        self._close()
        self._on_open(RuntimeFailure(reason))

    def on_exit(self, exit: Exit) -> None:
        self._on_end(exit.code)
