"""The contract of stores: the same tests for the store in memory and the one in a file."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, cast

import pytest

from bridgehead.storage import (
    AlreadyExists,
    Change,
    ClaimTaken,
    Conflict,
    Create,
    Delete,
    Facts,
    FieldValue,
    Key,
    MemoryStore,
    NotFound,
    Overflow,
    Store,
    StoreBroken,
    TooOld,
    Update,
    ValueTooLarge,
    Watch,
    open_store,
)
from bridgehead.storage.sqlite import SqliteStore

Open = Callable[..., MemoryStore]


@pytest.fixture(params=["memory", "sqlite"])
async def open_(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Return a function that opens a store of the kind under test; its options are bounds of the history."""
    opened: list[MemoryStore] = []

    def open_one(**options: Any) -> MemoryStore:
        kind = request.param
        opened.append(MemoryStore(**options) if kind == "memory" else SqliteStore(tmp_path / "state.db", **options))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(open_: Open) -> Store:
    return open_()


def pod(name: str, namespace: str = "default") -> Key:
    return Key("pods", namespace, name)


def value(name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "Pod", "metadata": {"name": name}, **more}


async def put(store: Store, name: str, namespace: str = "default", **facts: Any) -> int:
    return (await store.create(pod(name, namespace), value(name), Facts(**facts))).revision


async def take(watch: Watch, count: int) -> list[Change]:
    """Return the next `count` changes of the watch."""
    changes: list[Change] = []
    async with asyncio.timeout(40):
        async for batch in watch:
            assert batch
            changes += batch
            if len(changes) >= count:
                return changes
    raise AssertionError("the watch has ended")


# --- objects ---------------------------------------------------------------------------------------------


async def test_a_created_object_is_read_back_with_its_revision(store: Store) -> None:
    facts = Facts(labels={"app": "web"}, fields={"spec.nodeName": "node1"}, claims=frozenset({"clusterip/10.96.0.9"}))
    given = value("a", spec={"x": [1, None, "ü"]})
    record = await store.create(pod("a"), given, facts)
    assert (record.key, record.revision, record.facts) == (pod("a"), 1, facts)
    assert json.loads(record.value) == {
        "kind": "Pod",
        "metadata": {"name": "a", "resourceVersion": "1"},
        "spec": {"x": [1, None, "ü"]},
    }
    assert given == value("a", spec={"x": [1, None, "ü"]}), "the writer's own value must stay as it was"
    assert store.get(pod("a")) is record
    assert store.revision == 1


async def test_a_missing_object_is_none(store: Store) -> None:
    assert store.get(pod("a")) is None
    assert store.list("pods") == []
    assert store.revision == 0


async def test_create_refuses_an_existing_key(store: Store) -> None:
    await put(store, "a")
    with pytest.raises(AlreadyExists):
        await put(store, "a")
    await put(store, "a", "other")
    await store.create(Key("services", "default", "a"), value("a"), Facts())
    assert store.revision == 3


async def test_update_replaces_only_the_expected_revision(store: Store) -> None:
    first = await put(store, "a")
    second = await store.update(pod("a"), value("a", n=2), Facts(labels={"n": "2"}), expected=first)
    assert second.revision == 2
    with pytest.raises(Conflict):
        await store.update(pod("a"), value("a", n=3), Facts(), expected=first)
    kept = store.get(pod("a"))
    assert kept is second
    assert json.loads(second.value)["metadata"]["resourceVersion"] == "2"
    with pytest.raises(NotFound):
        await store.update(pod("b"), value("b"), Facts(), expected=1)


async def test_delete_returns_the_last_state_with_the_deletions_revision(store: Store) -> None:
    first = await put(store, "a", labels={"app": "web"})
    with pytest.raises(Conflict):
        await store.delete(pod("a"), expected=first + 1)
    gone = await store.delete(pod("a"), expected=first)
    assert gone.revision == 2
    assert json.loads(gone.value) == {"kind": "Pod", "metadata": {"name": "a", "resourceVersion": "2"}}
    assert gone.facts.labels == {"app": "web"}
    assert store.get(pod("a")) is None
    with pytest.raises(NotFound):
        await store.delete(pod("a"))
    assert await put(store, "a") == 3
    assert (await store.delete(pod("a"))).revision == 4


