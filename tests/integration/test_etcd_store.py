"""The store on etcd: several stores on one real etcd, as several API servers have it."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bridgehead.apiserver.build import api_schema
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.storedobjects import StoredObjects, layout_of
from bridgehead.storage import (
    AlreadyExists,
    Change,
    ClaimTaken,
    Conflict,
    Create,
    Delete,
    Facts,
    Key,
    NotFound,
    OutcomeUnknown,
    Record,
    StoreBroken,
    TooOld,
    ValueTooLarge,
    Watch,
)
from bridgehead.storage.encryption import ConfiguredEncryption
from bridgehead.storage.encryption.encryption_configuration import parse_configuration
from bridgehead.storage.etcd import EtcdSettings, EtcdStoreOptions, open_etcd_store
from bridgehead.storage.etcd.client import errors
from bridgehead.storage.etcd.client.records import TxnResult
from bridgehead.storage.etcd.etcd_store import EtcdStore
from bridgehead.storage.etcd.fences import Fence

from .etcd_server import EtcdCluster
from .relay_process import relays

DEADLINE = 60.0


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path_factory.mktemp("etcd")).running() as cluster:
        yield cluster


class Stores:
    """Opens stores on one etcd, each as a server of its own, below a prefix that no other test has."""

    def __init__(self, etcd: EtcdCluster, prefix: str) -> None:
        self.etcd = etcd
        self.prefix = prefix
        self._opened: list[EtcdStore] = []

    async def open(self, *urls: str, **options: Any) -> EtcdStore:
        table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
        settings = EtcdSettings(endpoints=urls or self.etcd.client_urls)
        layout = layout_of(table, self.prefix)
        codec = StoredObjects(table, api_schema())
        store = await open_etcd_store(settings, layout, codec, EtcdStoreOptions(**options))
        self._opened.append(store)
        return store

    async def close(self) -> None:
        for store in self._opened:
            await store.close()

    def etcdctl(self, *arguments: str) -> str:
        return self.etcd.etcdctl(*arguments)

    def put(self, path: str, value: str) -> None:
        self.etcdctl("put", self.prefix + path, value)

    def get(self, path: str) -> str:
        return self.etcdctl("get", "--print-value-only", self.prefix + path).strip()


@pytest.fixture
async def stores(etcd: EtcdCluster, request: pytest.FixtureRequest) -> AsyncIterator[Stores]:
    opener = Stores(etcd, f"/{request.node.name}")
    yield opener
    await opener.close()


def config_map(name: str, namespace: str = "default") -> Key:
    return Key("configmaps", namespace, name)


def value(name: str, namespace: str = "default", **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}


def service(name: str, *ports: int) -> dict[str, Any]:
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "type": "NodePort",
            "clusterIP": "None",
            "ports": [
                {"name": f"p{port}", "port": port, "protocol": "TCP", "targetPort": 80, "nodePort": port}
                for port in ports
            ],
        },
    }


def service_key(name: str) -> Key:
    return Key("services", "default", name)


def port_facts(port: int) -> Facts:
    return Facts(claims=frozenset({f"nodeport/{port}"}))


async def put(store: EtcdStore, name: str, **facts: Any) -> int:
    return (await store.create(config_map(name), value(name), Facts(**facts))).revision


def found(store: EtcdStore, name: str) -> Record:
    record = store.get(config_map(name))
    assert record is not None
    return record


async def take(watch: Watch, count: int) -> list[Change]:
    changes: list[Change] = []
    async with asyncio.timeout(DEADLINE):
        async for batch in watch:
            changes += batch
            if len(changes) >= count:
                return changes
    raise AssertionError("the watch has ended")


async def test_a_write_of_one_server_is_read_by_another_that_catches_up(stores: Stores) -> None:
    one, other = await stores.open(), await stores.open()
    created = await one.create(config_map("a"), value("a", x="1"), Facts(labels={"app": "web"}))
    assert one.get(config_map("a")) == created
    await other.catch_up()
    assert other.get(config_map("a")) is not None
    assert json.loads(created.value)["metadata"]["resourceVersion"] == str(created.revision)
    assert "resourceVersion" not in json.loads(stores.get("/configmaps/default/a"))["metadata"]
    updated = await other.update(config_map("a"), value("a", x="2"), Facts(), expected=created.revision)
    await one.catch_up()
    found = one.get(config_map("a"))
    assert found is not None
    assert (found.revision, json.loads(found.value)["data"]) == (updated.revision, {"x": "2"})
    gone = await one.delete(config_map("a"), expected=updated.revision)
    await other.catch_up()
    assert other.get(config_map("a")) is None
    assert json.loads(gone.value)["metadata"]["resourceVersion"] == str(gone.revision)


async def test_what_a_server_has_not_seen_yet_is_compared_by_etcd(stores: Stores) -> None:
    """Both servers write at once, so that neither has seen the other's write when it begins its own."""
    one, other = await stores.open(), await stores.open()
    outcomes = await asyncio.gather(put(one, "a"), put(other, "a"), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes if not isinstance(outcome, int)] == [AlreadyExists]
    made = next(outcome for outcome in outcomes if isinstance(outcome, int))
    for store in (one, other):
        await store.catch_up()
    changed = await asyncio.gather(
        one.update(config_map("a"), value("a", n="1"), Facts(), expected=made),
        other.update(config_map("a"), value("a", n="2"), Facts(), expected=made),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in changed) == ["Conflict", "Record"]
    removed = await asyncio.gather(one.delete(config_map("a")), other.delete(config_map("a")), return_exceptions=True)
    assert sorted(type(outcome).__name__ for outcome in removed) == ["NotFound", "Record"]
    with pytest.raises(NotFound):
        await one.update(config_map("a"), value("a"), Facts(), expected=made)
    again = await put(one, "a")
    with pytest.raises(Conflict):
        await one.delete(config_map("a"), expected=made)
    assert again > made


