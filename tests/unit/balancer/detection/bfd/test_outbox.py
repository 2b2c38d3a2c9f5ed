"""Reports about BFD sessions to a speaker that does not read."""

from __future__ import annotations

from bridgehead.balancer.detection.bfd.messages import Change, Neighbor, read_change
from bridgehead.balancer.detection.bfd.outbox import RETRY_SECONDS, Outbox
from bridgehead.balancer.detection.bfd.packets import State
from bridgehead.balancer.detection.engine import NEVER, Message

ROUTER, OTHER = Neighbor("10.0.0.1"), Neighbor("10.0.0.2")


class Speaker:
    """Takes messages while `is_reading`."""

    def __init__(self) -> None:
        self.is_reading = True
        self.changes: list[Change] = []

    def report(self, message: Message) -> bool:
        if self.is_reading:
            self.changes.append(read_change(message))
        return self.is_reading


def test_a_change_is_reported_at_once():
    speaker = Speaker()
    outbox = Outbox(speaker.report)
    outbox.add(Change(ROUTER, State.UP), 1.0)
    assert speaker.changes == [Change(ROUTER, State.UP)]
    assert outbox.next_deadline == NEVER


def test_a_failure_is_reported_later_to_a_speaker_that_did_not_read():
    speaker = Speaker()
    outbox = Outbox(speaker.report)
    speaker.is_reading = False
    for state in (State.DOWN, State.INIT, State.UP):
        outbox.add(Change(ROUTER, state), 1.0)
    outbox.add(Change(OTHER, State.UP), 1.0)
    assert outbox.next_deadline == 1.0 + RETRY_SECONDS
    outbox.send_waiting(2.0)
    assert outbox.next_deadline == 2.0 + RETRY_SECONDS
    speaker.is_reading = True
    outbox.send_waiting(3.0)
    assert speaker.changes == [Change(ROUTER, State.DOWN), Change(ROUTER, State.UP), Change(OTHER, State.UP)]
    assert outbox.next_deadline == NEVER


def test_nothing_is_reported_of_a_session_that_has_ended():
    speaker = Speaker()
    outbox = Outbox(speaker.report)
    speaker.is_reading = False
    outbox.add(Change(ROUTER, State.DOWN), 1.0)
    outbox.forget(ROUTER)
    speaker.is_reading = True
    outbox.send_waiting(2.0)
    assert speaker.changes == []
