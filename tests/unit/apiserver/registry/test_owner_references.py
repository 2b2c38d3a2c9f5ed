"""Duplicate owner references."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.registry.owner_references import with_unique_owners
from tests.unit.apiserver.world import World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


def owner(uid: str, **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": uid, **more}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


@pytest.mark.parametrize(
    ("owners", "unique", "uids"),
    [
        ([], [], ""),
        ([owner("a")], [owner("a")], ""),
        ([owner("a"), owner("b")], [owner("a"), owner("b")], ""),
        ([owner("a"), owner("b"), owner("a"), owner("b")], [owner("a"), owner("b")], "a, b"),
        # References that differ in another field are both kept.
        ([owner("a"), owner("a", controller=True)], [owner("a"), owner("a", controller=True)], ""),
    ],
)
def test_each_owner_is_kept_once(owners, unique, uids):
    warnings: list[str] = []
    assert (
        with_unique_owners({"metadata": {"ownerReferences": owners}}, warnings)["metadata"]["ownerReferences"] == unique
    )
    assert [text.rpartition(": ")[2] for text in warnings] == ([uids] if uids else [])


def test_many_owners_are_compared_by_their_encoding():
    class Owner(dict[str, Any]):
        __hash__ = None

        def __eq__(self, other: object) -> bool:
            raise AssertionError("compared with another owner")

    obj = {"metadata": {"ownerReferences": [Owner(owner(str(number))) for number in range(3)]}}
    assert with_unique_owners(obj, []) is obj


async def test_clients_are_warned_of_duplicate_owners(world):
    made = {"metadata": {"name": "a", "ownerReferences": [owner("x"), owner("x")]}}
    answer = await world.call("POST", CONFIG_MAPS, made)
    assert answer.json["metadata"]["ownerReferences"] == [owner("x")]
    (warning,) = answer.header("warning")
    assert warning == (
        '299 - ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and '
        'may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: x"'
    )
    answer = await world.call("PUT", f"{CONFIG_MAPS}/a", made)
    assert answer.json["metadata"]["ownerReferences"] == [owner("x")]
    assert answer.header("warning") == [warning]
    answer = await world.patch(
        f"{CONFIG_MAPS}/a", [{"op": "add", "path": "/metadata/ownerReferences/-", "value": owner("x")}], "json-patch"
    )
    assert answer.json["metadata"]["ownerReferences"] == [owner("x")]
    (warning,) = answer.header("warning")
    assert "contains duplicate entries after mutating admission happens;" in warning
