"""Watches: where they begin, their events, and how they end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.handlers import event_forms
from bridgehead.apiserver.http.piecewise import PIECE_BYTES
from bridgehead.apiserver.http.unsent import UnsentBudget
from bridgehead.apiserver.registry import freshness, watching
from bridgehead.apiserver.resources import build_table
from tests.unit.apiserver.world import TABLE, World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def make(world: World, name: str, **labels: str) -> dict[str, Any]:
    obj: dict[str, Any] = await world.create(CONFIG_MAPS, {"metadata": {"name": name, "labels": labels}})
    return obj


@pytest.mark.parametrize("query", ["", "?resourceVersion=0"])
async def test_a_watch_without_a_version_begins_with_existing_objects(world, query):
    await make(world, "old")
    watch = await world.watch(f"{CONFIG_MAPS}{query}")
    await make(world, "new")
    assert await watch.names(2) == [("ADDED", "old"), ("ADDED", "new")]
    await watch.leave()


async def test_a_watch_from_a_version_delivers_all_later_changes(world):
    first = await make(world, "a")
    await make(world, "b")
    await world.patch(f"{CONFIG_MAPS}/b", {"data": {"k": "v"}})
    await world.call("DELETE", f"{CONFIG_MAPS}/a")
    watch = await world.watch(f"{CONFIG_MAPS}?resourceVersion={first['metadata']['resourceVersion']}")
    assert await watch.names(3) == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "a")]
    await watch.leave()


async def test_a_deleted_object_has_the_version_of_its_deletion(world):
    await make(world, "a")
    watch = await world.watch(f"{CONFIG_MAPS}?resourceVersion={world.store.revision}")
    await world.call("DELETE", f"{CONFIG_MAPS}/a")
    event = await watch.next()
    assert event["object"]["metadata"]["resourceVersion"] == str(world.store.revision)
    await watch.leave()


async def test_objects_that_enter_and_leave_a_selector_are_added_and_deleted(world):
    watch = await world.watch(f"{CONFIG_MAPS}?labelSelector=on%3Dyes")
    await make(world, "never")
    await make(world, "a", on="no")
    for on in ("yes", "yes", "no", "no", "yes"):
        await world.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": on}}})
        await world.patch(f"{CONFIG_MAPS}/a", {"data": {"on": on}})
    await world.call("DELETE", f"{CONFIG_MAPS}/a")
    events = [await watch.next() for _ in range(6)]
    assert [e["type"] for e in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    # The event has the last selected state, with the revision at which the object left the selection.
    left = events[2]["object"]
    assert left["metadata"]["labels"] == {"on": "yes"}
    assert int(left["metadata"]["resourceVersion"]) > int(events[1]["object"]["metadata"]["resourceVersion"])
    await watch.leave()


async def test_a_watch_by_name_delivers_one_object(world):
    watch = await world.watch(f"{CONFIG_MAPS}?fieldSelector=metadata.name%3Db")
    await make(world, "a")
    await make(world, "b")
    assert await watch.names(1) == [("ADDED", "b")]
    await watch.leave()


async def test_initial_events_end_with_a_bookmark(world):
    await make(world, "a")
    query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    watch = await world.watch(f"{CONFIG_MAPS}?{query}")
    assert (await watch.next())["type"] == "ADDED"
    mark = await watch.next()
    assert mark["type"] == "BOOKMARK"
    assert mark["object"]["kind"] == "ConfigMap"
    assert mark["object"]["metadata"] == {
        "annotations": {"k8s.io/initial-events-end": "true"},
        "resourceVersion": str(world.store.revision),
    }
    await watch.leave()


async def test_bookmarks_have_the_form_of_the_other_events(world):
    await make(world, "a")
    query = "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    watch = await world.watch(f"{CONFIG_MAPS}?{query}", headers={"accept": TABLE})
    assert (await watch.next())["object"]["columnDefinitions"]
    mark = (await watch.next())["object"]
    assert (mark["kind"], mark["columnDefinitions"]) == ("Table", None)
    assert mark["rows"][0]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await watch.leave()
    partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    watch = await world.watch(f"{CONFIG_MAPS}?{query}", headers={"accept": partial})
    assert (await watch.next())["object"].keys() == {"kind", "apiVersion", "metadata"}
    mark = await watch.next()
    assert (mark["type"], mark["object"]["kind"]) == ("BOOKMARK", "PartialObjectMetadata")
    await watch.leave()


async def test_bookmarks_of_every_kind_can_be_tables(world):
    for resource in build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767)):
        if not resource.is_read_only:
            form = event_forms.TableEvents(resource, "v1", "Metadata", world.clock)
            mark = form.bookmark({"kind": resource.kind, "metadata": {"resourceVersion": "5"}})
            assert b'"Table"' in mark


async def test_a_legacy_watch_marks_the_end_of_the_initial_events(world):
    watch = await world.watch(f"{CONFIG_MAPS}?allowWatchBookmarks=true")
    mark = await watch.next()
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await watch.leave()


async def test_bookmarks_of_a_quiet_watch_have_the_current_revision(world, monkeypatch):
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.01)
    watch = await world.watch(f"{CONFIG_MAPS}?allowWatchBookmarks=true&resourceVersion={world.store.revision}")
    await world.create("/api/v1/namespaces", {"metadata": {"name": "elsewhere"}})
    event = await watch.next()
    while event["object"]["metadata"]["resourceVersion"] != str(world.store.revision):
        assert event["type"] == "BOOKMARK"
        event = await watch.next()
    await watch.leave()


async def test_a_watch_without_selected_objects_gets_bookmarks(world, monkeypatch):
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.05)
    since = world.store.revision
    watch = await world.watch(f"{CONFIG_MAPS}?allowWatchBookmarks=true&labelSelector=x=1&resourceVersion={since}")

    async def keep_writing() -> None:
        for number in itertools.count():
            await make(world, f"c{number}")
            await asyncio.sleep(0.001)

    writing = asyncio.create_task(keep_writing())
    seen = since
    while seen == since:  # the first bookmark may come before a write
        event = await watch.next()
        assert event["type"] == "BOOKMARK"
        seen = int(event["object"]["metadata"]["resourceVersion"])
    writing.cancel()
    assert seen > since
    await watch.leave()


async def test_a_watch_ends_after_its_timeout(world):
    watch = await world.watch(f"{CONFIG_MAPS}?timeoutSeconds=1")
    assert await watch.next() is None
    await watch.end()


async def test_a_shutdown_ends_all_watches(world):
    watches = [await world.watch(CONFIG_MAPS) for _ in range(3)]
    assert len(world.parts.watches) == 3
    world.parts.watches.close()
    for watch in watches:
        assert await watch.next() is None
        await watch.end()
    late = await world.watch(CONFIG_MAPS)
    assert await late.next() is None
    await late.end()


async def test_a_client_that_disconnects_ends_its_watch(world):
    watch = await world.watch(CONFIG_MAPS)
    await watch.leave()
    assert len(world.parts.watches) == 0


async def test_a_client_that_disconnects_immediately_leaves_no_watch(world):
    watch = await world.watch(CONFIG_MAPS)
    watch.connection.block()
    await make(world, "a")
    await watch.leave()
    assert len(world.parts.watches) == 0


async def test_a_watch_of_tables_has_column_definitions_once(world):
    await make(world, "a")
    watch = await world.watch(CONFIG_MAPS, headers={"accept": TABLE})
    await make(world, "b")
    first, second = await watch.next(), await watch.next()
    assert [c["name"] for c in first["object"]["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][0] == "b"
    await watch.leave()


async def only_event(world, query):
    """The one event of a watch that cannot begin; its answer is a success, as with client-go's expectations."""
    watch = await world.watch(f"{CONFIG_MAPS}?{query}")
    event = await watch.next()
    assert await watch.next() is None
    await watch.end()
    assert watch.answer.status == 200
    assert not world.parts.watches
    return event["type"], event["object"]["code"], event["object"]["reason"], event["object"]["message"]


