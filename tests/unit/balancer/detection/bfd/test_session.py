"""The BFD session by a virtual clock: two sessions joined by a path that can fail."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.detection.bfd.packets import ControlPacket, Diagnostic, State
from bridgehead.balancer.detection.bfd.session import Session, Timing

FAST = Timing(0.1, 0.1, 3)
LATENCY = 0.001


class Path:
    """Two sessions, and a clock that jumps to whatever is next. Packets are lost while `is_cut`."""

    def __init__(self, left: Timing = FAST, right: Timing = FAST, jitter: float = 0.5) -> None:
        self.now = 0.0
        self.is_cut = [False, False]  # towards the left, towards the right
        self.sessions = [
            Session(timing, discriminator, self.now, lambda: jitter)
            for discriminator, timing in ((11, left), (22, right))
        ]
        self.sent: list[tuple[float, int, ControlPacket]] = []  # time, sender
        self._flying: list[tuple[float, int, ControlPacket]] = []  # time of arrival, receiver

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while True:
            arrival = min((time for time, _, _ in self._flying), default=math.inf)
            timer = min(session.next_deadline for session in self.sessions)
            if min(arrival, timer) > until:
                self.now = until
                return
            self.now = max(self.now, min(arrival, timer))
            if arrival <= timer:
                item = min(self._flying)
                self._flying.remove(item)
                self._send(item[1], self.sessions[item[1]].on_packet(item[2], self.now))
            else:
                for index, session in enumerate(self.sessions):
                    if session.next_deadline <= self.now:
                        self._send(index, session.on_timer(self.now))

    def _send(self, sender: int, packets: list[ControlPacket]) -> None:
        for packet in packets:
            self.sent.append((self.now, sender, packet))
            if not self.is_cut[1 - sender]:
                self._flying.append((self.now + LATENCY, 1 - sender, packet))

    @property
    def states(self) -> list[State]:
        return [session.state for session in self.sessions]

    def intervals(self, sender: int, since: float) -> list[float]:
        times = [time for time, who, packet in self.sent if who == sender and time >= since and not packet.final]
        return [later - earlier for earlier, later in itertools.pairwise(times)]


def test_both_ends_come_up_and_then_send_at_the_negotiated_rate():
    path = Path(left=Timing(0.1, 0.2, 3), right=Timing(0.05, 0.3, 5))
    path.run(5)
    assert path.states == [State.UP, State.UP]
    since = path.now
    path.run(5)
    # Each sends no faster than the other wants to receive, with the jitter of 0.5: 87.5 %.
    assert path.intervals(0, since) == pytest.approx([0.3 * 0.875] * len(path.intervals(0, since)))
    assert path.intervals(1, since) == pytest.approx([0.2 * 0.875] * len(path.intervals(1, since)))
    assert path.sessions[0].detection_seconds == pytest.approx(5 * 0.2)
    assert path.sessions[1].detection_seconds == pytest.approx(3 * 0.3)
    assert not any(packet.poll for time, _, packet in path.sent if time >= since)  # the poll sequence has ended


def test_a_cut_path_is_detected_within_the_detection_time_and_heals():
    path = Path()
    path.run(5)
    path.is_cut = [True, True]
    path.run(0.301)
    assert path.states == [State.DOWN, State.DOWN]
    assert path.sessions[0].diagnostic == Diagnostic.DETECTION_TIME_EXPIRED
    path.is_cut = [False, False]
    path.run(4)
    assert path.states == [State.UP, State.UP]


def test_a_path_cut_in_one_direction_is_down_at_both_ends():
    path = Path()
    path.run(5)
    path.is_cut = [True, False]
    path.run(0.35)
    assert path.states == [State.DOWN, State.DOWN]
    assert path.sessions[1].diagnostic == Diagnostic.NEIGHBOR_SIGNALED_DOWN


def test_sessions_that_are_down_send_slowly():
    path = Path()
    path.is_cut = [True, True]
    path.run(10)
    assert 9 <= len([sender for _, sender, _ in path.sent if sender == 0]) <= 14


def test_a_passive_end_waits_for_the_other():
    path = Path(left=Timing(0.1, 0.1, 3, is_passive=True), right=Timing(0.1, 0.1, 3, is_passive=True))
    path.run(10)
    assert path.sent == []
    path = Path(left=Timing(0.1, 0.1, 3, is_passive=True))
    path.run(5)
    assert path.states == [State.UP, State.UP]


def test_a_farewell_is_not_a_failure():
    path = Path()
    path.run(5)
    farewell = path.sessions[0].farewell()
    assert (farewell.state, farewell.diagnostic) == (State.ADMIN_DOWN, Diagnostic.ADMINISTRATIVELY_DOWN)
    path.sessions[1].on_packet(farewell, path.now)
    assert path.sessions[1].state == State.DOWN
    assert path.sessions[1].remote_state == State.ADMIN_DOWN


def test_slower_timing_takes_effect_only_when_the_neighbour_knows_it():
    path = Path()
    path.run(5)
    path.is_cut = [False, True]  # the right one does not learn of it
    path.sessions[0].change_timing(Timing(1.0, 0.1, 3), path.now)
    assert path.sessions[0].transmit_seconds == pytest.approx(0.1)
    path.is_cut = [False, False]
    path.run(0.2)
    assert path.sessions[0].transmit_seconds == pytest.approx(1.0)
    path.run(5)
    assert path.states == [State.UP, State.UP]


@given(
    st.lists(
        st.tuples(st.floats(0.01, 2), st.floats(0.01, 2), st.integers(1, 10), st.booleans()).map(lambda t: Timing(*t)),
        min_size=1,
        max_size=4,
    ),
    st.floats(0, 1),
)
def test_changed_timing_never_ends_a_session(timings, jitter):
    path = Path(jitter=jitter)
    path.run(5)
    for index, timing in enumerate(timings):
        path.sessions[index % 2].change_timing(timing, path.now)
        path.run(1)
        assert path.states == [State.UP, State.UP]
        path.run(10)
        assert path.states == [State.UP, State.UP]


def test_a_multiplier_of_one_sends_early_enough():
    path = Path(left=Timing(0.1, 0.1, 1), jitter=1.0)
    path.run(5)
    since = path.now
    path.run(5)
    assert max(path.intervals(0, since)) <= 0.09 + 1e-6
    assert path.states == [State.UP, State.UP]


def packet(state: State, **fields: Any) -> ControlPacket:
    base = ControlPacket(state, 22, 11 if state in (State.INIT, State.UP) else 0, 3, 100_000, 100_000)
    return base._replace(**fields)


RECEIVED = (State.ADMIN_DOWN, State.DOWN, State.INIT, State.UP)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], [State.DOWN, State.INIT, State.UP, State.DOWN]),
        ([State.DOWN], [State.DOWN, State.INIT, State.UP, State.UP]),
        ([State.DOWN, State.INIT], [State.DOWN, State.DOWN, State.UP, State.UP]),
    ],
    ids=["down", "init", "up"],
)
def test_the_state_machine_is_that_of_the_rfc(before, after):
    for received, expected in zip(RECEIVED, after, strict=True):
        session = Session(FAST, 11, 0.0, lambda: 0.5)
        for state in before:
            session.on_packet(packet(state), 0.0)
        session.on_packet(packet(received), 0.0)
        assert session.state == expected


def test_packets_for_another_session_are_ignored():
    session = Session(FAST, 11, 0.0, lambda: 0.5)
    assert session.on_packet(packet(State.INIT, your_discriminator=99), 0.0) == []
    assert session.state == State.DOWN


def test_a_poll_is_answered_at_once():
    session = Session(FAST, 11, 0.0, lambda: 0.5)
    session.on_packet(packet(State.DOWN), 0.0)
    [answer] = session.on_packet(packet(State.UP, poll=True), 0.0)
    assert answer.final
    assert not answer.poll
    assert answer.state == State.UP


def test_nothing_is_sent_to_a_neighbour_that_wants_nothing():
    session = Session(FAST, 11, 0.0, lambda: 0.5)
    session.on_packet(packet(State.DOWN), 0.0)
    session.on_packet(packet(State.UP, required_min_rx=0), 0.0)
    assert session.transmit_seconds == math.inf
    session.on_packet(packet(State.UP, demand=True, your_discriminator=11, final=True), 0.1)
    assert session.transmit_seconds == math.inf
    session.on_packet(packet(State.UP), 0.2)
    assert session.next_deadline <= 0.2 + 0.1
