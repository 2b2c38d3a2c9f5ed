"""The loop of the failure detector's process."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.balancer.detection.detector_messages import open_channel
from bridgehead.balancer.detection.keepalived_leftovers import Leftovers
from bridgehead.balancer.detection.process import Loop


class Ending(Leftovers):
    """An engine that does nothing but record its end."""

    def __init__(self, name: str, ended: list[str], *, fails: bool = False) -> None:
        super().__init__()
        self.name = name
        self._ended = ended
        self._fails = fails

    def on_end(self, now: float) -> None:
        self._ended.append(self.name)
        if self._fails:
            raise RuntimeError(self.name)


def test_every_engine_ends_in_order_even_if_one_fails():
    ended: list[str] = []
    ours, theirs = open_channel()
    engines: Any = [Ending("first", ended, fails=True), Ending("second", ended), Ending("third", ended)]
    loop = Loop(theirs, lambda report: engines)
    ours.close()  # the speaker has ended
    with pytest.raises(RuntimeError, match="first"):
        loop.run()
    assert ended == ["first", "second", "third"]
    theirs.close()
