"""Copies of a store on etcd: `back_up` makes one, also while servers write; `restore` fills an empty prefix from one.

A copy is a SQLite file as of any other store (`storage.backups`), so stores can be exchanged. The values of etcd are
authenticated with their keys there: encrypted objects are decrypted, and encrypted again as a SQLite store does. Both
functions need the keys of encrypted objects.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from bridgehead.storage.backups import Copied, NewCopy, OnProgress, new_copy, open_copy
from bridgehead.storage.content import encode
from bridgehead.storage.errors import StoreBroken
from bridgehead.storage.records import Record
from bridgehead.storage.sealing import Encryption

from .area import LAYOUT, layout_key, read_area, restoring_key
from .claims import claim_key
from .client.errors import Compacted, OutcomeUnknown
from .client.etcd_client import EtcdClient
from .client.messages_pb2 import Compare, RequestOp
from .client.records import KeyValue, TxnResult
from .client.requests import create_revision_equals, delete, prefix_end, put, value_equals
from .codec import ObjectCodec, Undecodable, Undecryptable
from .layout import DEFINITIONS, Layout
from .leases import Leases
from .retries import patiently
from .stored_form import StoredForm

# Bounds of one transaction: etcd's --max-txn-ops is 128, and its --max-request-bytes 1.5 MiB.
_MOST_OPERATIONS = 100
_MOST_BYTES = 2**20
# Events share leases of whole minutes.
_LEASE_SECONDS = 60
_ATTEMPTS = 5

Lifetime = Callable[[Record], float | None]
"""Returns the seconds that an object still lives, 0 or less if it is not to be restored; None: it stays."""

_decode = msgspec.json.Decoder(dict).decode


async def back_up(
    client: EtcdClient,
    layout: Layout,
    codec: ObjectCodec,
    encryption: Encryption | None,
    target: Path,
    on_progress: OnProgress,
    on_left_out: Callable[[str, str], None],
) -> Copied:
    """Write a copy of the objects of one revision. Raises `StoreBroken`, `EtcdError`.

    `on_left_out` is called with the key of each object that cannot be decoded, and the reason.
    """
    found = await client.range(layout.prefix, prefix_end(layout.prefix), count_only=True)
    if not found.count:
        raise StoreBroken(f"etcd has no objects below {layout.shown}: check --etcd-prefix")
    if restoring_key(layout) in await read_area(client, layout):
        raise StoreBroken(f"a restore below {layout.shown} in etcd has not finished: run `bridgehead restore` again")
    form = StoredForm(layout, codec, encryption)
    done = 0
    with new_copy(target, encryption) as copy:
        async for kvs in _pages(client, layout, found.revision):
            _add(copy, layout, form, kvs, on_left_out)
            done += len(kvs)
            on_progress(min(done, found.count), found.count)
        on_progress(found.count, found.count)
        return copy.finish(found.revision)


async def _pages(client: EtcdClient, layout: Layout, revision: int) -> AsyncIterator[Sequence[KeyValue]]:
    """Yield all keys at a revision. Definitions come first: the codec needs them for custom resources."""
    definitions = layout.resource_prefix(DEFINITIONS)
    try:
        for prefix in (definitions, layout.prefix):
            async for page in client.pages(prefix, prefix_end(prefix), revision=revision):
                yield [kv for kv in page.kvs if prefix == definitions or not kv.key.startswith(definitions)]
    except Compacted:
        raise StoreBroken(
            "etcd has compacted its history while it was read: run the command again, nearer to etcd"
        ) from None


def _add(
    copy: NewCopy,
    layout: Layout,
    form: StoredForm,
    kvs: Sequence[KeyValue],
    on_left_out: Callable[[str, str], None],
) -> None:
    records: list[Record] = []
    for kv in kvs:
        key = layout.object_key(kv.key)
        if key is None:
            continue
        try:
            obj, facts = form.decode(key, kv.value)
        except Undecryptable as error:
            raise StoreBroken(f"cannot back up {kv.key.decode(errors='replace')}: {error}") from error
        except Undecodable as error:
            on_left_out(kv.key.decode(errors="replace"), str(error))
            continue
        records.append(Record(key, kv.mod_revision, encode(obj, kv.mod_revision), facts))
    copy.add(records)


async def restore(
    client: EtcdClient,
    layout: Layout,
    codec: ObjectCodec,
    encryption: Encryption | None,
    path: Path,
    lifetime: Lifetime,
    on_progress: OnProgress,
) -> Restored:
    """Write the objects of a copy below the prefix, which has to be empty. Raises `StoreBroken`, `EtcdError`.

    A mark keeps API servers away until all objects are there. If this fails, the mark stays, and the next restore
    deletes what the failed one has written.
    """
    with open_copy(path, encryption) as copy:
        mark = _Mark(client, layout)
        await mark.set()
        objects = 0
        writer = _Writer(mark)
        leases = Leases(client)
        form = StoredForm(layout, codec, encryption)
        for number, record in enumerate(copy.records(DEFINITIONS), start=1):
            left = lifetime(record)
            if left is None or left > 0:
                lease = 0 if left is None else await patiently(partial(leases.lease, _whole_minutes(left)))
                await writer.write(_puts(layout, form, record, lease))
                objects += 1
            on_progress(min(number, copy.objects - 1), copy.objects)
        await writer.flush()
        revision = await mark.remove()
        on_progress(copy.objects, copy.objects)
        return Restored(Copied(objects, revision, copy.size_bytes), copy.revision)


class Restored(NamedTuple):
    """Summary of a restore: `copied.revision` is etcd's, `former_revision` that of the store of the copy."""

    copied: Copied
    former_revision: int