async def test_a_list_of_the_past_needs_its_history(open_: Open) -> None:
    store = open_(history_changes=2)
    for name in ("a", "b", "c"):
        await put(store, name)
    assert [record.key.name for record in store.list_at(2, "pods")] == ["a", "b"]
    for revision in (0, 4):
        with pytest.raises(TooOld):
            store.list_at(revision, "pods")


async def test_a_value_that_cannot_be_encoded_affects_no_other_write(store: Store) -> None:
    outcomes = await asyncio.gather(
        put(store, "a"),
        store.create(pod("b"), value("b", bad=object()), Facts()),
        put(store, "c"),
        return_exceptions=True,
    )
    assert isinstance(outcomes[1], TypeError)
    assert (outcomes[0], outcomes[2]) == (1, 2)


# --- lists -----------------------------------------------------------------------------------------------


async def test_lists_are_sorted_by_namespace_and_name(store: Store) -> None:
    for name, namespace in [("b", "x"), ("a", "x"), ("z", "w"), ("a-1", "x"), ("a", "xy"), ("c", "")]:
        await put(store, name, namespace)
    await store.delete(pod("a-1", "x"))

    def names(namespace: str | None = None, **options: Any) -> list[tuple[str, str]]:
        return [record.key[1:] for record in store.list("pods", namespace, **options)]

    everything = [("", "c"), ("w", "z"), ("x", "a"), ("x", "b"), ("xy", "a")]
    assert names() == everything
    assert names("x") == [("x", "a"), ("x", "b")]
    assert names("nowhere") == []
    assert names(limit=2) == everything[:2]
    assert names(limit=2, after=("w", "z")) == everything[2:4]
    assert names(after=("x", "aa")) == everything[3:]
    assert names("x", after=("x", "a"), limit=5) == [("x", "b")]
    assert names("x", after=("xy", "a")) == []
    assert store.list("services") == []


# --- claims ----------------------------------------------------------------------------------------------


async def test_a_claim_has_one_holder_across_resources(store: Store) -> None:
    await put(store, "a", claims=frozenset({"ip/1", "ip/2"}))
    assert store.is_claimed("ip/1")
    with pytest.raises(ClaimTaken) as refusal:
        await store.create(Key("services", "", "b"), value("b"), Facts(claims=frozenset({"ip/3", "ip/2"})))
    assert refusal.value.claim == "ip/2"
    assert not store.is_claimed("ip/3"), "a refused write must leave no claim"

    updated = await store.update(pod("a"), value("a"), Facts(claims=frozenset({"ip/2", "ip/3"})), expected=1)
    assert [store.is_claimed(f"ip/{n}") for n in (1, 2, 3)] == [False, True, True]
    await put(store, "c", claims=frozenset({"ip/1"}))
    with pytest.raises(ClaimTaken):
        await store.update(pod("a"), value("a"), Facts(claims=frozenset({"ip/1"})), expected=updated.revision)
    assert [store.is_claimed(f"ip/{n}") for n in (1, 2, 3)] == [True, True, True]

    await store.delete(pod("a"))
    assert [store.is_claimed(f"ip/{n}") for n in (1, 2, 3)] == [True, False, False]


async def test_other_objects_are_written_in_the_same_commit_or_not_at_all(store: Store) -> None:
    def companion(name: str) -> Create:
        return Create(Key("addresses", "", name), value(name), Facts(), claim=f"ip/{name}")

    made = await store.create(pod("a"), value("a"), Facts(), also=(companion("1"), companion("2")))
    assert [record.key.name for record in store.list("addresses")] == ["1", "2"]
    assert store.revision == made.revision + 2
    with pytest.raises(ClaimTaken) as refusal:
        await store.create(pod("b"), value("b"), Facts(), also=(companion("3"), companion("2")))
    assert refusal.value.claim == "ip/2"
    assert (store.get(pod("b")), store.get(Key("addresses", "", "3"))) == (None, None)
    with pytest.raises(Conflict):
        await store.update(pod("a"), value("a"), Facts(), expected=99, also=(companion("3"),))
    gone = (Delete(Key("addresses", "", "1"), None), Delete(Key("addresses", "", "never"), None))
    updated = await store.update(pod("a"), value("a"), Facts(), expected=made.revision, also=(*gone, companion("3")))
    assert [record.key.name for record in store.list("addresses")] == ["2", "3"]
    await store.delete(pod("a"), expected=updated.revision, also=(Delete(Key("addresses", "", "2"), None),))
    assert [record.key.name for record in store.list("addresses")] == ["3"]


