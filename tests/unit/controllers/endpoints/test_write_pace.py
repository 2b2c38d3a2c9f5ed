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
