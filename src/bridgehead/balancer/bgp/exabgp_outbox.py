"""Messages that a BGP session of the ExaBGP process has to send: routes, end-of-RIB markers, KEEPALIVE messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .exabgp import Attributes
from .exabgp_objects import family_of, make_updates
from .exabgp_timers import Timers

if TYPE_CHECKING:
    from .announced_routes import Prefix

_STEPS_AT_ONCE = 25  # of sending, then the other sessions have their turn


class Outbox:
    """`has_unsent`: whether there is more to send. `sending`: the rest of the message of which the peer has a part."""

    def __init__(self) -> None:
        self.has_unsent = False
        self.sending: Iterator[object] | None = None
        self._pending: dict[Prefix, Attributes | None] = {}  # None: withdrawn
        self._updates: Iterator[bytes] = iter(())  # encoded messages with routes
        self._ends: deque[int] = deque()  # IP versions whose end-of-RIB markers are to be sent

    def put_route(self, prefix: Prefix, attributes: Attributes | None) -> None:
        """Announce a route, or withdraw it (None). The last one of several requests for a prefix counts."""
        self._pending[prefix] = attributes
        self.has_unsent = True

    def put_end(self, version: int) -> None:
        """Send the end-of-RIB marker of an IP version, after the routes."""
        self._ends.append(version)
        self.has_unsent = True

    def send(self, protocol: Any, timers: Timers, now: float) -> None:
        """Send for one turn. A message is begun after the one before has been sent. Raises ExaBGP's NetworkError."""
        self.has_unsent = True
        for _ in range(_STEPS_AT_ONCE):
            if self.sending is None:
                timers.on_sent(now)
                self.sending = self._next_message(protocol, timers, now)
            if self.sending is None:
                self.has_unsent = False
                return
            if next(self.sending, None) is None:
                self.sending = None

    def _next_message(self, protocol: Any, timers: Timers, now: float) -> Iterator[object] | None:
        if timers.take_keepalive(now):
            keepalive: Iterator[object] = protocol.new_keepalive()
            return keepalive
        update = next(self._updates, None)
        if update is None and self._pending:
            pending, self._pending = self._pending, {}
            self._updates = _encode(pending, protocol.negotiated)
            update = next(self._updates, None)
        if update is not None:
            sending: Iterator[object] = protocol.send(update)
            return sending
        if self._ends:
            end: Iterator[object] = protocol.new_eor(*family_of(self._ends.popleft()))
            return end
        return None


def _encode(routes: dict[Prefix, Attributes | None], negotiated: Any) -> Iterator[bytes]:
    for update in make_updates(routes):
        yield from update.messages(negotiated)