async def test_another_object_is_updated_in_the_same_commit_if_it_has_the_expected_revision(store: Store) -> None:
    def charged(used: int, expected: int) -> Update:
        return Update(quota, value("q", used=used), Facts(), expected)

    quota = Key("quotas", "default", "q")
    first = await store.create(quota, value("q", used=0), Facts())
    made = await store.create(pod("a"), value("a"), Facts(), also=(charged(1, first.revision),))
    second = store.get(quota)
    assert second is not None
    assert (made.revision, second.revision, json.loads(second.value)["used"]) == (2, 3, 1)
    (change,) = await take(store.watch("quotas", since=made.revision), 1)
    assert (change.type, change.record, change.previous) == ("MODIFIED", second, first)
    assert [record.revision for record in store.list_at(made.revision, "quotas")] == [first.revision]

    with pytest.raises(Conflict, match="quotas default/q has revision 3, not 1"):
        await store.create(pod("b"), value("b"), Facts(), also=(charged(2, first.revision),))
    with pytest.raises(Conflict):
        await store.update(pod("a"), value("a"), Facts(), expected=2, also=(charged(2, first.revision),))
    with pytest.raises(Conflict):
        await store.delete(pod("a"), also=(charged(2, first.revision),))
    claims = frozenset({"ip/1"})
    await put(store, "holder", claims=claims)
    with pytest.raises(ClaimTaken):
        await store.delete(pod("a"), also=(Update(quota, value("q"), Facts(claims=claims), second.revision),))
    assert (store.get(pod("a")), store.get(pod("b")), store.get(quota)) == (made, None, second)

    await store.delete(quota)
    with pytest.raises(Conflict, match="quotas default/q has revision None, not 3"):
        await store.create(pod("b"), value("b"), Facts(), also=(charged(2, second.revision),))
    assert (store.get(pod("b")), store.revision) == (None, 5), "a refused write has no revision"


async def test_writes_at_the_same_time_charge_one_object_after_the_other(store: Store) -> None:
    """Each write charges the newest state, which may not be durable yet."""
    quota = Key("quotas", "default", "q")
    await store.create(quota, value("q", used=0), Facts())

    async def charge(name: str) -> int:
        latest = store.latest(quota)
        assert latest is not None
        used = json.loads(latest.value)["used"] + 1
        update = Update(quota, value("q", used=used), Facts(), latest.revision)
        return (await store.create(pod(name), value(name), Facts(), also=(update,))).revision

    assert await asyncio.gather(*(charge(f"p{n}") for n in range(20))) == list(range(2, 42, 2))
    record = store.get(quota)
    assert record is not None
    assert (record.revision, json.loads(record.value)["used"]) == (41, 20)


async def test_one_of_many_concurrent_claims_wins(store: Store) -> None:
    outcomes = await asyncio.gather(
        *(put(store, f"p{n}", claims=frozenset({"port/80"})) for n in range(20)), return_exceptions=True
    )
    assert [isinstance(outcome, ClaimTaken) for outcome in outcomes].count(False) == 1
    assert len(store.list("pods")) == 1


async def test_a_claim_moves_between_concurrent_writes(store: Store) -> None:
    await put(store, "a", claims=frozenset({"port/80"}))
    await asyncio.gather(store.delete(pod("a")), put(store, "b", claims=frozenset({"port/80"})))
    assert store.is_claimed("port/80")
    await store.delete(pod("b"))
    assert not store.is_claimed("port/80")


# --- writes that arrive together -------------------------------------------------------------------------


async def test_concurrent_writes_see_each_other_in_order(store: Store) -> None:
    created, again, updated, stale, deleted, recreated = await asyncio.gather(
        put(store, "a"),
        put(store, "a"),
        store.update(pod("a"), value("a"), Facts(), expected=1),
        store.update(pod("a"), value("a"), Facts(), expected=1),
        store.delete(pod("a"), expected=2),
        put(store, "a"),
        return_exceptions=True,
    )
    assert created == 1
    assert isinstance(again, AlreadyExists)
    assert not isinstance(updated, BaseException)
    assert isinstance(stale, Conflict)
    assert not isinstance(deleted, BaseException)
    assert (updated.revision, deleted.revision, recreated) == (2, 3, 4)


