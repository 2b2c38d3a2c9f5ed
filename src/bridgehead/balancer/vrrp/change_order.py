"""Order of the changes of groups on several nodes: the node that should be a group's master is it first.

Other nodes have a new group a moment later. A master that an address leaves keeps its group as it is for that moment,
so that nobody is without an answer, and the next master has its rules (docs/decisions/0043-planned-moves.md).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from .address_groups import Group

NOTICE_SECONDS = 0.3  # in which the next master learns that it will be, also on a busy machine


class Changes:
    """The changes that wait."""

    def __init__(self) -> None:
        self._due: dict[str, float] = {}  # when a group may change, by name

    @property
    def has_waiting(self) -> bool:
        """Whether a change waits, `NOTICE_SECONDS` at most."""
        return bool(self._due)

    def choose(
        self,
        configured: Mapping[str, Group],
        wanted: Mapping[str, Group],
        mastered: Collection[str],
        is_elsewhere: Callable[[Group], bool],
        now: float,
    ) -> dict[str, Group]:
        """Return the groups to configure now, by name.

        `mastered`: the groups whose master this node is. `is_elsewhere`: whether another node should be the master of a
        group's addresses. `now`: seconds.
        """
        chosen, kept = {}, {}
        waiting: dict[str, float] = {}
        for name in configured.keys() | wanted.keys():
            old, new = configured.get(name), wanted.get(name)
            waits = old != new and is_elsewhere(old or wanted[name]) and (old is None or name in mastered)
            due = self._due.get(name, now + NOTICE_SECONDS)
            if waits and now < due:
                waiting[name] = due
                if old is not None:
                    kept[name] = old
            elif new is not None:
                chosen[name] = new
        self._due = waiting
        # The id of a group that has gone may be another one's by now.
        taken = {group.router_id for group in chosen.values()}
        return chosen | {name: group for name, group in kept.items() if group.router_id not in taken}
