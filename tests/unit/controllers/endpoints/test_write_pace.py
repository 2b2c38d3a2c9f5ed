from __future__ import annotations

from bridgehead.client import WorkQueue
from bridgehead.controllers.endpoints.write_pace import Pace
from bridgehead.objects.meta import ObjectKey

KEY = ObjectKey("default", "web")


class Queue(WorkQueue[ObjectKey]):
    """Notes what it is asked for."""

    def __init__(self):
        super().__init__("test")
        self.asked = []

    def add(self, key):
        self.asked.append(0)

    def add_after(self, key, seconds):
        self.asked.append(round(seconds, 3))


def test_the_first_change_is_written_at_once_and_later_ones_are_batched():
    now = [100.0]
    queue = Queue()
    pace = Pace(queue, lambda: now[0], period=0.1)
    pace.add(KEY, urgent=False)
    pace.record_write(KEY)
    now[0] += 0.03
    pace.add(KEY, urgent=False)
    pace.add(ObjectKey("default", "other"), urgent=False)
    now[0] += 0.1
    pace.add(KEY, urgent=False)
    assert queue.asked == [0, 0.07, 0, 0]


def test_urgent_changes_are_not_delayed():
    queue = Queue()
    pace = Pace(queue, lambda: 100.0)
    pace.record_write(KEY)
    pace.add(KEY, urgent=True)
    assert queue.asked == [0]


def change_and_write(pace: Pace, queue: Queue, now: list[float]) -> float:
    """Make a change 0.01 seconds after the last write, and write when it is due. Return the wait."""
    now[0] += 0.01
    pace.add(KEY, urgent=False)
    wait = queue.asked[-1]
    now[0] += wait
    pace.record_write(KEY)
    return wait


def test_the_period_grows_while_changes_go_on():
    now, queue = [100.0], Queue()
    pace = Pace(queue, lambda: now[0])
    pace.record_write(KEY)
    assert [change_and_write(pace, queue, now) for _ in range(5)] == [0.09, 0.19, 0.39, 0.49, 0.49]


def test_the_period_is_short_again_after_a_quiet_one():
    now, queue = [100.0], Queue()
    pace = Pace(queue, lambda: now[0])
    pace.record_write(KEY)
    for _ in range(5):
        change_and_write(pace, queue, now)
    now[0] += 1
    pace.add(KEY, urgent=False)
    pace.record_write(KEY)
    assert queue.asked[-1] == 0
    assert change_and_write(pace, queue, now) == 0.09


def test_an_urgent_change_does_not_shorten_the_period():
    now, queue = [100.0], Queue()
    pace = Pace(queue, lambda: now[0])
    pace.record_write(KEY)
    change_and_write(pace, queue, now)
    pace.add(KEY, urgent=False)
    pace.add(KEY, urgent=True)
    pace.record_write(KEY)
    assert change_and_write(pace, queue, now) == 0.39