async def test_writes_can_follow_a_write_that_is_not_durable(store: Store) -> None:
    first = asyncio.create_task(put(store, "a", claims=frozenset({"ip/1"})))
    await asyncio.sleep(0)
    latest = store.latest(pod("a"))
    assert latest is not None
    assert store.list_latest("pods", "default") == [latest]
    assert store.is_claimed("ip/1")
    updated = asyncio.create_task(store.update(pod("a"), value("a", n=1), Facts(), expected=latest.revision))
    await asyncio.sleep(0)
    newest = store.latest(pod("a"))
    assert newest is not None
    other = asyncio.create_task(put(store, "b"))
    await asyncio.sleep(0)
    assert sorted(record.key.name for record in store.list_latest("pods", "default")) == ["a", "b"]
    assert newest in store.list_latest("pods", "default")
    assert not store.list_latest("pods", "x")
    assert not store.list_latest("services", "default")
    assert not store.is_claimed("ip/1")
    await store.settle()
    assert store.get(pod("a")) == newest == await updated
    assert (await first, newest.revision, await other) == (1, 2, 3)
    deleted = asyncio.create_task(store.delete(pod("a"), expected=2))
    await asyncio.sleep(0)
    assert store.latest(pod("a")) is None
    assert [record.key.name for record in store.list_latest("pods", "default")] == ["b"]
    assert (await deleted).revision == 4


async def test_a_cancelled_writer_does_not_cancel_others(store: Store) -> None:
    tasks = [asyncio.create_task(put(store, f"p{n}")) for n in range(5)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert not any(isinstance(result, BaseException) for result in results[1:])
    assert len(store.list("pods")) == 5


# --- watches ---------------------------------------------------------------------------------------------


async def test_a_watch_delivers_past_and_future_changes(store: Store) -> None:
    await put(store, "before")
    await put(store, "a")
    watch = store.watch("pods", since=1)
    first = await take(watch, 1)
    await store.update(pod("a"), value("a"), Facts(), expected=2)
    await store.create(Key("services", "default", "s"), value("s"), Facts())
    await store.delete(pod("a"))
    changes = first + await take(watch, 2)
    assert [(c.type, c.record.key.name, c.record.revision) for c in changes] == [
        ("ADDED", "a", 2),
        ("MODIFIED", "a", 3),
        ("DELETED", "a", 5),
    ]
    assert [c.previous and c.previous.revision for c in changes] == [None, 2, 3]
    assert changes[2].record.value == b'{"kind":"Pod","metadata":{"name":"a","resourceVersion":"5"}}'
    watch.close()


async def test_a_watch_of_a_namespace_gets_no_other_changes(store: Store) -> None:
    watch = store.watch("pods", "x", since=0)
    await put(store, "a", "y")
    await put(store, "b", "x")
    await put(store, "c", "y")
    await put(store, "d", "x")
    assert [change.record.key.name for change in await take(watch, 2)] == ["b", "d"]
    watch.close()


NODE_1 = FieldValue("spec.nodeName", "node-1")


async def bind(store: Store, name: str, node: str, namespace: str = "default") -> int:
    return await put(store, name, namespace, fields={"metadata.name": name, "spec.nodeName": node})


async def waiting(watch: Watch, count: int) -> asyncio.Task[list[Change]]:
    """Return a reader of `count` changes, which waits by now."""
    reader = asyncio.create_task(take(watch, count))
    await asyncio.sleep(0)
    return reader


async def test_a_watch_of_a_value_gets_what_has_it_before_or_after(store: Store) -> None:
    await bind(store, "past", "node-1")
    await bind(store, "other", "node-2")
    reader = await waiting(store.watch("pods", since=0, field=NODE_1), 5)
    await bind(store, "a", "")
    for node in ("node-1", "node-2", "node-3", "node-1"):
        revision = found.revision if (found := store.get(pod("a"))) else 0
        facts = Facts(fields={"spec.nodeName": node})
        await store.update(pod("a"), value("a"), facts, expected=revision)
    await put(store, "without-fields")
    await store.delete(pod("a"))
    seen = [(change.record.key.name, change.type, change.record.revision) for change in await reader]
    assert seen == [
        ("past", "ADDED", 1),
        ("a", "MODIFIED", 4),
        ("a", "MODIFIED", 5),
        ("a", "MODIFIED", 7),
        ("a", "DELETED", 9),
    ]


async def test_a_watch_of_a_value_in_a_namespace_gets_no_other_changes(store: Store) -> None:
    here, everywhere = (store.watch("pods", namespace, since=0, field=NODE_1) for namespace in ("x", None))
    readers = await waiting(here, 1), await waiting(everywhere, 2)
    await bind(store, "a", "node-1", "y")
    await bind(store, "b", "node-1", "x")
    names = [[change.record.key.name for change in await reader] for reader in readers]
    assert names == [["b"], ["a", "b"]]


async def test_a_watch_of_a_value_is_not_dropped_for_changes_of_others(open_: Open) -> None:
    store = open_(history_changes=3)
    reader = await waiting(store.watch("pods", since=0, field=NODE_1), 1)
    for n in range(10):
        await bind(store, f"p{n}", "node-2")
    assert not reader.done()
    await bind(store, "own", "node-1")
    assert [change.record.key.name for change in await reader] == ["own"]


async def test_a_cancelled_reader_of_a_value_is_not_dropped_and_loses_nothing(open_: Open) -> None:
    store = open_(history_changes=3)
    watch = store.watch("pods", since=0, field=NODE_1)
    reader = await waiting(watch, 1)
    for n in range(10):
        await bind(store, f"p{n}", "node-2")
    reader.cancel()
    await asyncio.wait([reader])
    await bind(store, "own", "node-1")
    assert [change.record.key.name for change in await take(watch, 1)] == ["own"]


async def test_a_watch_of_a_value_that_ends_gets_what_is_its_own_first(store: Store) -> None:
    watch = store.watch("pods", since=0, field=NODE_1)
    reader = asyncio.ensure_future(anext(aiter(watch)))
    await asyncio.sleep(0)
    assert watch.pending() == []
    writes = asyncio.gather(bind(store, "own", "node-1"), bind(store, "other", "node-2"))
    await writes
    watch.finish()
    assert [change.record.key.name for change in await reader] == ["own"]
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(watch))