async def test_a_watch_from_an_expired_version_gets_410():
    async with open_world(history_changes=4) as world:
        for i in range(10):
            await make(world, f"c{i}")
        message = f"too old resource version: 1 ({world.store.revision})"
        assert await only_event(world, "resourceVersion=1") == ("ERROR", 410, "Expired", message)


@pytest.mark.parametrize("query", ["", "&sendInitialEvents=false&resourceVersionMatch=NotOlderThan"])
async def test_a_watch_from_a_version_of_the_future_waits_for_later_changes(world, monkeypatch, query):
    monkeypatch.setattr(watching, "BOOKMARK_SECONDS", 0.01)
    future = world.store.revision + 2
    watch = await world.watch(f"{CONFIG_MAPS}?resourceVersion={future}&allowWatchBookmarks=true{query}")
    for name in ("a", "b", "c"):
        await asyncio.sleep(0.02)  # in which bookmarks of revisions that are not later would come
        await make(world, name)
    event = await watch.next()
    assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "c")
    event = await watch.next()
    assert (event["type"], event["object"]["metadata"]["resourceVersion"]) == ("BOOKMARK", str(future + 1))
    await watch.leave()


async def test_initial_events_wait_for_their_version(world, monkeypatch):
    initial = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    message = f"Timeout: Too large resource version: 99999, current: {world.store.revision}"
    query = f"resourceVersion=99999&{initial}"
    assert await only_event(world, query) == ("ERROR", 504, "Timeout", message)
    monkeypatch.setattr(freshness, "BLOCK_SECONDS", 40)
    version = world.store.revision + 2
    waiting = asyncio.create_task(world.watch(f"{CONFIG_MAPS}?resourceVersion={version}&{initial}"))
    await make(world, "a")
    await make(world, "b")
    watch = await waiting
    assert await watch.names(2) == [("ADDED", "a"), ("ADDED", "b")]
    await watch.leave()


