"""The program of a speaker's ExaBGP process: all BGP sessions of the node.

Usage: python -m bridgehead.balancer.bgp.exabgp_main PARENT. PARENT is the speaker's process id. Requests come on
standard input, answers go to standard output (`exabgp_messages.py`). The process ends with the speaker.

ExaBGP is used as a library, without its own main loop: that one reads the sessions from a file, and drops a request to
read it again while any peer has queued routes, so a peer that does not read would keep others from being changed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import time

from bridgehead.network.syscalls import set_parent_death_signal, set_process_name

from .exabgp_listening import Listening
from .exabgp_messages import Answer, Request, parse_request, render
from .exabgp_session import Session

_STDIN, _STDOUT, _STDERR = 0, 1, 2
_READ_BYTES = 1 << 16
_REQUESTS_AT_ONCE = 25  # then the sessions have their turn
_LONGEST_WAIT_SECONDS = 0.5


class _Sessions:
    """All sessions, and the loop."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._numbers: dict[str, int] = {}  # of sessions that have ended
        self._listening = Listening()
        self._answers = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)  # a print somewhere in ExaBGP is no answer
        self._unread = b""
        self._waiting: list[bytes] = []

    def run(self) -> None:
        """Run until the speaker closes standard input."""
        while True:
            poller = select.poll()
            poller.register(_STDIN, select.POLLIN)
            self._listening.register(poller)
            now = time.monotonic()
            waits = [session.watch(poller, now) for session in self._sessions.values()]
            seconds = min(waits, default=_LONGEST_WAIT_SECONDS)
            events = poller.poll(0 if self._waiting else seconds * 1000)
            if any(descriptor == _STDIN for descriptor, _ in events) and not self._read():
                return
            requests, self._waiting = self._waiting[:_REQUESTS_AT_ONCE], self._waiting[_REQUESTS_AT_ONCE:]
            for line in requests:
                self._take(parse_request(line))
            self._listening.accept()
            self._give_turns()

    def _read(self) -> bool:
        data = os.read(_STDIN, _READ_BYTES)
        *lines, self._unread = (self._unread + data).split(b"\n")
        self._waiting += lines
        return bool(data)

    def _give_turns(self) -> None:
        now = time.monotonic()
        for name, session in list(self._sessions.items()):
            try:
                session.run(now)
            except Exception as error:  # noqa: BLE001 - what one peer causes must not end the others' sessions
                self._end(name, f"ExaBGP failed: {error!r}")
                continue
            if session.is_closed(now):
                self._end(name, "")

    def _take(self, request: Request) -> None:
        name = request.peer
        if request.kind == "ping":
            self._report(Answer("pong", name))
            return
        if request.kind == "open":
            if name in self._sessions:
                self._numbers[name] = self._sessions.pop(name).end()
            try:
                self._sessions[name] = Session(request, self._numbers.get(name, 0), self._report, self._listening)
            except Exception as error:  # noqa: BLE001 - see `_give_turns`
                self._report(Answer("closed", name, reason=f"ExaBGP refuses the session: {error}"))
            return
        session = self._sessions.get(name)
        if request.kind == "close":
            if session is None:
                self._report(Answer("closed", name))
            else:
                session.close(time.monotonic())
            return
        try:
            refusal = session.take(request) if session is not None else ""
        except Exception as error:  # noqa: BLE001 - see `_give_turns`
            self._end(name, f"ExaBGP failed: {error!r}")
            return
        if request.kind == "route":
            self._report(Answer("refused" if refusal else "done", name, reason=refusal))

    def _end(self, name: str, reason: str) -> None:
        self._numbers[name] = self._sessions.pop(name).end()
        self._report(Answer("closed", name, reason=reason))

    def _report(self, answer: Answer) -> None:
        data = render(answer)
        while data:
            data = data[os.write(self._answers, data) :]


def main() -> None:
    parent = int(sys.argv.pop(1))
    set_parent_death_signal(signal.SIGKILL)  # which also ends a stopped process, and so its connections
    if os.getppid() != parent:  # the speaker ended before the line above
        return
    with contextlib.suppress(OSError):
        set_process_name("exabgp", "bridgehead speaker: ExaBGP")
    from exabgp.environment import getenv
    from exabgp.logger import log
    from exabgp.protocol.ip.port import Port

    log.init(getenv())
    for names in (Port.names, Port.codes):
        names.clear()  # of 5,000 ports, for flow specifications: 1 MiB
    _Sessions().run()


if __name__ == "__main__":
    main()