class _Put(NamedTuple):
    key: bytes
    value: bytes
    lease: int


def _puts(layout: Layout, form: StoredForm, record: Record, lease: int) -> Iterator[_Put]:
    key = layout.etcd_key(record.key)
    yield _Put(key, form.encode(record.key, _decode(record.value)), lease)
    for claim in sorted(record.facts.claims):
        yield _Put(claim_key(layout, claim), key, 0)


def _whole_minutes(seconds: float) -> int:
    return -int(-seconds // _LEASE_SECONDS) * _LEASE_SECONDS


class _Writer:
    """Writes keys in transactions that are as large as etcd's default bounds allow."""

    def __init__(self, mark: _Mark) -> None:
        self._mark = mark
        self._operations: list[RequestOp] = []
        self._bytes = 0

    async def write(self, puts: Iterator[_Put]) -> None:
        for one in puts:
            size = len(one.key) + len(one.value)
            if len(self._operations) >= _MOST_OPERATIONS or self._bytes + size > _MOST_BYTES:
                await self.flush()
            self._operations.append(put(one.key, one.value, lease=one.lease))
            self._bytes += size

    async def flush(self) -> None:
        operations, self._operations, self._bytes = self._operations, [], 0
        if operations:
            await self._mark.commit(operations)


class _Mark:
    """The key that shows that a restore is under way, with a value of its own: one restore at a time may write."""

    def __init__(self, client: EtcdClient, layout: Layout) -> None:
        self._client = client
        self._layout = layout
        self._key = restoring_key(layout)
        self._value = secrets.token_hex(8).encode()

    async def set(self) -> None:
        """Set the mark below an empty prefix, or take over that of a restore that failed."""
        earlier = (await read_area(self._client, self._layout)).get(self._key)
        if earlier is not None:
            await self._take_over(earlier)
            return
        await self._refuse_others(0)
        await self._set([create_revision_equals(self._key, 0)])
        try:
            await self._refuse_others(1)  # an API server may have begun to write before the mark was there
        except StoreBroken:
            await self.commit([delete(self._key)])
            raise

    async def _take_over(self, earlier: bytes) -> None:
        await self._set([value_equals(self._key, earlier)])
        prefix = self._layout.prefix
        await self.commit([delete(prefix, self._key), delete(self._key + b"\0", prefix_end(prefix))])

    async def _set(self, compares: Sequence[Compare]) -> None:
        if not (await self._repeatedly(compares, [put(self._key, self._value)])).succeeded:
            raise self._other_restore()

    async def _refuse_others(self, own: int) -> None:
        prefix = self._layout.prefix
        count = (await self._client.range(prefix, prefix_end(prefix), count_only=True)).count - own
        if count:
            raise StoreBroken(
                f"etcd has {count} keys below {self._layout.shown}: choose another --etcd-prefix, or stop the API"
                f" servers and remove them with `etcdctl del --prefix {prefix.decode()}`"
            )

    async def commit(self, operations: Sequence[RequestOp]) -> int:
        """Carry out operations while the mark is this one; return the revision."""
        result = await self._repeatedly([value_equals(self._key, self._value)], operations)
        if not result.succeeded:
            raise self._other_restore()
        return result.revision

    async def remove(self) -> int:
        """Let API servers in. Watches from before, of other stores, are too old: clients list again."""
        key = layout_key(self._layout)
        await self._compact(await self.commit([put(key, LAYOUT)]))
        operations = [delete(self._key)]
        result = await self._repeatedly([value_equals(self._key, self._value)], operations)
        return result.revision  # without success, an attempt before has removed it

    async def _compact(self, revision: int) -> None:
        try:
            await self._client.compact(revision)
        except Compacted:
            return

    async def _repeatedly(self, compares: Sequence[Compare], operations: Sequence[RequestOp]) -> TxnResult:
        """Carry out a transaction that may be carried out twice."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return await patiently(partial(self._client.txn, compares, operations))
            except OutcomeUnknown:
                continue
        return await patiently(partial(self._client.txn, compares, operations))

    def _other_restore(self) -> StoreBroken:
        return StoreBroken(f"another restore below {self._layout.shown} in etcd has begun: run one at a time")