async def test_a_claim_has_one_holder_whoever_asks(stores: Stores) -> None:
    one, other = await stores.open(), await stores.open()
    outcomes = await asyncio.gather(
        *(
            store.create(service_key(f"s{i}"), service(f"s{i}", 30080), port_facts(30080))
            for i, store in enumerate((one, other) * 4)
        ),
        return_exceptions=True,
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["ClaimTaken"] * 7 + ["Record"]
    assert one.is_claimed("nodeport/30080")
    holder = next(record.key for record in one.list("services"))
    await one.delete(holder)
    await other.catch_up()
    assert not other.is_claimed("nodeport/30080")
    await other.create(service_key("next"), service("next", 30080), port_facts(30080))


async def test_a_claim_without_a_holder_is_taken_over(stores: Stores) -> None:
    """As when a server ended between two transactions, or another program deleted the object."""
    store = await stores.open()
    stores.put("/bridgehead/claims/nodeport/30081", f"{stores.prefix}/services/specs/default/gone")
    await store.create(service_key("a"), service("a", 30081), port_facts(30081))
    assert stores.get("/bridgehead/claims/nodeport/30081") == f"{stores.prefix}/services/specs/default/a"


async def test_claims_of_objects_that_others_wrote_are_rebuilt(stores: Stores) -> None:
    stores.put("/services/specs/default/theirs", json.dumps(service("theirs", 30082)))
    stores.put("/bridgehead/claims/nodeport/30083", "whoever")
    store = await stores.open()
    with pytest.raises(ClaimTaken):
        await store.create(service_key("ours"), service("ours", 30082), port_facts(30082))
    deadline = time.monotonic() + DEADLINE
    wanted = {"30082": f"{stores.prefix}/services/specs/default/theirs", "30083": ""}
    while {port: stores.get(f"/bridgehead/claims/nodeport/{port}") for port in wanted} != wanted:
        assert time.monotonic() < deadline, "the claims have not been repaired"
        await asyncio.sleep(0.05)


async def test_more_claims_than_a_transaction_has_room_for(stores: Stores) -> None:
    one, other = await stores.open(), await stores.open()
    claims = frozenset(f"nodeport/{port}" for port in range(31000, 31250))
    made = await one.create(service_key("wide"), service("wide", *range(31000, 31250)), Facts(claims=claims))
    await other.catch_up()
    with pytest.raises(ClaimTaken):
        await other.create(service_key("late"), service("late", 31249), port_facts(31249))
    await one.update(service_key("wide"), service("wide", 31000), port_facts(31000), expected=made.revision)
    await one.create(service_key("a"), service("a", 31001), port_facts(31001))


async def test_companions_are_written_with_their_object_or_not_at_all(stores: Stores) -> None:
    one, other = await stores.open(), await stores.open()

    def address(name: str) -> Create:
        obj = {"kind": "IPAddress", "apiVersion": "networking.k8s.io/v1", "metadata": {"name": name}, "spec": {}}
        return Create(Key("ipaddresses.networking.k8s.io", "", name), obj, Facts(), claim=f"clusterip/{name}")

    made = await one.create(config_map("a"), value("a"), Facts(), also=(address("10.96.0.7"),))
    companion = one.get(Key("ipaddresses.networking.k8s.io", "", "10.96.0.7"))
    assert companion is not None
    assert companion.revision == made.revision
    with pytest.raises(ClaimTaken, match="clusterip"):
        await other.create(config_map("b"), value("b"), Facts(), also=(address("10.96.0.8"), address("10.96.0.7")))
    await other.catch_up()
    assert other.get(config_map("b")) is None
    assert other.count("ipaddresses.networking.k8s.io") == 1
    gone = Delete(Key("ipaddresses.networking.k8s.io", "", "10.96.0.7"), None)
    missing = Delete(Key("ipaddresses.networking.k8s.io", "", "10.96.0.9"), None)
    await other.delete(config_map("a"), also=(gone, missing))
    assert other.count("ipaddresses.networking.k8s.io") == 0


async def test_watchers_of_all_servers_see_every_change_once_and_in_order(stores: Stores) -> None:
    several = [await stores.open() for _ in range(3)]
    watches = [store.watch("configmaps", since=store.revision) for store in several]

    async def write(number: int) -> None:
        store = several[number % 3]
        made = await store.create(config_map(f"c{number}"), value(f"c{number}", n="1"), Facts())
        changed = await store.update(made.key, value(f"c{number}", n="2"), Facts(), expected=made.revision)
        await store.delete(made.key, expected=changed.revision)

    await asyncio.gather(*(write(number) for number in range(60)))
    seen = [await take(watch, 180) for watch in watches]
    events = [[(c.type, c.record.key, c.record.revision, c.record.value) for c in changes] for changes in seen]
    assert events[0] == events[1] == events[2]
    revisions = [change.record.revision for change in seen[0]]
    assert revisions == sorted(set(revisions))
    for changes in seen:
        assert all((c.previous is None) == (c.type == "ADDED") for c in changes)


async def test_a_new_server_knows_the_history_before_its_start(stores: Stores) -> None:
    one = await stores.open()
    since = one.revision
    for number in range(5):
        await put(one, f"c{number}")
    middle = one.revision
    await one.delete(config_map("c0"))
    late = await stores.open()
    changes = late.watch("configmaps", since=since).pending()
    assert [(c.type, c.record.key.name) for c in changes] == [
        *(("ADDED", f"c{number}") for number in range(5)),
        ("DELETED", "c0"),
    ]
    assert [record.key.name for record in late.list_at(middle, "configmaps")] == [f"c{number}" for number in range(5)]


async def test_compacted_history_is_too_old_and_the_rest_is_served(stores: Stores) -> None:
    one = await stores.open()
    since = one.revision
    for number in range(5):
        await put(one, f"c{number}")
    newest = one.revision
    stores.etcdctl("compact", str(newest - 1))
    late = await stores.open()
    assert late.count("configmaps") == 5
    with pytest.raises(TooOld):
        late.watch("configmaps", since=since)
    assert len(late.watch("configmaps", since=newest - 1).pending()) == 1


async def test_keys_of_other_programs_do_not_keep_readers_waiting(stores: Stores) -> None:
    store = await stores.open()
    await put(store, "a")
    for number in range(3):
        stores.etcdctl("put", f"/elsewhere/{number}", "x")
        async with asyncio.timeout(DEADLINE):
            await store.catch_up()
    assert store.count("configmaps") == 1


async def test_a_value_that_is_no_object_is_named_and_the_rest_is_served(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    stores.put("/configmaps/default/broken", "{")
    stores.put("/configmaps/default/good", json.dumps(value("good")))
    stores.put("/ranges/servicenodeports", "kube-apiserver's own")
    store = await stores.open()
    assert [record.key.name for record in store.list("configmaps")] == ["good"]
    assert f"{stores.prefix}/configmaps/default/broken" in caplog.text
    with pytest.raises(AlreadyExists):
        await put(store, "broken")
    stores.put("/configmaps/default/good", "not JSON")
    await store.catch_up()
    assert store.list("configmaps") == []
    stores.put("/configmaps/default/good", json.dumps(value("good", mended="yes")))
    await store.catch_up()
    assert len(store.list("configmaps")) == 1
    assert len(store.unreadable) == 1


async def test_an_object_with_a_lifetime_is_deleted_by_etcd(stores: Stores) -> None:
    store = await stores.open(lifetimes={"configmaps": 1})
    watch = store.watch("configmaps", since=store.revision)
    made = await put(store, "short")
    changes = await take(watch, 2)
    assert [change.type for change in changes] == ["ADDED", "DELETED"]
    assert changes[1].record.revision > made


async def test_an_object_that_is_too_large_is_refused(stores: Stores) -> None:
    store = await stores.open()
    with pytest.raises(ValueTooLarge):
        await store.create(config_map("a"), value("a", x="1" * 2000), Facts(), max_bytes=1000)
    with pytest.raises(ValueTooLarge):
        await store.create(config_map("a"), value("a", x="1" * 2_000_000), Facts())
    assert store.count("configmaps") == 0


class LostAnswers:
    """Loses the answer of a store's next transaction, which is carried out or not. `sent` is the transaction."""

    def __init__(self, store: EtcdStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: Sequence[Any] = ()
        self._is_done: bool | None = None
        self.txn = store._client.txn
        monkeypatch.setattr(store._client, "txn", self._txn)

    def lose_next(self, *, is_done: bool) -> None:
        self._is_done = is_done

    async def _txn(self, *arguments: Any) -> TxnResult:
        is_done, self._is_done = self._is_done, None
        if is_done is None:
            return await self.txn(*arguments)
        self.sent = arguments
        if is_done:
            await self.txn(*arguments)
        raise errors.OutcomeUnknown("the connection broke")


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_create_whose_answer_is_lost_is_carried_out_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    store = await stores.open()
    lost = LostAnswers(store, monkeypatch)
    lost.lose_next(is_done=is_done)
    assert await put(store, "a") == found(store, "a").revision
    assert await put(store, "b") > found(store, "a").revision


async def test_a_write_whose_answer_is_lost_does_nothing_later(stores: Stores, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its transaction may be under way for long, for example at a member that hangs."""
    store = await stores.open()
    lost = LostAnswers(store, monkeypatch)
    lost.lose_next(is_done=False)
    await put(store, "a")
    await store.delete(config_map("a"))
    assert not (await lost.txn(*lost.sent)).succeeded  # it compares that there is no such object, and there is none
    await store.catch_up()
    assert store.get(config_map("a")) is None


async def test_an_update_and_a_delete_whose_answers_are_lost_are_carried_out(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await stores.open()
    made = await put(store, "a")
    lost = LostAnswers(store, monkeypatch)
    lost.lose_next(is_done=False)
    changed = await store.update(config_map("a"), value("a", x="1"), Facts(), expected=made)
    assert found(store, "a") == changed
    lost.lose_next(is_done=False)
    await store.delete(config_map("a"), expected=changed.revision)
    assert store.get(config_map("a")) is None


async def test_a_change_that_another_server_may_have_made_leaves_the_outcome_unknown(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two servers may replace an object by the same bytes, or delete it."""
    store = await stores.open()
    made = await put(store, "a")
    lost = LostAnswers(store, monkeypatch)
    lost.lose_next(is_done=True)
    with pytest.raises(OutcomeUnknown):
        await store.update(config_map("a"), value("a", x="2"), Facts(), expected=made)
    lost.lose_next(is_done=True)
    with pytest.raises(OutcomeUnknown):
        await store.delete(config_map("a"))
    assert store.get(config_map("a")) is None


@pytest.mark.parametrize("is_done", [True, False])
async def test_a_write_is_not_reported_as_one_that_was_not_done_when_etcd_is_away(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    """A client would send it again."""
    store = await stores.open()
    made = await put(store, "a")
    txn = store._client.txn

    async def lose_the_answer(*arguments: Any) -> None:
        if is_done:
            await txn(*arguments)
        raise errors.OutcomeUnknown("the connection broke")

    async def be_away(fence: Fence) -> int:
        raise errors.Unavailable("no member answers")

    monkeypatch.setattr(store._client, "txn", lose_the_answer)
    monkeypatch.setattr(store._fences, "close", be_away)
    with pytest.raises(OutcomeUnknown):
        await store.update(config_map("a"), value("a", x="2"), Facts(), expected=made)
    if not is_done:
        with pytest.raises(OutcomeUnknown):
            await put(store, "c")


async def test_new_objects_are_created_once_while_the_leader_hangs(tmp_path: Path) -> None:
    with EtcdCluster(tmp_path, size=3).running() as etcd:
        statuses = [entry["Status"] for entry in json.loads(etcd.etcdctl("endpoint", "status", "--write-out=json"))]
        is_leader = [status["leader"] == status["header"]["member_id"] for status in statuses]
        leader = etcd.members[is_leader.index(True)]
        opener = Stores(etcd, "/hanging")
        try:
            store = await opener.open(*(url for url in etcd.client_urls if url != leader.client_url))
            client = store._client
            leader.pause()
            term, made = (await client.status()).raft_term, 0
            async with asyncio.timeout(DEADLINE):
                while made < 50 or (await client.status()).raft_term == term:
                    await put(store, f"object-{made}")
                    made += 1
        finally:
            leader.resume()
            await opener.close()
        keys = etcd.etcdctl("get", "--prefix", "/hanging/configmaps/", "--write-out=fields").splitlines()
        assert sum(line.startswith('"Key"') for line in keys) == made
        assert {line.partition(" : ")[2] for line in keys if line.startswith('"Version"')} == {"1"}


async def test_a_closed_store_refuses_writes(stores: Stores) -> None:
    store = await stores.open()
    await store.close()
    with pytest.raises(StoreBroken):
        await put(store, "a")


def encryption(*keys: str, first: str = "aesgcm") -> ConfiguredEncryption:
    """Return the encryption of ConfigMaps by the named keys, or by none if `first` is identity."""
    secret = base64.b64encode(b"k" * 32).decode()
    provider = {"aesgcm": {"keys": [{"name": key, "secret": secret} for key in keys]}}
    providers = [provider, {"identity": {}}] if first == "aesgcm" else [{"identity": {}}, provider]
    rules = [{"resources": ["configmaps"], "providers": providers}]
    configuration = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": rules}
    return ConfiguredEncryption(parse_configuration(configuration))


async def test_objects_are_encrypted_in_kubernetes_form_and_anew_with_other_keys(stores: Stores) -> None:
    store = await stores.open(encryption=encryption("one"))
    made = await store.create(config_map("a"), value("a", x="hidden"), Facts())
    assert stores.get("/configmaps/default/a").startswith("k8s:enc:aesgcm:v1:one:")
    assert b"hidden" in made.value
    other = await stores.open(encryption=encryption("two", "one"))
    found = other.get(config_map("a"))
    assert found is not None
    assert json.loads(found.value)["data"] == {"x": "hidden"}
    assert not store.is_stale(config_map("a"))
    assert other.is_stale(config_map("a")), "its first key is another one"
    await other.change_encryption(encryption("one", first="identity"))
    assert other.is_stale(config_map("a"))
    await other.update(config_map("a"), value("a", x="hidden"), Facts(), expected=found.revision)
    assert json.loads(stores.get("/configmaps/default/a"))["data"] == {"x": "hidden"}
    await store.create(config_map("b"), value("b"), Facts())
    with pytest.raises(StoreBroken, match="configmaps/default/b"):
        await store.change_encryption(encryption("three"))


async def test_servers_know_who_is_alive(stores: Stores) -> None:
    one, other = await stores.open(), await stores.open()
    await one.servers.renew("10.0.0.1", 15)
    await other.servers.renew("10.0.0.2", 1)
    assert await one.servers.alive() == {"10.0.0.1", "10.0.0.2"}
    assert json.loads(stores.get("/masterleases/10.0.0.1"))["subsets"] == [{"addresses": [{"ip": "10.0.0.1"}]}]
    deadline = time.monotonic() + DEADLINE
    while await one.servers.alive() != {"10.0.0.1"}:  # the other one has not renewed its lease
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
    await other.servers.renew("10.0.0.2", 15)
    assert await one.servers.alive() == {"10.0.0.1", "10.0.0.2"}
    await one.servers.remove("10.0.0.1")
    assert await other.servers.alive() == {"10.0.0.2"}


async def test_a_restarted_etcd_is_followed_from_where_it_was(stores: Stores, etcd: EtcdCluster) -> None:
    store = await stores.open()
    await put(store, "a")
    watch = store.watch("configmaps", since=store.revision)
    [member] = etcd.members
    member.kill()
    etcd.start()
    await store.catch_up()
    await put(store, "b")
    stores.put("/configmaps/default/c", json.dumps(value("c")))
    assert [change.record.key.name for change in await take(watch, 2)] == ["b", "c"]
    deadline = time.monotonic() + DEADLINE
    while store.failure is not None:
        assert time.monotonic() < deadline, store.failure
        await asyncio.sleep(0.05)


async def test_watchers_live_through_a_compaction_that_their_server_has_missed(
    stores: Stores, etcd: EtcdCluster
) -> None:
    """The connection of the server is cut while others write and compact, so that it has to read everything again."""
    writer = await stores.open()
    kept, gone = await put(writer, "kept"), await put(writer, "gone")
    with relays(etcd.members[0].port, 1) as [relay]:
        cut = await stores.open(f"http://127.0.0.1:{relay.port}")
        watch = cut.watch("configmaps", since=cut.revision)
        relay.kill()
        await writer.delete(config_map("gone"), expected=gone)
        await writer.update(config_map("kept"), value("kept", n="2"), Facts(), expected=kept)
        await put(writer, "new")
        stores.etcdctl("compact", str(writer.revision))
        relay.start()
        changes = await take(watch, 3)
    assert {(change.type, change.record.key.name) for change in changes} == {
        ("DELETED", "gone"),
        ("MODIFIED", "kept"),
        ("ADDED", "new"),
    }
    revisions = [change.record.revision for change in changes]
    assert revisions == sorted(revisions)