async def test_a_client_that_never_reads_is_disconnected_and_others_are_not():
    async with open_world(history_changes=4) as world:
        world.parts.application._sender._unsent = UnsentBudget(seconds=0.05)
        stuck, healthy = await world.watch(CONFIG_MAPS), await world.watch(CONFIG_MAPS)
        stuck.connection.block()
        names = []
        for i in range(20):
            await make(world, f"c{i}")
            names += await healthy.names(1)
        assert [name for _, name in names] == [f"c{i}" for i in range(20)]
        await stuck.end()
        assert stuck.connection.was_aborted
        assert len(world.parts.watches) == 1
        await healthy.leave()


async def test_over_budget_the_longest_waiting_slow_readers_are_disconnected():
    async with open_world() as world:
        # Room for two readers that wait (`Reader.unsent_bytes`); their streams hold nothing meanwhile.
        budget = world.parts.application._sender._unsent = UnsentBudget(max_bytes=250_000)
        healthy = await world.watch(CONFIG_MAPS)
        stuck = []
        for i in range(4):
            stuck.append(await world.watch(CONFIG_MAPS))
            stuck[-1].connection.block()
            await make(world, f"c{i}")
            await healthy.names(1)
        for watch in stuck[:2]:
            await watch.end()
        assert [watch.connection.was_aborted for watch in stuck] == [True, True, False, False]
        assert 200_000 <= budget.held_bytes <= 250_000
        for watch in stuck[2:]:
            watch.connection.unblock()
        assert [name for _, name in await stuck[2].names(4)] == ["c0", "c1", "c2", "c3"]
        assert budget.held_bytes == 0
        assert len(world.parts.watches) == 3


async def test_a_change_reaches_a_crowd_of_watches_in_several_turns_of_the_event_loop(world):
    """Between these, the server accepts connections and answers requests."""
    watches = [await world.watch(CONFIG_MAPS) for _ in range(300)]
    making = asyncio.create_task(make(world, "a"))
    received = [0]
    while received[-1] < len(watches):
        await asyncio.sleep(0)
        received.append(sum(any(watch.piece_sizes) for watch in watches))
    await making
    assert max(after - before for before, after in itertools.pairwise(received)) <= 64
    for watch in watches:
        assert await watch.names(1) == [("ADDED", "a")]
        await watch.leave()


async def test_a_large_object_in_pieces_has_the_same_bytes(world):
    watch, table = await world.watch(CONFIG_MAPS), await world.watch(CONFIG_MAPS, headers={"accept": TABLE})
    data = {"k": "x" * 500_000}
    made = await world.create(CONFIG_MAPS, {"metadata": {"name": "large"}, "data": data})
    event = await watch.next()
    assert event == {"type": "ADDED", "object": made}
    row = await table.next()
    assert row is not None
    assert row["object"]["rows"][0]["object"]["metadata"]["name"] == "large"
    again = await world.watch(f"{CONFIG_MAPS}?resourceVersion=0")
    assert await again.next() == event
    assert max(watch.piece_sizes + again.piece_sizes) <= PIECE_BYTES


async def test_a_slow_client_gets_a_410():
    async with open_world(history_changes=4) as world:
        slow = await world.watch(CONFIG_MAPS)
        slow.connection.block()
        for i in range(20):
            await make(world, f"c{i}")
        slow.connection.unblock()
        event = await slow.next()
        while event is not None and event["type"] != "ERROR":
            event = await slow.next()
        assert event is not None
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
        assert await slow.next() is None
        await slow.end()
