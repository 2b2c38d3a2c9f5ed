"""State machine of one BFD session in asynchronous mode. Source: RFC 5880, sections 6.5 to 6.8.

The caller passes the time (seconds, monotonic), sends the packets that a method returns, and calls `on_timer` at
`next_deadline`. `jitter` returns numbers from 0 to 1.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from .packets import ControlPacket, Diagnostic, State

SLOW_TX_SECONDS = 1.0  # lowest interval of packets while the session is not Up (RFC 5880, section 6.8.3)
_MICRO = 1_000_000


class Timing(NamedTuple):
    """Parameters of a session. Intervals in seconds. `is_passive`: send nothing before the neighbour does."""

    desired_min_tx: float = 0.3
    required_min_rx: float = 0.3
    detect_multiplier: int = 3
    is_passive: bool = False


class Session:
    """One session. `state`, `diagnostic` and `remote_state` are those of RFC 5880."""

    def __init__(self, timing: Timing, discriminator: int, now: float, jitter: Callable[[], float]) -> None:
        self.discriminator = discriminator
        self.state = State.DOWN
        self.diagnostic = Diagnostic.NONE
        self.remote_state = State.DOWN
        self._timing = timing
        self._jitter = jitter
        # The intervals in effect may lag behind `_timing` until the neighbour has confirmed a change (section 6.8.3).
        self._tx = timing.desired_min_tx
        self._rx = timing.required_min_rx
        self._is_polling = False
        self._remote_discriminator = 0
        self._remote_min_rx = 1e-6  # RFC 5880, section 6.8.1
        self._remote_min_tx = 0.0
        self._remote_multiplier = 0
        self._remote_demands = False
        self._received_at = now
        self._send_at = now

    @property
    def detection_seconds(self) -> float:
        """Time without a packet after which the neighbour is gone; 0 before its first packet."""
        return self._remote_multiplier * max(self._rx, self._remote_min_tx)

    @property
    def transmit_seconds(self) -> float:
        """Interval of this end's packets before jitter; infinite while nothing may be sent."""
        if not self._remote_min_rx or (self._timing.is_passive and not self._remote_discriminator):
            return math.inf
        # A neighbour in demand mode checks the path by other means; both ends are Up then.
        if self._remote_demands and not self._is_polling and State.UP == self.state == self.remote_state:
            return math.inf
        return max(self._own_tx(), self._remote_min_rx)

    @property
    def next_deadline(self) -> float:
        """Time at which `on_timer` has something to do; infinite if there is none."""
        send_at = self._send_at if self.transmit_seconds < math.inf else math.inf
        expires_at = self._received_at + self.detection_seconds if self._remote_discriminator else math.inf
        return min(send_at, expires_at)

    def change_timing(self, timing: Timing, now: float) -> None:
        """Take other parameters. A session that is Up stays so: the neighbour confirms them by a poll sequence."""
        if timing == self._timing:
            return
        self._timing = timing
        is_up = self.state == State.UP
        self._is_polling = is_up
        if not is_up or timing.desired_min_tx < self._tx:
            self._tx = timing.desired_min_tx
        if not is_up or timing.required_min_rx > self._rx:
            self._rx = timing.required_min_rx
        self._send_at = min(self._send_at, now)

    def on_packet(self, packet: ControlPacket, now: float) -> list[ControlPacket]:
        """Take a packet of the neighbour; return what to send at once."""
        if packet.your_discriminator not in (0, self.discriminator):
            return []
        before = self.state, self.transmit_seconds
        self._remote_discriminator = packet.my_discriminator
        self.remote_state = packet.state
        self._remote_demands = packet.demand
        self._remote_min_rx = packet.required_min_rx / _MICRO
        self._remote_min_tx = packet.desired_min_tx / _MICRO
        self._remote_multiplier = packet.detect_multiplier
        self._received_at = now
        if packet.final and self._is_polling:
            self._is_polling = False
            self._tx, self._rx = self._timing.desired_min_tx, self._timing.required_min_rx
        self._take_state(packet.state)
        if self.transmit_seconds < before[1]:  # the next packet was planned for the longer interval
            self._send_at = min(self._send_at, now + self._jittered(self.transmit_seconds))
        if packet.poll:  # an answer is due at once, whatever else is
            return [self._packet(final=True)]
        if self.state != before[0] and self.transmit_seconds < math.inf:
            return [self._send(now)]
        return []

    def on_timer(self, now: float) -> list[ControlPacket]:
        """Do what is due; return what to send."""
        before = self.state
        if self._remote_discriminator and now >= self._received_at + self.detection_seconds:
            self._remote_discriminator = 0
            self._remote_min_rx = 1e-6
            self._remote_demands = False
            if self.state in (State.INIT, State.UP):
                self._leave(Diagnostic.DETECTION_TIME_EXPIRED)
        if self.transmit_seconds < math.inf and (now >= self._send_at or self.state != before):
            return [self._send(now)]
        return []

    def farewell(self) -> ControlPacket:
        """Return the packet that ends the session without being a failure (AdminDown; RFC 5882, section 3.2)."""
        self.state = State.ADMIN_DOWN
        self.diagnostic = Diagnostic.ADMINISTRATIVELY_DOWN
        return self._packet()

    def _take_state(self, received: State) -> None:
        if received == State.ADMIN_DOWN:
            if self.state != State.DOWN:
                self._leave(Diagnostic.NEIGHBOR_SIGNALED_DOWN)
        elif self.state == State.DOWN:
            if received == State.DOWN:
                self.state = State.INIT
            elif received == State.INIT:
                self._enter_up()
        elif self.state == State.INIT:
            if received in (State.INIT, State.UP):
                self._enter_up()
        elif received == State.DOWN:
            self._leave(Diagnostic.NEIGHBOR_SIGNALED_DOWN)

    def _enter_up(self) -> None:
        self.state = State.UP
        self.diagnostic = Diagnostic.NONE
        self._is_polling = True  # the interval of this end's packets changes from SLOW_TX_SECONDS

    def _leave(self, diagnostic: Diagnostic) -> None:
        self.state = State.DOWN
        self.diagnostic = diagnostic
        self._is_polling = False
        self._tx, self._rx = self._timing.desired_min_tx, self._timing.required_min_rx

    def _own_tx(self) -> float:
        return self._tx if self.state == State.UP else max(self._tx, SLOW_TX_SECONDS)

    def _send(self, now: float) -> ControlPacket:
        self._send_at = now + self._jittered(self.transmit_seconds)
        return self._packet(poll=self._is_polling)

    def _jittered(self, interval: float) -> float:
        """Return 75 to 100 % of the interval; at most 90 % with a multiplier of 1 (RFC 5880, section 6.8.7)."""
        span = 0.15 if self._timing.detect_multiplier == 1 else 0.25
        return interval * (0.75 + span * self._jitter())

    def _packet(self, *, poll: bool = False, final: bool = False) -> ControlPacket:
        is_up = self.state == State.UP
        desired = self._timing.desired_min_tx if is_up else max(self._timing.desired_min_tx, SLOW_TX_SECONDS)
        return ControlPacket(
            self.state,
            self.discriminator,
            self._remote_discriminator,
            self._timing.detect_multiplier,
            round(desired * _MICRO),
            round(self._timing.required_min_rx * _MICRO),
            diagnostic=self.diagnostic,
            poll=poll,
            final=final,
        )
