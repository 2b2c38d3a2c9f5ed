"""Stored custom resources as objects of one version, and back.

A record is served as it is stored if it was written in this version and under the present schema; nearly all are.
All others are converted, pruned and completed with defaults, once: the results are kept. A webhook gets all objects of
a list, or of a batch of changes, in few calls.
Source: apiextensions-apiserver/pkg/apiserver/conversion, customresource_handler.go (crdConversionRESTOptionsGetter).
"""

from __future__ import annotations

import asyncio
import uuid
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.webhookclient.client import WebhookClient
from bridgehead.apiserver.webhookclient.errors import CallFailed
from bridgehead.apiserver.webhookclient.webhook_location import parse_client_config
from bridgehead.storage import Facts, Record, Store

from .conversion_reviews import BadReview, converted_objects, make_review
from .converted_store import ConvertedWatch, View
from .schema import Structural

_WEBHOOK_SECONDS = 30.0
# Objects in one call of a webhook.
_BATCH_OBJECTS, _BATCH_BYTES = 500, 4 * 1024 * 1024
# Bytes of converted records that are kept for each version.
_KEPT_BYTES = 16 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


class Conversion(Protocol):
    """Conversion of objects between the versions of a definition."""

    async def convert(self, objects: Sequence[JsonObject], api_version: str) -> list[JsonObject]:
        """Return the objects in another version. The results may share parts with them. Raises `ApiStatus`."""
        ...


class NoConversion:
    """All versions have the same fields."""

    async def convert(self, objects: Sequence[JsonObject], api_version: str) -> list[JsonObject]:
        return [{**obj, "apiVersion": api_version} for obj in objects]


class WebhookConversion:
    """A webhook converts. `webhook` is `spec.conversion.webhook`."""

    def __init__(self, webhook: JsonObject, client: WebhookClient) -> None:
        self._webhook = webhook
        self._client = client

    async def convert(self, objects: Sequence[JsonObject], api_version: str) -> list[JsonObject]:
        kind = objects[0]["kind"]
        subject = f"conversion webhook for {objects[0]['apiVersion']}, Kind={kind}"
        try:
            config = parse_client_config(self._webhook["clientConfig"])
            review = make_review(self._webhook["conversionReviewVersions"], str(uuid.uuid4()), objects, api_version)
            answer = await self._client.post(config, _encode(review), seconds=_WEBHOOK_SECONDS)
            return converted_objects(review, answer, objects)
        except CallFailed as error:
            raise ApiStatus(500, "InternalError", f"{subject} failed: {error}") from None
        except BadReview as error:
            raise ApiStatus(500, "InternalError", f"{subject} {error}") from None


