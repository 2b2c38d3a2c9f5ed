"""The BGP session with one peer: an ExaBGP process, the routes that it has to announce, and its retries.

    waiting ──start──> connecting ──up──> established ──down──> connecting
       ^                   │ no session within the connect time: connect anew
       └── the process ended, or the session cannot be configured now: back-off

Routes are sent after the session is up, then the end-of-RIB markers, then each difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Literal

from bridgehead.backoff import Backoff

from ..workspace import Workspace
from .exabgp import (
    RELOAD,
    TEARDOWN,
    Answer,
    SessionSettings,
    announce,
    end_of_routes,
    render_configuration,
    why_refused,
    withdraw,
)
from .exabgp_process import ExaBgpProcess
from .routes import Prefix, Route, RoutePlan

log = logging.getLogger("bridgehead.balancer.bgp")

CONNECT_SECONDS = 5.0  # between attempts to connect, unless the peer sets another connectTime
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.5, 30.0
_STABLE_SECONDS = 60.0  # a process that ran for so long starts again without back-off
_WITHDRAW_SECONDS = 2.0  # for the peer to take the withdrawals of a speaker that ends
_FLUSH_SECONDS = 0.05  # ExaBGP answers a command some milliseconds before it sends the update
_TEARDOWN_SECONDS = 2.0
_ATTEMPT_SECONDS = 1.0  # a younger attempt to connect is not given up for another

Status = Literal["waiting", "connecting", "established"]


class NotConfigurable(Exception):
    """The session cannot be configured at the moment. The text has the reason."""


@dataclass
class Statistics:
    """Counters of a session, for metrics. `announced`: routes that the peer has; `pending`: commands without answer."""

    updates: int = 0
    announced: int = 0
    pending: int = 0


class PeerSession:
    """The session with the peer `name`.

    `plan` has its routes, `workspace` the files of its process. `configure` returns the settings, or raises
    NotConfigurable or OSError: it looks up addresses and passwords anew at each start of the process. `on_change` is
    called with this session when its status changes.
    """

    def __init__(
        self,
        name: str,
        plan: RoutePlan,
        configure: Callable[[], Awaitable[SessionSettings]],
        on_change: Callable[[PeerSession], None],
        workspace: Workspace,
        *,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self.name = name
        self.status: Status = "waiting"
        self.since = time.time()
        self.reason = ""
        self.settings: SessionSettings | None = None
        self.statistics = Statistics()
        self._plan = plan
        self._configure = configure
        self._on_change = on_change
        self._workspace = workspace
        self._connect_seconds = connect_seconds
        self._process: ExaBgpProcess | None = None
        self._attempt = 0
        self._attempted_at = 0.0
        self._is_connected = False  # by TCP
        self._sent: dict[Prefix, Route] = {}  # what the peer has, or will have when all commands are done
        self._all_done = asyncio.Event()
        self._retry = asyncio.Event()  # do not wait for the end of the back-off
        self._timer: asyncio.TimerHandle | None = None  # of what is next to check

    def update(self, prefixes: Collection[Prefix]) -> None:
        """Announce, change or withdraw the routes for these prefixes, as the plan has them now."""
        if self.status == "established":
            for prefix in prefixes:
                self._announce(prefix, self._plan.route(self.name, prefix))

    def tear_down(self) -> None:
        """End the session because the path to the peer failed, and connect again as soon as possible."""
        if self.status == "established" and self._process is not None:
            self._command(TEARDOWN)
            self._check_after(_TEARDOWN_SECONDS, self._process.kill)

    def connect(self) -> None:
        """Connect now if there is no session: the path to the peer works again.

        An attempt that has just begun, or that has got as far as messages of the peer, goes on.
        """
        self._retry.set()
        if not self._is_connected and time.monotonic() - self._attempted_at > _ATTEMPT_SECONDS:
            self._attempt_anew()

    def _attempt_anew(self) -> None:
        if self.status == "connecting" and self._process is not None and self.settings is not None:
            self._attempt += 1
            self._attempted_at = time.monotonic()
            self._is_connected = False
            self._process.configure(render_configuration(self.settings, self._attempt))
            self._command(RELOAD)

    def restart(self) -> None:
        """End the session and begin it anew, with settings that are looked up again."""
        if self._process is not None:
            self._process.kill()

    async def run(self) -> None:
        """Hold the session until cancelled. Then the peer has no route of this node any more.

        With graceful restart, the peer keeps the routes for the next speaker.
        """
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        while True:
            started = time.monotonic()
            reason = await self._run_once()
            if time.monotonic() - started > _STABLE_SECONDS:
                backoff.reset()
            self._change("waiting", reason)
            self._retry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(backoff.next()):
                    await self._retry.wait()

    async def _run_once(self) -> str:
        """Run one process until it ends. Return why it ended."""
        try:
            settings = self.settings = await self._configure()
        except (NotConfigurable, OSError) as error:
            return str(error)
        refusal = why_refused(settings)
        if refusal:
            return refusal
        try:
            configuration = render_configuration(settings, self._attempt)
            process = self._process = await ExaBgpProcess.start(configuration, self._workspace)
        except OSError as error:
            return f"cannot start ExaBGP: {error}"
        self._attempted_at = time.monotonic()
        self._is_connected = False
        self._change("connecting", "")
        self._check_after(self._connect_seconds, self._connect_again)
        lines = ""
        try:
            while (answer := await process.answer()) is not None:
                if answer.kind == "open" and not settings.peer_asn and answer.peer_asn == settings.my_asn:
                    return f"the peer's AS number is {answer.peer_asn}, like this end's: the session is not external"
                self._take(answer)
        except asyncio.CancelledError:
            await self._withdraw_all(process, settings)
            raise
        finally:
            self._cancel_timer()
            self._process = None
            self._forget_routes()
            lines = await process.stop()
        log.warning("ExaBGP for peer %s ended; its last lines:\n%s", self.name, lines)
        return "ExaBGP ended" + (f": {lines.splitlines()[-1]}" if lines else "")

    def _take(self, answer: Answer) -> None:
        if answer.kind in ("done", "error"):
            self.statistics.pending = max(0, self.statistics.pending - 1)
            if not self.statistics.pending:
                self._all_done.set()
            if answer.kind == "error" and self.status == "established":
                log.error("ExaBGP refused a command for peer %s", self.name)
        elif answer.kind == "connected":
            self._is_connected = True
        elif answer.kind == "up":
            self._cancel_timer()
            self._change("established", "")
            self._announce_all()
        elif answer.kind == "down":
            self._forget_routes()
            self._is_connected = False
            self._change("connecting", answer.reason)
            self._check_after(self._connect_seconds, self._connect_again)

    def _announce_all(self) -> None:
        self._forget_routes()
        for prefix, route in self._plan.routes(self.name).items():
            self._announce(prefix, route)
        for version in self.settings.next_hops if self.settings is not None else ():
            self._command(end_of_routes(version))

    def _announce(self, prefix: Prefix, route: Route | None) -> None:
        next_hop = self.settings.next_hops.get(prefix.version) if self.settings is not None else None
        if next_hop is None:  # the session does not have the family
            route = None
        if route == self._sent.get(prefix):
            return
        if route is None or next_hop is None:
            del self._sent[prefix]
            self._command(withdraw(prefix))
        else:
            self._sent[prefix] = route
            self._command(announce(route, next_hop))
        self.statistics.updates += 1
        self.statistics.announced = len(self._sent)

    async def _withdraw_all(self, process: ExaBgpProcess, settings: SessionSettings) -> None:
        """Withdraw all routes, and wait until the peer has been sent that."""
        if self.status != "established" or settings.graceful_restart:
            return
        for prefix in list(self._sent):
            self._announce(prefix, None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_WITHDRAW_SECONDS):
                while not self._all_done.is_set() and (answer := await process.answer()) is not None:
                    self._take(answer)
                await asyncio.sleep(_FLUSH_SECONDS)

    def _forget_routes(self) -> None:
        self._sent.clear()
        self.statistics.announced = self.statistics.pending = 0
        self._all_done.set()

    def _command(self, line: str) -> None:
        if self._process is not None:
            self.statistics.pending += 1
            self._all_done.clear()
            self._process.command(line)

    def _change(self, status: Status, reason: str) -> None:
        if (status, reason) != (self.status, self.reason):
            if status != self.status:
                self.since = time.time()
            self.status, self.reason = status, reason
            self._on_change(self)

    def _connect_again(self) -> None:
        self._check_after(self._connect_seconds, self._connect_again)
        self._attempt_anew()

    def _check_after(self, seconds: float, check: Callable[[], None]) -> None:
        """Call `check` unless the session's state changes before."""
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, check)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
