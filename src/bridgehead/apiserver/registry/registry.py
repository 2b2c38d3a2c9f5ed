"""Operations on one stored object: get, create, update, delete.

A write reads the object, runs admission and the resource's hooks, and commits against the revision that was read. After
a lost race for the object or for an address, it starts again with the new state.
Source: apiserver/pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.chain import Chain
from bridgehead.apiserver.bodies.nulls import nulls_of, write_nulls
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.bodies.shapes import Shape
from bridgehead.apiserver.errors import (
    ApiStatus,
    already_exists,
    conflict,
    not_found,
    not_found_path,
    terminating_resource,
    too_large_object,
    unavailable,
)
from bridgehead.apiserver.fieldmanagement.managers import SERVER, Writer
from bridgehead.apiserver.http.worker import LONG_BYTES, run_long
from bridgehead.apiserver.resource import Change, JsonObject, Resource
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import AlreadyExists, ClaimTaken, Conflict, Facts, Key, NotFound, Record, Store, ValueTooLarge

from . import metadata
from .admitting import View, WriteAdmission
from .attempts import Attempts, Changed
from .deletion import DeleteOptions, Keep, is_finished, plan_delete
from .ownership import Ownership
from .request_checks import check_preconditions, check_url, has_version

# An attempt fails only when another write succeeds, so the system as a whole makes progress. This bound ends a bug.
_ATTEMPTS = 200

# Bounds of an object that a client writes, encoded as JSON. etcd's bound of a request is 1.5 MiB, and Kubernetes stores
# its own kinds in protobuf, which has about half the size. Without a bound, small patches grow an object for ever, and
# every watcher gets it.
_MAX_CUSTOM_BYTES = 3 * 512 * 1024
_MAX_BYTES = 2 * _MAX_CUSTOM_BYTES

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Deleted:
    """Result of a delete. `record` is the object's last state; `gone` is False if it only got a deletion timestamp."""

    record: Record
    gone: bool


def _max_bytes(resource: Resource) -> int:
    return _MAX_BYTES if resource.definition is None else _MAX_CUSTOM_BYTES


