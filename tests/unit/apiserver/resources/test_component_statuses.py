"""ComponentStatuses: a list of the store that is only read."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_component_statuses_are_only_read(world):
    answer = await world.call("GET", "/api/v1/componentstatuses")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["etcd-0"]
    assert "v1 ComponentStatus is deprecated in v1.19+" in answer.header("warning")[0]
    assert (await world.call("DELETE", "/api/v1/componentstatuses/etcd-0")).status == 405
    entries = {entry["name"]: entry for entry in (await world.get("/api/v1"))["resources"]}
    assert entries["componentstatuses"]["verbs"] == ["get", "list"]
