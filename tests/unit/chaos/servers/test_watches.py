"""Events of watchers: what is wrong about them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from chaos.servers.watches import Acknowledged, Event, Sight, find_wrong, most_at_once, objects_after

ADDED = Event(3, "ADDED", "shared/a", "u1", "s1")
CHANGED = Event(5, "MODIFIED", "shared/a", "u1", "s2")
DELETED = Event(8, "DELETED", "shared/a", "u1", "s2")
AGAIN = Event(9, "ADDED", "shared/a", "u2", "s3")
ALL = [ADDED, CHANGED, DELETED, AGAIN]


def wrong(events: list[Event], too_old: int = 0, *acknowledged: Acknowledged) -> str:
    sights = [Sight("one", "configmaps", ALL), Sight("two", "configmaps", events, too_old)]
    return "\n".join(find_wrong(sights, acknowledged))


def test_watchers_that_agree() -> None:
    assert wrong(ALL, 0, Acknowledged("configmaps", "shared/a", 5, "s2")) == ""


@pytest.mark.parametrize(
    ("events", "finding"),
    [
        ([ADDED, DELETED, AGAIN], "two of configmaps: 1 of 4 changes are missing"),
        ([ADDED, CHANGED, CHANGED, DELETED, AGAIN], "revision 5 came after 5"),
        ([ADDED, DELETED, CHANGED, AGAIN], "revision 5 came after 8"),
        ([ADDED, replace(CHANGED, state="other"), DELETED, AGAIN], "another watcher"),
        ([*ALL, replace(AGAIN, revision=10)], "follows the object u2"),
        ([*ALL, replace(CHANGED, revision=10)], "has another uid than the object before, u2"),
        ([*ALL, replace(ADDED, revision=10, name="shared/b")], "has the uid of an earlier object"),
        ([*ALL, replace(DELETED, revision=10, name="shared/b")], "follows nothing"),
    ],
)
def test_events_that_are_wrong(events: list[Event], finding: str) -> None:
    assert finding in wrong(events)


def test_history_that_a_server_does_not_have() -> None:
    assert "2 watches were refused as too old" in wrong(ALL, 2)


@pytest.mark.parametrize(
    "lost",
    [
        Acknowledged("configmaps", "shared/a", 4, "s2"),
        Acknowledged("configmaps", "shared/a", 5, "other"),
        Acknowledged("services", "shared/a", 5, "s2"),
    ],
)
def test_acknowledged_writes_that_nobody_saw(lost: Acknowledged) -> None:
    assert "acknowledged was" in wrong(ALL, 0, lost)


def test_what_is_left_and_how_much_there_was() -> None:
    other = Event(6, "ADDED", "limited/b", "u3", "s4")
    assert objects_after([ADDED, CHANGED, other, DELETED, AGAIN]) == {"shared/a": 9, "limited/b": 6}
    assert most_at_once([ADDED, other, replace(other, revision=7, name="limited/c"), DELETED], "limited") == 2
