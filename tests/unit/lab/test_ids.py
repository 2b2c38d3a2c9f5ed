"""Ids of the machine that the users of a lab get."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.lab.ids import (
    POD_RANGES,
    RANGE,
    IdRange,
    MapEntry,
    choose_base,
    choose_pod_ids,
    describe_missing_ids,
    map_range,
    map_user,
    parse_id_map,
    parse_subordinate,
)

ALL = [IdRange(0, 2**32 - 1)]


def test_an_id_map_of_the_kernel_is_parsed() -> None:
    assert parse_id_map("         0       1000          1\n         1     100000      65536\n") == [
        IdRange(0, 1),
        IdRange(1, 65536),
    ]


@pytest.mark.parametrize(
    ("text", "names", "found"),
    [
        ("someone:100000:65536\nother:165536:65536\n", ("someone", "1000"), [IdRange(100000, 65536)]),
        ("1000:100000:65536\nsomeone:300000:10\n", ("someone", "1000"), [IdRange(100000, 65536), IdRange(300000, 10)]),
        ("other:1:1\n", ("someone",), []),
        ("# comment\nsomeone:x:1\nsomeone:1\n\n", ("someone",), []),
        ("a:1:2\nb:3:4\n", (), [IdRange(1, 2), IdRange(3, 4)]),  # anybody's
    ],
)
def test_subordinate_ids_are_parsed(text: str, names: tuple[str, ...], found: list[IdRange]) -> None:
    assert parse_subordinate(text, names) == found


def test_an_id_range_for_root_is_stable_and_free() -> None:
    base = choose_base("/a", ALL, [])
    assert base is not None
    assert base % RANGE == 0
    assert choose_base("/a", ALL, []) == base != choose_base("/b", ALL, [])
    assert choose_base("/a", ALL, [IdRange(base + 5, 1)]) != base
    # A user namespace with few ids has no room.
    assert choose_base("/a", [IdRange(0, 1)], []) is None
    assert choose_base("/a", [IdRange(0, 65536)], []) is None


@given(st.text(), st.lists(st.builds(IdRange, st.integers(0, 2**31), st.integers(1, 2**20)), max_size=20))
def test_a_chosen_range_overlaps_no_other(key: str, taken: list[IdRange]) -> None:
    base = choose_base(key, ALL, taken)
    assert base is not None
    assert 0x80000 <= base <= 0x6FFFFFFF - RANGE + 1
    assert not any(each.overlaps(IdRange(base, RANGE)) for each in taken)


def test_missing_users_are_described_with_how_to_get_them() -> None:
    assert "install newuidmap" in describe_missing_ids(map_user(1000, 1000, (), ()))
    granted = [IdRange(100_000, 65_536)]
    for id_map in (None, map_user(1000, 1000, granted, granted), map_range(1_000_000)):
        assert describe_missing_ids(id_map) == ""


@given(st.integers(0, 28_000), st.lists(st.builds(IdRange, st.integers(0, 2**31), st.integers(1, 2**20)), max_size=20))
def test_the_ids_of_pods_are_others_than_those_of_their_lab_and_of_users(slot: int, taken: list[IdRange]) -> None:
    base = 0x80000 + slot * RANGE
    pods = choose_pod_ids(base, ALL, taken)
    assert pods is not None
    assert pods == choose_pod_ids(base, ALL, taken)
    assert pods.size == POD_RANGES * RANGE
    assert not any(each.overlaps(pods) for each in (IdRange(base, RANGE), *taken))
    assert choose_pod_ids(base, [IdRange(0, 65536)], []) is None


def test_the_ids_of_pods_follow_those_of_the_lab() -> None:
    made = map_range(524288, IdRange(2**22, 2 * RANGE))
    assert made.users == made.groups == (MapEntry(0, 524288, RANGE), MapEntry(RANGE, 2**22, 2 * RANGE))
    assert made.nested.users == (MapEntry(0, 0, RANGE), MapEntry(RANGE, RANGE, 2 * RANGE))


def test_id_maps_for_root_and_users() -> None:
    assert map_range(524288).users == map_range(524288).groups == (MapEntry(0, 524288, RANGE),)
    assert map_range(524288).root == (524288, 524288)
    alone = map_user(1000, 1001, [], [IdRange(5, 6)])
    assert (alone.users, alone.groups, alone.is_granted) == ((MapEntry(0, 1000, 1),), (MapEntry(0, 1001, 1),), False)
    granted = map_user(1000, 1001, [IdRange(100, 10), IdRange(200, 5)], [IdRange(300, 7)])
    assert granted.users == (MapEntry(0, 1000, 1), MapEntry(1, 100, 10), MapEntry(11, 200, 5))
    assert granted.nested.users == (MapEntry(0, 0, 1), MapEntry(1, 1, 10), MapEntry(11, 11, 5))
    assert not granted.nested.is_granted
    assert (granted.groups[1], granted.root, granted.is_granted) == (MapEntry(1, 300, 7), (1000, 1001), True)