async def test_watches_of_values_leave_nothing_behind(store: Store) -> None:
    fields = [FieldValue("metadata.name", f"p{n}") for n in range(3)]
    watches = [store.watch("pods", since=0, field=field) for field in fields]
    readers = [await waiting(watch, 1) for watch in watches]
    await bind(store, "p0", "node-1")
    for watch in watches:
        watch.close()
    await asyncio.gather(*readers, return_exceptions=True)
    log = cast("Any", store)._history._log("pods")
    assert (log.watches, log._indexes, log._called) == (set(), {}, [])


async def test_all_watchers_get_the_same_change(store: Store) -> None:
    watches = [store.watch("pods", since=0) for _ in range(3)]
    await put(store, "a")
    changes = [(await take(watch, 1))[0] for watch in watches]
    assert changes[0] is changes[1] is changes[2]


async def test_a_waiting_reader_wakes_once_for_concurrent_writes(store: Store) -> None:
    watch = store.watch("pods", since=0)
    reader = asyncio.ensure_future(anext(aiter(watch)))
    await asyncio.sleep(0)
    await asyncio.gather(*(put(store, f"p{n:02}") for n in range(50)))
    assert len(await reader) == 50


async def test_closing_a_watch_ends_its_waiting_reader(store: Store) -> None:
    watch = store.watch("pods", since=0)
    reader = asyncio.create_task(take(watch, 1))
    await asyncio.sleep(0)
    watch.close()
    with pytest.raises(AssertionError, match="ended"):
        await reader
    await put(store, "a")


async def test_a_cancelled_reader_loses_nothing(store: Store) -> None:
    watch = store.watch("pods", since=0)
    reader = asyncio.create_task(take(watch, 1))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait([reader])
    await put(store, "a")
    assert len(await take(watch, 1)) == 1


async def test_an_expired_revision_is_refused(open_: Open) -> None:
    store = open_(history_changes=10)
    for n in range(15):
        await put(store, f"p{n:02}")
    with pytest.raises(TooOld):
        store.watch("pods", since=4)
    assert [c.record.revision for c in await take(store.watch("pods", since=5), 10)] == list(range(6, 16))
    with pytest.raises(TooOld):
        store.watch("pods", since=16)


async def test_changes_of_other_resources_do_not_expire_a_watch(open_: Open) -> None:
    store = open_(history_changes=3)
    await store.create(Key("nodes", "", "n"), value("n"), Facts())
    seen = store.revision
    for n in range(10):
        await put(store, f"p{n}")
    watch = store.watch("nodes", since=seen)
    await store.delete(Key("nodes", "", "n"))
    assert [c.type for c in await take(watch, 1)] == ["DELETED"]


