"""The channel between a speaker and its detector."""

from __future__ import annotations

import contextlib
from typing import Any

from bridgehead.balancer.detection.detector_messages import Channel, open_channel


def _received(ours: Channel, theirs: Channel) -> list[Any]:
    """Return the messages that arrive while the sender goes on with its beats, until both have nothing more."""
    messages: list[Any] = []
    beats = 0
    while beats < 2:  # a beat comes after all that the sender had
        ours.beat()
        for message in theirs.receive():
            if message is None:
                beats += 1
            else:
                messages.append(message)
    return messages


def test_a_message_may_be_larger_than_what_the_kernel_takes():
    ours, theirs = open_channel()
    with contextlib.closing(ours), contextlib.closing(theirs):
        large = {"to": "heartbeats", "peers": {f"node{number}": "x" * 1000 for number in range(8000)}}
        after = {"to": "bfd", "sessions": []}
        assert ours.send(large)
        assert not ours.send(after), "the message before is not sent"
        assert _received(ours, theirs) == [large]
        assert ours.send(after)
        assert _received(ours, theirs) == [after]


def test_nothing_is_sent_to_an_end_that_is_closed():
    ours, theirs = open_channel()
    with contextlib.closing(ours):
        theirs.close()
        ours.send({"to": "bfd"})
        assert not ours.send({"to": "bfd"})


def test_a_beat_shows_whether_its_sender_is_idle():
    ours, theirs = open_channel()
    with contextlib.closing(ours), contextlib.closing(theirs):
        for is_idle in (False, True, False):
            ours.beat(is_idle=is_idle)
            assert list(theirs.receive()) == [None]
            assert theirs.is_idle == is_idle
