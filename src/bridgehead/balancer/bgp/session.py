"""The BGP session with one peer: the routes that ExaBGP has to announce, and its retries.

    waiting ──open──> connecting ──up──> established ──down──> connecting
       ^                  │ no connection within the connect time: connect anew
       └── ExaBGP ended, or the session cannot be configured now: back-off

Routes are sent after the session is up, then the end-of-RIB markers, then each difference.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Literal

from bridgehead.backoff import Backoff
from bridgehead.objects.addresses import join_host_port

from .announced_routes import Prefix, Route, RoutePlan
from .exabgp import Attributes, SessionSettings, render_route, render_settings, why_refused
from .exabgp_messages import Answer, Request, RequestKind
from .exabgp_process import Channel, ExaBgp

log = logging.getLogger("bridgehead.balancer.bgp")

CONNECT_SECONDS = 5.0  # between attempts to connect, unless the peer sets another connectTime
_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS = 0.5, 30.0
_LONGEST_LOOK_SECONDS = 5.0  # between looks for a password or a route that is missing
_STABLE_SECONDS = 60.0  # a session that ran for so long starts again without back-off
_TEARDOWN_SECONDS = 2.0
_ATTEMPT_SECONDS = 1.0  # a younger attempt to connect is not given up for another
# A rollout waits, after the speaker's start, for a session and for the first attempt to connect; after that attempt for
# the peer's answer, which the kernel asks for again after a second.
_START_SECONDS, _BEGIN_SECONDS, _ANSWER_SECONDS = 15.0, 5.0, 2.0

Status = Literal["waiting", "connecting", "established"]


class NotConfigurable(Exception):
    """The session cannot be configured at the moment. The text has the reason."""


class Misconfigured(NotConfigurable):
    """The session cannot be configured before somebody changes objects of the API."""


@dataclass
class Statistics:
    """Counters of a session, for metrics. `announced`: routes that the peer has; `pending`: requests without answer."""

    updates: int = 0
    announced: int = 0
    pending: int = 0


class PeerSession:
    """The session with the peer `name`.

    `plan` has its routes, `exabgp` holds it. `configure` returns the settings, or raises NotConfigurable or OSError: it
    looks up addresses and passwords anew each time. `on_change` is called with this session when its status changes.
    `is_last`: this speaker goes on, but has no further session with the router. `is_misconfigured`: `reason` is why the
    session waits for changes of objects of the API.
    """

    def __init__(
        self,
        name: str,
        plan: RoutePlan,
        configure: Callable[[], Awaitable[SessionSettings]],
        on_change: Callable[[PeerSession], None],
        exabgp: ExaBgp,
        *,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self.name = name
        self.status: Status = "waiting"
        self.is_last = self.is_misconfigured = False
        self.was_connected = self.was_established = False  # once, by TCP and by BGP
        self.first_attempt_at: float | None = None  # CLOCK_MONOTONIC
        self.since = time.time()
        self.reason = ""
        self.settings: SessionSettings | None = None
        self.statistics = Statistics()
        self._plan = plan
        self._configure = configure
        self._on_change = on_change
        self._exabgp = exabgp
        self._connect_seconds = connect_seconds
        self._channel: Channel | None = None
        self._number = 0  # of the session that is up
        self._versions: frozenset[int] = frozenset()  # IP versions whose routes it has
        self._attempted_at = 0.0
        self._is_connected = False  # by TCP
        self._sent: dict[Prefix, Route] = {}  # what the peer has, or will have when all requests are done
        self._retry = asyncio.Event()  # do not wait for the end of the back-off
        self._timer: asyncio.TimerHandle | None = None  # of what is next to check

    def update(self, prefixes: Collection[Prefix]) -> None:
        """Announce, change or withdraw the routes for these prefixes, as the plan has them now."""
        if self.status == "established":
            for prefix in prefixes:
                self._announce(prefix, self._plan.route(self.name, prefix))

    def tear_down(self) -> None:
        """End the session because the path to the peer failed, and connect again as soon as possible."""
        if self.status == "established" and self._channel is not None:
            self._request("tear down")
            self._check_after(
                _TEARDOWN_SECONDS, functools.partial(self._channel.abandon, "the path to the peer failed")
            )

    def connect(self) -> None:
        """Connect now if there is no session: the path to the peer works again.

        An attempt that has just begun, or that has got as far as messages of the peer, goes on.
        """
        self._retry.set()
        if not self._is_connected and time.monotonic() - self._attempted_at > _ATTEMPT_SECONDS:
            self._attempt_anew()

    def _attempt_anew(self) -> None:
        if self.settings is not None and self.settings.listen_port:
            return  # it waits
        if self.status == "connecting" and self.settings is not None:
            self._attempted_at = time.monotonic()
            self._is_connected = False
            if self._channel is not None:
                self._channel.request(self._opening(self.settings))

    def restart(self, reason: str) -> None:
        """End the session and begin it anew, with settings that are looked up again."""
        if self._channel is not None:
            self._channel.abandon(reason)

    async def run(self) -> None:
        """Hold the session until cancelled. Then the peer has no route of this node any more.

        With graceful restart, the peer keeps the routes for the next session, unless this one `is_last`.
        """
        backoff = Backoff(_FIRST_RETRY_SECONDS, _LONGEST_RETRY_SECONDS)
        while True:
            started, longest = time.monotonic(), _LONGEST_RETRY_SECONDS
            try:
                settings = self.settings = await self._configure()
            except (NotConfigurable, OSError) as error:
                reason, longest = str(error), _LONGEST_LOOK_SECONDS
                self.is_misconfigured = isinstance(error, Misconfigured)
            else:
                self.is_misconfigured = False
                reason = await self._run_once(settings)
            if time.monotonic() - started > _STABLE_SECONDS:
                backoff.reset()
            self._change("waiting", reason)
            self._retry.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(backoff.next(), longest)):
                    await self._retry.wait()

    async def _run_once(self, settings: SessionSettings) -> str:
        """Hold the session until it ends for good. Return why it ended."""
        refusal = why_refused(settings)
        if refusal:
            return refusal
        try:
            channel = self._channel = await self._exabgp.open(self._opening(settings))
        except OSError as error:
            return f"cannot start ExaBGP: {error}"
        self._attempted_at = time.monotonic()
        self._is_connected = False
        self._change("connecting", "")
        self._check_after(self._connect_seconds, self._connect_again)
        try:
            while (answer := await channel.answer()) is not None:
                if answer.kind == "closed":
                    return answer.reason
                if answer.kind == "open" and not settings.peer_asn and answer.number == settings.my_asn:
                    return f"the peer's AS number is {answer.number}, like this end's: the session is not external"
                self._take(answer)
        except asyncio.CancelledError:
            self._withdraw_all(settings)
            raise
        finally:
            self._cancel_timer()
            self._channel = None
            self._forget_routes()
            await channel.close()
        last_line = self._exabgp.last_line
        return "ExaBGP ended" + (f": {last_line}" if last_line else "")

    def _take(self, answer: Answer) -> None:
        if answer.kind in ("done", "refused"):
            self.statistics.pending = max(0, self.statistics.pending - 1)
            if answer.kind == "refused":
                log.error("ExaBGP refused a route for peer %s: %s", self.name, answer.reason)
        elif answer.kind == "connecting":
            self.first_attempt_at = self.first_attempt_at or time.monotonic()
        elif answer.kind == "connected":
            self._is_connected = self.was_connected = True
            self._check_after(self._connect_seconds, self._connect_again)
        elif answer.kind == "up":
            self._number = answer.number
            self._versions = frozenset(answer.versions)
            self.was_established = True
            self._cancel_timer()
            self._change("established", self._why_incomplete())
            self._announce_all()
        elif answer.kind == "refresh":
            self._announce_again(answer.number)
        elif answer.kind == "down":
            self._forget_routes()
            self._is_connected = False
            self._change("connecting", answer.reason)
            self._check_after(self._connect_seconds, self._connect_again)

    def _announce_all(self) -> None:
        self._forget_routes()
        for prefix, route in self._plan.routes(self.name).items():
            self._announce(prefix, route)
        for version in sorted(self._versions):
            self._request("end of routes", str(version))

    def _announce_again(self, version: int) -> None:
        for prefix, route in [pair for pair in self._sent.items() if pair[0].version == version]:
            del self._sent[prefix]
            self._announce(prefix, route)

    def _announce(self, prefix: Prefix, route: Route | None) -> None:
        next_hop = self.settings.next_hops.get(prefix.version) if self.settings is not None else None
        if next_hop is None or prefix.version not in self._versions:
            route = None
        if route == self._sent.get(prefix):
            return
        if route is None or next_hop is None:
            del self._sent[prefix]
            self._request("route", render_route(prefix, None))
        else:
            self._sent[prefix] = route
            attributes = Attributes(next_hop, route.local_preference, tuple(sorted(route.communities)))
            self._request("route", render_route(prefix, attributes))
        self.statistics.updates += 1
        self.statistics.pending += 1
        self.statistics.announced = len(self._sent)

    def _why_incomplete(self) -> str:
        """Return which routes the peer does not take although this end offers them, or ""."""
        offered = self.settings.next_hops if self.settings is not None else {}
        lacking = sorted(offered.keys() - self._versions)
        return f"the peer takes no {' and no '.join(f'IPv{version}' for version in lacking)} routes" if lacking else ""

    def _withdraw_all(self, settings: SessionSettings) -> None:
        if self.status == "established" and (self.is_last or not settings.graceful_restart):
            for prefix in list(self._sent):
                self._announce(prefix, None)

    def _forget_routes(self) -> None:
        self._sent.clear()
        self.statistics.announced = self.statistics.pending = 0

    def _opening(self, settings: SessionSettings) -> Request:
        return Request("open", self.name, settings.keepalive_time, render_settings(settings))

    def _request(self, kind: RequestKind, text: str = "") -> None:
        if self._channel is not None:
            self._channel.request(Request(kind, self.name, self._number, text))

    def _change(self, status: Status, reason: str) -> None:
        if (status, reason) != (self.status, self.reason):
            if status != self.status:
                self.since = time.time()
            self.status, self.reason = status, reason
            self._on_change(self)

    def _connect_again(self) -> None:
        """Connect again, unless the peer has accepted: a busy one may send its OPEN message late (RFC 4271, 8.2.2)."""
        if self._is_connected:
            self._change("connecting", "the peer sends no OPEN message")
            return
        if not self.reason and self.settings is not None:
            where = join_host_port(str(self.settings.peer_address), self.settings.port)
            is_passive = self.settings.listen_port > 0
            # The kernel drops segments whose TCP MD5 signature is of another password.
            hint = "; a router with another password gives none" if self.settings.password else ""
            reason = "the peer has not connected" if is_passive else f"no answer from {where}{hint}"
            self._change("connecting", reason)
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


def is_awaited(session: PeerSession | None, seconds: float, now: float) -> bool:
    """Return whether a rollout should wait for a session, `seconds` after the speaker's start. None: not begun yet.

    `now`: CLOCK_MONOTONIC. A router that does not accept a connection has no session with other speakers, either.
    """
    if session is None:
        return seconds < _BEGIN_SECONDS
    if session.was_connected:
        return not session.was_established and seconds < _START_SECONDS
    if session.first_attempt_at is None:
        return not session.reason and seconds < _BEGIN_SECONDS
    return not session.reason and now - session.first_attempt_at < _ANSWER_SECONDS