class VersionConverter:
    """The `resource.Converter` of one version.

    `schemas` returns the compiled schema of an API version. `since` is the revision at which the present schema came
    into force: later records have been written under it.
    """

    def __init__(
        self,
        resource: Resource,
        storage: Resource,
        schemas: Mapping[str, Callable[[], Structural]],
        conversion: Conversion,
        facts: Callable[[Resource, JsonObject], Facts],
        since: int,
    ) -> None:
        self.storage = storage
        self._resource = resource
        self._schemas = schemas
        self._conversion = conversion
        self._facts = facts
        self._since = since
        self._prefix = _prefix(resource)
        self._storage_prefix = _prefix(storage)
        self._converted = _Kept(_KEPT_BYTES)
        self._pending: dict[tuple[str, str, int], asyncio.Future[Record]] = {}
        self._watches: weakref.WeakSet[ConvertedWatch] = weakref.WeakSet()
        # Whether all records are known to be served as they are stored. New ones are then, too.
        self._is_clean = False

    def is_in_storage_version(self, record: Record) -> bool:
        if record.value.startswith(self._storage_prefix):
            return True
        return bool(_decode(record.value).get("apiVersion") == self.storage.api_version)

    def is_current(self, record: Record) -> bool:
        """Whether a record is served as it is stored."""
        return record.revision > self._since and record.value.startswith(self._prefix)

    async def served(self, records: Sequence[Record]) -> list[Record]:
        if self._is_clean or all(map(self.is_current, records)):
            return list(records)
        found: dict[int, Record] = {}
        missing: list[Record] = []
        waiting: dict[int, asyncio.Future[Record]] = {}
        for index, record in enumerate(records):
            kept = record if self.is_current(record) else self._converted.get(record)
            if kept is not None:
                found[index] = kept
                continue
            identity = _identity(record)
            pending = self._pending.get(identity)
            if pending is None:
                pending = self._pending[identity] = asyncio.get_running_loop().create_future()
                missing.append(record)
            waiting[index] = pending
        if missing:
            await self._convert_all(missing)
        for index, future in waiting.items():
            found[index] = await asyncio.shield(future)
        return [found[index] for index in range(len(records))]

    async def to_stored(self, obj: JsonObject) -> JsonObject:
        if self.storage.api_version == self._resource.api_version:
            return obj
        (stored,) = await self._conversion.convert([obj], self.storage.api_version)
        return self._completed(stored)

    async def converted(self, obj: JsonObject, resource: Resource) -> JsonObject:
        if resource.api_version == self._resource.api_version:
            return obj
        (found,) = await self._conversion.convert([obj], resource.api_version)
        return found

    async def view(self, store: Store, namespace: str | None, *, with_records: bool) -> Store:
        if not with_records or self._is_clean:
            return View(store, None, self._open)
        records = store.list(self._resource.id, namespace)
        if all(map(self.is_current, records)):
            if namespace is None and self.storage.api_version == self._resource.api_version:
                self._is_clean = True
            return View(store, None, self._open)
        revision = store.revision
        return View(store, (revision, await self.served(records)), self._open)

    def retire(self) -> None:
        """End the watches: this version is not served any more, or with another schema."""
        for watch in list(self._watches):
            watch.finish()

    def _open(self, store: Store, resource: str, namespace: str | None, since: int) -> ConvertedWatch:
        watch = ConvertedWatch(store.watch(resource, namespace, since=since), self)
        self._watches.add(watch)
        return watch

    async def _convert_all(self, records: list[Record]) -> None:
        """Convert records, in batches, and resolve their futures."""
        try:
            batch: list[Record] = []
            size = 0
            for record in records:
                batch.append(record)
                size += len(record.value)
                if len(batch) >= _BATCH_OBJECTS or size >= _BATCH_BYTES:
                    await self._convert_batch(batch, size)
                    batch, size = [], 0
            if batch:
                await self._convert_batch(batch, size)
        except BaseException as error:
            for record in records:
                future = self._pending.pop(_identity(record), None)
                if future is not None:
                    shown = error if isinstance(error, Exception) else ApiStatus(500, "InternalError", "cancelled")
                    future.set_exception(shown)
                    future.exception()  # mark as seen: there may be no other waiter
            raise

    async def _convert_batch(self, records: list[Record], size: int) -> None:
        objects = await run_long(size, lambda: [self._read(record) for record in records])
        wanted = self._resource.api_version
        others = [obj for obj in objects if obj["apiVersion"] != wanted]
        if others:
            converted = iter(await self._conversion.convert(others, wanted))
            objects = [obj if obj["apiVersion"] == wanted else next(converted) for obj in objects]
        made = await run_long(size, lambda: list(map(self._record, records, objects)))
        for record, one in zip(records, made, strict=True):
            self._converted.put(record, one)
            future = self._pending.pop(_identity(record), None)
            if future is not None:
                future.set_result(one)

    def _read(self, record: Record) -> JsonObject:
        """Return a stored object with the defaults of its version."""
        obj: JsonObject = _decode(record.value)
        schema = self._schemas.get(obj["apiVersion"])
        if schema is not None:
            schema().default(obj)
        return obj

    def _record(self, record: Record, obj: JsonObject) -> Record:
        """Return a record with a converted object, without what this version does not have."""
        schema = self._schemas.get(self._resource.api_version)
        if schema is not None:
            schema().prune(obj)
        return Record(record.key, record.revision, _encode(obj), self._facts(self._resource, obj))

    def _completed(self, obj: JsonObject) -> JsonObject:
        """Return an object for the store as it would be read again."""
        schema = self._schemas.get(self.storage.api_version)
        if schema is not None:
            obj = dict(obj)
            schema().prune(obj)
            schema().default(obj)
        return obj


def _prefix(resource: Resource) -> bytes:
    """Return the beginning of a stored object of this version."""
    return _encode({"kind": resource.kind, "apiVersion": resource.api_version})[:-1]


def _identity(record: Record) -> tuple[str, str, int]:
    return record.key.namespace, record.key.name, record.revision


class _Kept:
    """Converted records by the stored ones, the oldest dropped first."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._bytes = 0
        self._records: OrderedDict[tuple[str, str, int], tuple[bytes, Record]] = OrderedDict()

    def get(self, record: Record) -> Record | None:
        kept = self._records.get(_identity(record))
        # A dry run has the revision of the stored object, but another value.
        return kept[1] if kept is not None and kept[0] == record.value else None

    def put(self, record: Record, converted: Record) -> None:
        identity = _identity(record)
        old = self._records.pop(identity, None)
        if old is not None:
            self._bytes -= len(old[1].value)
        self._records[identity] = record.value, converted
        self._bytes += len(converted.value)
        while self._bytes > self._max_bytes and len(self._records) > 1:
            _, (_, dropped) = self._records.popitem(last=False)
            self._bytes -= len(dropped.value)
