"""Definitions with two servers on one store: what one of them answers holds for a request to the other at once."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridgehead.storage import Record
from bridgehead.storage.records import Write
from tests.unit.apiserver.customresources.definitions import (
    DEFINITIONS,
    NAME,
    crontab,
    define,
    definition,
    until,
    version,
)
from tests.unit.apiserver.two_servers import two_servers
from tests.unit.apiserver.world import World

CRONTABS = "/apis/stable.example.com/v1/namespaces/default/crontabs"


@pytest.fixture
async def worlds() -> AsyncIterator[tuple[World, World]]:
    async with two_servers() as worlds:
        yield worlds


async def test_a_definition_of_another_server_is_served_when_it_is_established(worlds) -> None:
    one, other = worlds
    assert (await other.call("POST", CRONTABS, crontab("early"))).status == 404
    await define(one, definition(version()))
    assert (await other.call("POST", CRONTABS, crontab("a"))).status == 201
    await define(one, definition(version(), plural="crontabs", group="second.example.com"))
    listed = await other.get("/apis/second.example.com/v1")
    assert [each["name"] for each in listed["resources"]] == ["crontabs"]


async def test_a_watch_from_a_revision_of_another_server_is_of_its_definition(worlds) -> None:
    one, other = worlds
    await define(one, definition(version()))
    assert (await other.call("GET", f"{CRONTABS}?resourceVersion={one.store.revision}")).status == 200


async def test_a_schema_of_another_server_holds_at_once(worlds) -> None:
    one, other = worlds
    await define(one, definition(version()))
    assert (await other.call("POST", CRONTABS, crontab("a", spec={"cronSpec": "x", "new": 1}))).json["spec"].get(
        "new"
    ) is None
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"new": {"type": "integer"}}}}}
    change = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]
    assert (await one.patch(f"{DEFINITIONS}/{NAME}", change, "json-patch")).status == 200
    assert (await other.call("POST", CRONTABS, crontab("b", spec={"new": 1}))).json["spec"] == {"new": 1}


async def test_a_definition_that_another_server_has_removed_takes_no_new_object(worlds) -> None:
    """Also if it is removed while the object is on its way to the store."""
    one, other = worlds
    await define(one, definition(version()))
    write = other.store._write

    async def is_gone() -> bool:
        return (await one.call("GET", f"{DEFINITIONS}/{NAME}")).status == 404

    async def remove_and_write(request: Write) -> Record:
        other.store._write = write
        await one.call("DELETE", f"{DEFINITIONS}/{NAME}")
        await until(is_gone)
        return await write(request)

    other.store._write = remove_and_write
    assert (await other.call("POST", CRONTABS, crontab("late"))).status == 404
    assert one.store.list(NAME) == []
    assert (await other.call("GET", CRONTABS)).status == 404
