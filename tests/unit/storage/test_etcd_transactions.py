"""Transactions of writes on etcd: what they compare and change, and what a failure shows."""

from __future__ import annotations

from bridgehead.storage.etcd.claims import claim_key
from bridgehead.storage.etcd.client.records import KeyValue, RangeResult, TxnResult
from bridgehead.storage.etcd.client.requests import create_revision_equals, delete, get, mod_revision_equals, put
from bridgehead.storage.etcd.layout import Layout
from bridgehead.storage.etcd.stored_form import StoredForm
from bridgehead.storage.etcd.transactions import MOST_CLAIMS, found_keys, plan
from bridgehead.storage.records import Create, Delete, Facts, JsonObject, Key, Record, Unchanged, Update

LAYOUT = Layout({"services": True, "ipaddresses.networking.k8s.io": False, "resourcequotas": True})
SERVICE = Key("services", "default", "web")
OPEN = create_revision_equals(b"/registry/bridgehead/fences/1", 0)
ADDRESS = Key("ipaddresses.networking.k8s.io", "", "10.96.0.9")
QUOTA = Key("resourcequotas", "default", "all")


class NamesOnly:
    """A stand-in for the codec: an object's stored form is its name."""

    def encode(self, key: Key, obj: JsonObject) -> bytes:
        return str(obj["metadata"]["name"]).encode()

    def decode(self, key: Key, stored: bytes) -> tuple[JsonObject, Facts]:
        return {"metadata": {"name": stored.decode()}}, Facts()


FORM = StoredForm(LAYOUT, NamesOnly(), None)


def facts(*claims: str) -> Facts:
    return Facts(claims=frozenset(claims))


def obj(key: Key) -> JsonObject:
    return {"metadata": {"name": key.name}}


def record(*claims: str, revision: int = 7) -> Record:
    return Record(SERVICE, revision, b"{}", facts(*claims))


def etcd_key(key: Key) -> bytes:
    return LAYOUT.etcd_key(key)


def entry(claim: str) -> bytes:
    return claim_key(LAYOUT, claim)


def test_a_create_compares_that_nothing_is_there_and_takes_its_claims() -> None:
    companions = (
        Create(ADDRESS, obj(ADDRESS), Facts(), claim="clusterip/10.96.0.9"),
        Update(QUOTA, obj(QUOTA), Facts(), expected=5),
    )
    write = Create(SERVICE, obj(SERVICE), facts("nodeport/30080"), also=companions)
    [transaction] = plan(LAYOUT, write, None, FORM, 99, {}, OPEN).transactions()
    assert list(transaction.compares) == [
        mod_revision_equals(etcd_key(SERVICE), 0),
        mod_revision_equals(etcd_key(ADDRESS), 0),
        mod_revision_equals(etcd_key(QUOTA), 5),
        mod_revision_equals(entry("nodeport/30080"), 0),
        OPEN,
    ]
    assert list(transaction.operations) == [
        put(etcd_key(SERVICE), b"web", lease=99),
        put(etcd_key(ADDRESS), b"10.96.0.9"),
        put(etcd_key(QUOTA), b"all"),
        put(entry("nodeport/30080"), etcd_key(SERVICE)),
    ]
    assert list(transaction.lookups) == [get(entry("nodeport/30080"))]


def test_an_update_exchanges_claims() -> None:
    write = Update(SERVICE, obj(SERVICE), facts("nodeport/1", "nodeport/3"), expected=7)
    [transaction] = plan(
        LAYOUT, write, record("nodeport/1", "nodeport/2"), FORM, 0, {"nodeport/3": 4}, OPEN
    ).transactions()
    assert list(transaction.compares) == [
        mod_revision_equals(etcd_key(SERVICE), 7),
        mod_revision_equals(entry("nodeport/3"), 4),  # of an entry that nobody holds
        OPEN,
    ]
    assert list(transaction.operations) == [
        put(etcd_key(SERVICE), b"web"),
        delete(entry("nodeport/2")),
        put(entry("nodeport/3"), etcd_key(SERVICE)),
    ]


def test_a_delete_releases_claims_and_removes_companions() -> None:
    write = Delete(SERVICE, 7, also=(Delete(ADDRESS, None),))
    [transaction] = plan(LAYOUT, write, record("nodeport/1"), FORM, 0, {}, OPEN).transactions()
    assert list(transaction.compares) == [mod_revision_equals(etcd_key(SERVICE), 7), OPEN]
    assert list(transaction.operations) == [
        delete(etcd_key(SERVICE)),
        delete(etcd_key(ADDRESS)),
        delete(entry("nodeport/1")),
    ]


def test_an_object_that_must_be_unchanged_is_compared_only() -> None:
    write = Create(SERVICE, obj(SERVICE), Facts(), also=(Unchanged(QUOTA, 5),))
    [transaction] = plan(LAYOUT, write, None, FORM, 0, {}, OPEN).transactions()
    assert list(transaction.compares) == [
        mod_revision_equals(etcd_key(SERVICE), 0),
        mod_revision_equals(etcd_key(QUOTA), 5),
        OPEN,
    ]
    assert list(transaction.operations) == [put(etcd_key(SERVICE), b"web")]


def test_more_claims_than_a_transaction_has_room_for_are_taken_first() -> None:
    claims = [f"nodeport/{port}" for port in range(2 * MOST_CLAIMS + 50)]
    write = Create(SERVICE, obj(SERVICE), facts(*claims))
    *ahead, last = plan(LAYOUT, write, None, FORM, 0, {}, OPEN).transactions()
    assert [len(one.operations) for one in (*ahead, last)] == [MOST_CLAIMS, 50, MOST_CLAIMS + 1]
    assert all(OPEN in one.compares for one in (*ahead, last))
    compared = [compare.key for one in (*ahead, last) for compare in one.compares]
    taken = [key for key in compared if key not in (etcd_key(SERVICE), OPEN.key)]
    assert sorted(taken) == sorted(map(entry, claims))
    assert last.operations[0] == put(etcd_key(SERVICE), b"web")


def test_a_failure_shows_the_entries_of_claims() -> None:
    write = Create(SERVICE, obj(SERVICE), facts("nodeport/1", "nodeport/2"))
    [transaction] = plan(LAYOUT, write, None, FORM, 0, {}, OPEN).transactions()
    found = KeyValue(entry("nodeport/2"), b"/registry/services/specs/default/other", 3, 4, 1, 0)
    result = TxnResult(9, False, [RangeResult(9, [], False, 0), RangeResult(9, [found], False, 1)])
    assert found_keys(result) == [found]
    assert transaction.found_claims(result) == {"nodeport/1": 0, "nodeport/2": 4}