async def test_the_history_is_bounded_in_bytes(open_: Open) -> None:
    store = open_(history_bytes=10_000)
    for n in range(10):
        await store.create(pod(f"p{n}"), value(f"p{n}", text="x" * 3000), Facts())
    with pytest.raises(TooOld):
        store.watch("pods", since=5)
    assert len(await take(store.watch("pods", since=7), 3)) == 3


async def test_a_slow_reader_is_dropped_and_a_quick_one_is_not(open_: Open) -> None:
    store = open_(history_changes=10)
    slow, quick = store.watch("pods", since=0), store.watch("pods", since=0)
    seen: list[Change] = []
    for n in range(15):
        await put(store, f"p{n}")
        seen += await take(quick, 1)
    assert [change.record.revision for change in seen] == list(range(1, 16))
    with pytest.raises(Overflow):
        await take(slow, 1)
    with pytest.raises(StopAsyncIteration):
        await anext(aiter(slow))


async def test_a_reader_far_behind_gets_changes_in_batches(store: Store) -> None:
    await asyncio.gather(*(put(store, f"p{n}") for n in range(1200)))
    watch = store.watch("pods", since=0)
    assert len(await anext(aiter(watch))) < 1200
    assert [c.record.revision for c in await take(store.watch("pods", since=0), 1200)] == list(range(1, 1201))


async def test_batches_for_a_reader_behind_are_small(store: Store) -> None:
    value = {"metadata": {}, "text": "x" * 20_000}
    await asyncio.gather(*(store.create(Key("pods", "default", f"p{n}"), value, Facts()) for n in range(20)))
    watch = store.watch("pods", since=0)
    batches = [await anext(aiter(watch)) for _ in range(5)]
    assert [len(batch) for batch in batches] == [4] * 5
    watch.close()


async def test_many_readers_do_not_block_the_event_loop(store: Store) -> None:
    watches = [store.watch("pods", since=0) for _ in range(1000)]
    readers = [asyncio.ensure_future(anext(aiter(watch))) for watch in watches]
    await asyncio.sleep(0)
    await put(store, "a")
    readers_done = []
    while not all(reader.done() for reader in readers):
        readers_done.append(sum(reader.done() for reader in readers))
        await asyncio.sleep(0)
    assert len(set(readers_done)) > 5
    assert {reader.result()[0].record.key.name for reader in readers} == {"a"}
    for watch in watches:
        watch.close()


# --- sizes -----------------------------------------------------------------------------------------------


async def test_a_writer_may_bound_the_size(store: Store) -> None:
    key, value = Key("pods", "default", "a"), {"metadata": {"name": "a"}, "spec": "x" * 100}
    with pytest.raises(ValueTooLarge):
        await store.create(key, value, Facts(), max_bytes=100)
    assert store.get(key) is None
    record = await store.create(key, value, Facts(), max_bytes=200)
    assert record.revision == 1, "a refused write has no revision"
    with pytest.raises(ValueTooLarge):
        await store.update(key, {**value, "more": "x" * 100}, Facts(), expected=1, max_bytes=200)
    assert store.get(key) == record
    await store.update(key, {**value, "more": "x" * 100}, Facts(), expected=1)


# --- closing ---------------------------------------------------------------------------------------------


async def test_closing_the_store_ends_its_watches_and_refuses_writes(store: Store) -> None:
    writing = asyncio.gather(*(put(store, f"p{n}") for n in range(5)))
    watch = store.watch("pods", since=0)
    await asyncio.sleep(0)
    await store.close()
    assert len(await writing) == 5, "what was under way is finished"
    assert [batch async for batch in watch] == []
    with pytest.raises(StoreBroken):
        await put(store, "late")
    await store.close()


async def test_watches_of_a_lost_store_in_memory_are_too_old_for_the_next_one() -> None:
    lost = open_store("memory")
    await put(lost, "a")
    since = lost.revision
    await lost.close()
    await asyncio.sleep(0.01)
    store = open_store("memory")
    with pytest.raises(TooOld):
        store.watch("pods", since=since)
    await put(store, "a")
    assert len(store.watch("pods", since=store.revision - 1).pending()) == 1
    await store.close()


async def test_stores_are_opened_by_url(tmp_path: Path) -> None:
    for url in ("memory", f"sqlite://{tmp_path}/state.db"):
        store = open_store(url)
        await put(store, "a")
        await store.close()
    assert (tmp_path / "state.db").exists()
    for url in ("", "etcd", "sqlite:", "sqlite://", "mysql://x"):
        with pytest.raises(StoreBroken, match="use 'memory' or"):
            open_store(url)
