"""Changes of groups that wait until the next master is there."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from bridgehead.balancer.vrrp.address_groups import Group, GroupKey
from bridgehead.balancer.vrrp.change_order import NOTICE_SECONDS, Changes

SOON, LATER = NOTICE_SECONDS / 2, NOTICE_SECONDS * 2


def group(name: str, priority: int = 200, router_id: int = 7) -> Group:
    return Group(GroupKey("eth0", name), router_id, 1, priority, (ipaddress.ip_address("10.1.0.1"),))


def choose(
    changes: Changes,
    now: float,
    configured: dict[str, Group],
    wanted: dict[str, Group],
    *,
    mastered: Collection[str] = (),
    is_elsewhere: bool,
) -> dict[str, Group]:
    chosen = changes.choose(configured, wanted, mastered, lambda group: is_elsewhere, now)
    assert changes.has_waiting == (chosen != wanted)
    return chosen


def test_a_new_group_comes_later_to_nodes_that_should_not_be_its_master():
    new = {"a": group("a")}
    assert choose(Changes(), 0.0, {}, new, is_elsewhere=False) == new
    changes = Changes()
    assert choose(changes, 0.0, {}, new, is_elsewhere=True) == {}
    assert choose(changes, SOON, {}, new, is_elsewhere=True) == {}
    assert choose(changes, LATER, {}, new, is_elsewhere=True) == new
    # The other node died meanwhile.
    assert choose(changes, 0.0, {}, new, is_elsewhere=True) == {}
    assert choose(changes, SOON, {}, new, is_elsewhere=False) == new


def test_a_master_gives_up_later_and_others_at_once():
    old = {"a": group("a")}
    for wanted in ({}, {"a": group("a", priority=100)}):
        assert choose(Changes(), 0.0, old, wanted, is_elsewhere=True) == wanted
        assert choose(Changes(), 0.0, old, wanted, mastered=["a"], is_elsewhere=False) == wanted
        changes = Changes()
        for now, expected in ((0.0, old), (SOON, old), (LATER, wanted)):
            assert choose(changes, now, old, wanted, mastered=["a"], is_elsewhere=True) == expected


def test_an_id_is_never_in_use_twice():
    old, wanted = {"a": group("a")}, {"b": group("b")}
    changes = Changes()
    chosen = changes.choose(old, wanted, ["a"], lambda found: found == old["a"], 0.0)
    assert chosen == wanted
