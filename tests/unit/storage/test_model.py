"""Random writes, alone and concurrent, compared with a dictionary as the model."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bridgehead.storage import Change, Facts, Key, MemoryStore, StorageError, Update
from bridgehead.storage.errors import AlreadyExists, ClaimTaken, Conflict, NotFound
from bridgehead.storage.sqlite import SqliteStore
from tests.unit.examples import examples

KEYS = [Key(resource, namespace, name) for resource in ("pods", "services") for namespace in "xy" for name in "ab"]
CLAIMS = ("ip/1", "ip/2", "ip/3")

keys = st.sampled_from(KEYS)
claims = st.frozensets(st.sampled_from(CLAIMS), max_size=2)
# Revisions by which the writer's lags behind the object's; None (deletes only) is "whatever it is".
lags = st.sampled_from([0, 0, 0, 1])
# Updates of other objects in the same commit: their keys, claims and lags.
Charge = tuple[Key, frozenset[str], int]
companions = st.lists(st.tuples(keys, claims, lags), max_size=2, unique_by=lambda one: one[0])
writes = st.one_of(
    st.tuples(st.just("create"), keys, claims, lags, companions),
    st.tuples(st.just("update"), keys, claims, lags, companions),
    st.tuples(st.just("delete"), keys, st.just(frozenset()), st.one_of(lags, st.none()), companions),
)


@dataclass
class Model:
    """Stored objects: key -> (revision, claims)."""

    revision: int = 0
    objects: dict[Key, tuple[int, frozenset[str]]] = field(default_factory=dict)

    def write(
        self, verb: str, key: Key, wanted: frozenset[str], expected: int | None, also: tuple[Update, ...]
    ) -> type[StorageError] | int:
        there = self.objects.get(key)
        if verb == "create" and there is not None:
            return AlreadyExists
        if verb != "create":
            if there is None:
                return NotFound
            if expected is not None and there[0] != expected:
                return Conflict
        if self._is_taken(key, wanted):
            return ClaimTaken
        for one in also:
            if self.objects.get(one.key, (None,))[0] != one.expected:
                return Conflict
            if self._is_taken(one.key, one.facts.claims):
                return ClaimTaken
        self.revision += 1
        if verb == "delete":
            del self.objects[key]
        else:
            self.objects[key] = (self.revision, wanted)
        for number, one in enumerate(also, 1):
            self.objects[one.key] = (self.revision + number, one.facts.claims)
        written, self.revision = self.revision, self.revision + len(also)
        return written

    def _is_taken(self, key: Key, wanted: frozenset[str]) -> bool:
        return any(wanted & held for other, (_, held) in self.objects.items() if other != key)


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = tempfile.TemporaryDirectory()
        self.store = self.open()
        self.model = Model()
        # The objects according to a watcher since the last (re)start.
        self.seen: dict[Key, int] = {}
        self.watches = self.watch()
        # Contents of the model at the revisions that the history reaches back to.
        self.past: dict[int, dict[Key, int]] = {0: {}}

    def open(self) -> MemoryStore:
        return MemoryStore()

    def watch(self) -> list[Any]:
        return [self.store.watch(resource, since=self.store.revision) for resource in ("pods", "services")]

    @rule(group=st.lists(writes, min_size=1, max_size=6))
    def write(self, group: list[tuple[str, Key, frozenset[str], int | None, list[Charge]]]) -> None:
        """Concurrent writes must have the same results as sequential ones."""

        async def submit() -> list[Any]:
            return await asyncio.gather(*calls, return_exceptions=True)

        calls, expectations = [], []
        for verb, key, wanted, lag, charges in group:
            revision = self.model.objects.get(key, (0, None))[0]
            expected = None if lag is None else revision - lag
            also = self.updates(key, wanted, charges)
            expectations.append(self.model.write(verb, key, wanted, expected, also))
            value, facts = {"metadata": {"name": key.name}}, Facts(claims=wanted)
            match verb:
                case "create":
                    calls.append(self.store.create(key, value, facts, also=also))
                case "update":
                    calls.append(self.store.update(key, value, facts, expected=expected or 0, also=also))
                case "delete":
                    calls.append(self.store.delete(key, expected=expected, also=also))
        outcomes = self.runner.run(submit())
        assert [getattr(o, "revision", type(o)) for o in outcomes] == expectations
        self.past[self.model.revision] = {key: revision for key, (revision, _) in self.model.objects.items()}

    def updates(self, key: Key, wanted: frozenset[str], charges: list[Charge]) -> tuple[Update, ...]:
        """Return updates of other objects than `key`. No two writes of one commit want the same claim."""
        updates, free = [], frozenset(CLAIMS) - wanted
        for other, claims, lag in charges:
            if other != key:
                revision = self.model.objects.get(other, (0, None))[0]
                updates.append(
                    Update(other, {"metadata": {"name": other.name}}, Facts(claims=claims & free), revision - lag)
                )
                free -= claims
        return tuple(updates)

    @invariant()
    def holds_what_the_model_holds(self) -> None:
        assert self.store.revision == self.model.revision
        for resource in ("pods", "services"):
            wanted = sorted((key, *what) for key, what in self.model.objects.items() if key.resource == resource)
            assert [(r.key, r.revision, r.facts.claims) for r in self.store.list(resource)] == wanted
        held = frozenset().union(*(claims for _, claims in self.model.objects.values()))
        assert {claim for claim in CLAIMS if self.store.is_claimed(claim)} == held

    @invariant()
    def lists_what_the_model_held(self) -> None:
        for revision in list(self.past)[-4:]:
            for resource, namespace in (("pods", None), ("services", None), ("pods", "x"), ("pods", "none")):
                listed = self.store.list_at(revision, resource, namespace)
                wanted = sorted(
                    (key, written)
                    for key, written in self.past[revision].items()
                    if key.resource == resource and namespace in (None, key.namespace)
                )
                assert [(record.key, record.revision) for record in listed] == wanted
                for record in listed:
                    name = (record.key.namespace, record.key.name)
                    after = self.store.list_at(revision, resource, namespace, after=name)
                    assert [r.key for r in after] == [key for key, _ in wanted if (key.namespace, key.name) > name]

    @invariant()
    def delivers_changes_to_watchers(self) -> None:
        for change in self.runner.run(self.drain()):
            record, previous = change.record, change.previous
            assert self.seen.get(record.key) == (previous and previous.revision)
            if change.type == "DELETED":
                del self.seen[record.key]
            else:
                self.seen[record.key] = record.revision
        assert self.seen == {key: revision for key, (revision, _) in self.model.objects.items()}

    async def drain(self) -> list[Change]:
        changes: list[Change] = []
        for watch in self.watches:
            while True:
                reader = asyncio.create_task(anext(watch))
                await asyncio.sleep(0)
                if not reader.done():
                    reader.cancel()
                    await asyncio.wait([reader])
                    break
                changes += reader.result()
        return changes

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()
        self.directory.cleanup()


class SqliteMachine(Machine):
    def open(self) -> MemoryStore:
        return SqliteStore(Path(self.directory.name) / "state.db")

    @rule()
    def restart(self) -> None:
        self.runner.run(self.store.close())
        self.store = self.open()
        self.watches = self.watch()
        newest = max(self.past)
        self.past = {newest: self.past[newest]}


TestMemory = pytest.mark.slow(Machine.TestCase)
TestMemory.settings = examples(60, stateful_step_count=20)
TestSqlite = pytest.mark.slow(SqliteMachine.TestCase)
TestSqlite.settings = examples(25, stateful_step_count=15)
