"""Timers of an established BGP session: RFC 4271, 4.4 and 6.5, and RFC 9687. Times are seconds of CLOCK_MONOTONIC.

ExaBGP's timers follow the machine's clock: a clock that is set back would delay KEEPALIVE messages until the peer ends
the session, one that is set forward would end it at once.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

_LEAST_SEND_HOLD_SECONDS = 480.0


class Timers:
    """`hold_seconds`: as negotiated; 0: the peer may be silent, and gets no KEEPALIVE messages.

    `keepalive_seconds`: between these, 0: a third of the hold time. More than that is not possible.
    """

    def __init__(self, hold_seconds: int, keepalive_seconds: int, now: float) -> None:
        self._hold_seconds = hold_seconds
        self._send_hold_seconds = max(_LEAST_SEND_HOLD_SECONDS, 2.0 * hold_seconds)
        third = hold_seconds // 3
        self._keepalive_seconds = min(keepalive_seconds or third, third)
        self._received_at = self._sent_at = now
        self._keepalive_at = now + self._keepalive_seconds

    def on_received(self, now: float) -> None:
        """Record a message of the peer."""
        self._received_at = now

    def on_sent(self, now: float) -> None:
        """Record that a message has been sent, or that there is none to send."""
        self._sent_at = now

    def is_peer_silent(self, now: float) -> bool:
        """Whether the hold timer has expired."""
        return self._hold_seconds > 0 and now - self._received_at > self._hold_seconds

    def is_peer_stuck(self, now: float) -> bool:
        """Whether the peer has read nothing for so long that the session has to end, although it may still send."""
        return self._hold_seconds > 0 and now - self._sent_at > self._send_hold_seconds

    def take_keepalive(self, now: float) -> bool:
        """Return whether a KEEPALIVE message is due. Then the next one is due later."""
        if not self._keepalive_seconds or now < self._keepalive_at:
            return False
        self._keepalive_at = now + self._keepalive_seconds
        return True