class Registry:
    """Operations on the objects of all resources, in their stored forms. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        table: ResourceTable,
        store: Store,
        schema: Schema,
        clock: Callable[[], float],
        admission: Chain | None = None,
    ) -> None:
        self.table = table
        self.store = store
        self.clock = clock
        self.admission = admission or Chain()
        self.ownership = Ownership(schema)
        self.delete_options = schema.of_kind("", "v1", "DeleteOptions")
        self._attempts = Attempts(store, self.ownership, table.by_id, clock)
        self._schema = schema
        for r in table:
            if r.definition is None:
                schema.check_kind(r.group, r.version, r.kind)

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self.table.find(group, version, plural)

    def shape(self, resource: Resource) -> Shape:
        if resource.definition is not None:
            shape: Shape = resource.definition.shape
            return shape
        return self._schema.of_kind(resource.group, resource.version, resource.kind)

    async def compile_schema(self, resource: Resource) -> None:
        """Compile the schema of a custom resource beside the event loop, before its first write needs it."""
        if not self.ownership.is_compiled(resource):
            await run_long(LONG_BYTES, partial(self.ownership.kind, resource))

    def key(self, resource: Resource, namespace: str, name: str) -> Key:
        return Key(resource.stored.id, namespace if resource.namespaced else "", name)

    def facts(self, resource: Resource, obj: JsonObject) -> Facts:
        """Return what selectors and other objects can refer to."""
        return self._attempts.facts(resource, obj)

    def get(self, resource: Resource, namespace: str, name: str) -> Record:
        """Read an object. Raises a 404."""
        record = self.store.get(self.key(resource, namespace, name))
        if record is None:
            raise not_found(resource, name)
        return record

    async def _latest(self, resource: Resource, namespace: str, name: str) -> Record:
        """Return an object for a write, so that many writers of one object need not lose races. Raises a 404."""
        key = self.key(resource, namespace, name)
        record = self.store.latest(key)
        if record is None:
            await self._settle(key, None)
            raise not_found(resource, name)
        return record

    async def _settle(self, key: Key, record: Record | None) -> None:
        """Wait until what `latest` returned may be shown."""
        if self.store.get(key) is not record:
            await self.store.settle()

    async def served(self, resource: Resource, record: Record) -> Record:
        """Return a stored object as the resource serves it. Raises `ApiStatus` when its conversion fails."""
        if resource.converter is None:
            return record
        return (await resource.converter.served([record]))[0]

    async def _to_stored(self, resource: Resource, obj: JsonObject) -> tuple[JsonObject, Facts]:
        """Return an object of a converted resource as it will be stored at once, and its facts.

        Raises a 404 or a 503 if the resource has been removed or exchanged since the request began.
        """
        converter = resource.converter
        if converter is None:
            raise AssertionError("the resource has no converter")
        stored = await converter.to_stored(obj)
        current = self.find(resource.group, resource.version, resource.plural)
        if current is None:
            raise not_found_path()
        if current is not resource:
            raise unavailable("the definition of this resource has just changed; try again", retry_after_seconds=1)
        return stored, self.facts(converter.storage, stored)

    async def create(
        self,
        resource: Resource,
        namespace: str,
        obj: JsonObject,
        *,
        attributes: Attributes | None = None,
        writer: Writer = SERVER,
        dry_run: bool = False,
        size: int = 0,
    ) -> Record:
        """Store a new object. The registry takes over `obj`. `size` is that of the request's body in bytes.

        `attributes` describe the request to admission; None: the server writes, and admission is not asked.
        `writer` becomes the manager of the object's fields; the managedFields of an apply are taken as they are.
        """
        if resource.refuses_create:
            raise terminating_resource(resource.refuses_create)
        meta = obj.setdefault("metadata", {})
        is_versioned = has_version(meta)
        check_url(resource, namespace, "", meta)
        if resource.strategy.may_take_long:
            size = max(size, LONG_BYTES)
        entries = await run_long(size, partial(self._attempts.default_new, resource, obj, writer))
        obj = {"kind": resource.stored.kind, "apiVersion": resource.stored.api_version} | obj
        admission = WriteAdmission(self.admission, self._attempts, resource, attributes)
        obj = await admission.mutate_new(obj, namespace, entries)
        meta = obj["metadata"]
        base = meta.get("generateName", "") if not meta.get("name") else ""
        metadata.initialize(obj, resource, namespace, self._attempts.now())
        refused: set[str] = set()
        max_bytes = 0 if attributes is None else _max_bytes(resource)
        choose = partial(
            self._attempts.candidate, resource, obj, base, entries, refused, is_completed=admission.changes
        )
        for attempt in range(_ATTEMPTS):
            new = await run_long(size, choose)
            candidate, facts = new.obj, new.facts
            await admission.validate_new(candidate)
            if resource.converter is not None:
                candidate, facts = await self._to_stored(resource, candidate)
            key = self.key(resource, namespace, candidate["metadata"]["name"])
            also = () if dry_run else self._attempts.companions(resource, candidate, None)
            write_nulls(candidate, nulls_of(resource.stored))
            try:
                if dry_run:
                    if self.store.get(key) is not None:
                        raise already_exists(resource, key.name)
                    record = Record(key, 0, _encode(candidate), facts)
                elif is_versioned:
                    raise ApiStatus(500, "", "resourceVersion should not be set on objects to be created")
                else:
                    record = await self.store.create(key, candidate, facts, also=also, max_bytes=max_bytes)
                admission.warn(new.warnings)
                return record
            except AlreadyExists:
                if not base or attempt == _ATTEMPTS - 1:
                    raise already_exists(resource, key.name) from None
            except ValueTooLarge:
                raise too_large_object() from None
            except ClaimTaken as error:
                refused.add(error.claim)
        raise unavailable("the addresses and ports of this request are taken as fast as they are chosen; try again")

    async def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Change,
        *,
        attributes: Attributes | None = None,
        view: View | None = None,
        writer: Writer | None = SERVER,
        subresource: str = "",
        dry_run: bool = False,
        size: int = 0,
    ) -> Record:
        """Change an object. `change` is pure and may run in another thread; `size` is that of the body in bytes.

        `attributes` describe the request to admission, which gets the object in `view`; None: the server writes.
        `writer` becomes the manager of the fields that change; None: their managers stay.
        Raises a 404, a 409 when `change` gives a resourceVersion that is not the current one, or a 422.
        """
        refused: set[str] = set()
        admission = WriteAdmission(self.admission, self._attempts, resource, attributes, view)
        max_bytes = 0 if attributes is None else _max_bytes(resource)
        for _ in range(_ATTEMPTS):
            current = await self._latest(resource, namespace, name)
            base = await self.served(resource, current)
            longest = max(size, len(current.value), LONG_BYTES if resource.strategy.may_take_long else 0)
            attempt = partial(self._attempts.draft, resource, namespace, name, base, change, subresource, writer)
            draft = await run_long(longest, attempt)
            await admission.mutate_changed(draft, subresource, longest)
            finish = partial(self._attempts.changed, resource, draft, subresource, refused)
            changed = await run_long(longest, finish)
            await admission.validate_changed(changed.obj, draft)
            try:
                record = await self._store_changed(resource, current, changed, max_bytes, dry_run=dry_run)
            except Conflict:
                continue
            except ValueTooLarge:
                raise too_large_object() from None
            except ClaimTaken as error:
                refused.add(error.claim)
            except NotFound:
                raise not_found(resource, name) from None
            else:
                admission.warn(changed.warnings)
                return record
        raise conflict(resource, name)

    async def _store_changed(
        self, resource: Resource, current: Record, changed: Changed, max_bytes: int, *, dry_run: bool
    ) -> Record:
        """Store a changed object; remove it if its deletion is complete. Raises the store's errors."""
        new, converter, facts = changed.obj, resource.converter, changed.facts
        is_current = converter is None or converter.is_in_storage_version(current)
        if changed.is_same and is_current and not self.store.is_stale(current.key):
            await self._settle(current.key, current)
            return current
        if converter is not None:
            new, facts = await self._to_stored(resource, new)
        also = self._attempts.companions(resource, None, new) if is_finished(new) else None
        write_nulls(new, nulls_of(resource.stored))
        if dry_run:
            return Record(current.key, current.revision, _encode(new), facts)
        if also is not None:
            await self.store.delete(current.key, expected=current.revision, also=also)
            return Record(current.key, current.revision, _encode(new), facts)
        return await self.store.update(
            current.key, new, facts, expected=current.revision, also=changed.also, max_bytes=max_bytes
        )

    async def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        options: DeleteOptions,
        *,
        attributes: Attributes | None = None,
    ) -> Deleted:
        """Delete an object. Raises a 404, or a 409 when a precondition does not hold.

        `attributes` describe the request to admission; None: admission is not asked.
        """
        for _ in range(_ATTEMPTS):
            current = await self._latest(resource, namespace, name)
            obj = _decode(current.value)
            check_preconditions(resource, name, obj, options)
            if attributes is not None:
                base = await self.served(resource, current)
                await self.admission.admit(attributes, {}, obj if base is current else _decode(base.value))
            plan = plan_delete(resource, obj, options, self.clock())
            try:
                if isinstance(plan, Keep):
                    if plan.obj is None:
                        await self._settle(current.key, current)
                        return Deleted(current, gone=False)
                    storage = resource if resource.converter is None else resource.converter.storage
                    facts = self.facts(storage, plan.obj)
                    if options.dry_run:
                        return Deleted(Record(current.key, current.revision, _encode(plan.obj), facts), gone=False)
                    updated = await self.store.update(current.key, plan.obj, facts, expected=current.revision)
                    return Deleted(updated, gone=False)
                if options.dry_run:
                    await self._settle(current.key, current)
                    return Deleted(current, gone=True)
                also = self._attempts.companions(resource, None, obj)
                return Deleted(await self.store.delete(current.key, expected=current.revision, also=also), gone=True)
            except (Conflict, ClaimTaken):
                continue
            except NotFound:
                raise not_found(resource, name) from None
        raise conflict(resource, name)
