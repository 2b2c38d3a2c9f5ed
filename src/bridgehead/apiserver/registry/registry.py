"""Operations on one stored object: get, create, update, delete.

A write reads the object, runs admission and the resource's hooks, and commits against the revision that was read. After
a lost race for the object or for an address, it starts again with the new state. A create that lost a race for a quota
only charges it again.
Source: apiserver/pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import msgspec

from bridgehead.apiserver.admission.chain import Chain
from bridgehead.apiserver.bodies.nulls import drop_nulls, nulls_of, write_nulls
from bridgehead.apiserver.bodies.schema import Schema
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
from bridgehead.apiserver.fieldmanagement.managers import Entries
from bridgehead.apiserver.http.worker import LONG_BYTES, run_long
from bridgehead.apiserver.resource import Change, JsonObject, Resource
from bridgehead.apiserver.shapes import Shape
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import (
    AlreadyExists,
    ClaimTaken,
    Companions,
    Conflict,
    Facts,
    Key,
    NotFound,
    Record,
    Store,
    StoreBroken,
    Unchanged,
    ValueTooLarge,
)

from . import metadata
from .deletion import DeleteOptions, Keep, plan_delete
from .facts import facts_of
from .managed_fields import Ownership
from .request_checks import check_preconditions, check_url, has_version
from .write import Merge, Write
from .write_admission import WriteAdmission
from .write_steps import Changed, Draft, New, WriteSteps

# An attempt fails only when another write succeeds, so the system as a whole makes progress. This bound ends a bug.
_ATTEMPTS = 200

# Bounds of an object that a client writes, encoded as JSON. etcd's bound of a request is 1.5 MiB, and Kubernetes stores
# its own kinds in protobuf, which has about half the size. Without a bound, small patches grow an object for ever, and
# every watcher gets it.
_MAX_CUSTOM_BYTES = 3 * 512 * 1024
_MAX_BYTES = 2 * _MAX_CUSTOM_BYTES

_DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Deleted:
    """Result of a delete. `record` is the object's last state; `gone` is False if it only got a deletion timestamp."""

    record: Record
    gone: bool


def _max_bytes(write: Write) -> int:
    """Return how large the object may become; 0: as large as the server makes it."""
    if write.attributes is None:
        return 0
    return _MAX_BYTES if write.resource.definition is None else _MAX_CUSTOM_BYTES


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
        # Makes the table agree with the definitions that the store shows. Their controller sets it.
        self.sync_table: Callable[[], None] = lambda: None
        self.delete_options = schema.of_kind("", "v1", "DeleteOptions")
        self._steps = WriteSteps(store, self.ownership, table.by_id, clock)
        self._schema = schema
        for r in table:
            if r.definition is None:
                schema.check_kind(r.group, r.version, r.kind)

    async def catch_up(self) -> None:
        """Wait until every write before this call is visible, by any server, and what it defines is in the table.

        Raises `StoreBroken`.
        """
        await self.store.catch_up()
        self.sync_table()

    async def has_news(self) -> bool:
        """Return whether other servers have written anything that this one had not seen. It is visible now."""
        before = self.store.revision
        with suppress(StoreBroken):
            await self.catch_up()
        return self.store.revision != before

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
        return facts_of(resource, obj)

    def get(self, resource: Resource, namespace: str, name: str) -> Record:
        """Read an object. Raises a 404."""
        record = self.store.get(self.key(resource, namespace, name))
        if record is None:
            raise not_found(resource, name)
        return record

    async def _latest(self, write: Write) -> Record:
        """Return the object of a write, so that many writers of one object need not lose races. Raises a 404."""
        key = self.key(write.resource, write.namespace, write.name)
        record = self.store.latest(key)
        if record is None:
            await self._settle(key, None)
            raise not_found(write.resource, write.name)
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
        self._definition(resource)
        return stored, self.facts(converter.storage, stored)

    def _definition(self, resource: Resource) -> Companions:
        """Return the condition for a new object that its definition is the one that is served, if it has one.

        Without it, an object could be stored through this server after another one has removed all objects with their
        definition. Raises a 404 or a 503 if the resource has been removed or exchanged since the request began.
        """
        if resource.definition is None:
            return ()
        self.sync_table()
        current = self.find(resource.group, resource.version, resource.plural)
        record = self.store.get(Key(_DEFINITIONS, "", resource.id))
        if current is None or record is None:
            raise not_found_path()
        if current is not resource:
            raise unavailable("the definition of this resource has just changed; try again", retry_after_seconds=1)
        return (Unchanged(record.key, record.revision),)

    async def create(self, write: Write, obj: JsonObject, managers: Entries | None = None) -> Record:
        """Store a new object. The registry takes over `obj`.

        `managers` are the managedFields that an apply has made; None: the writer manages what it sent.
        """
        resource = write.resource
        if resource.refuses_create:
            raise terminating_resource(resource.refuses_create)
        meta = obj.setdefault("metadata", {})
        is_versioned = has_version(meta)
        check_url(write, meta)
        size = max(write.size, LONG_BYTES) if resource.strategy.may_take_long else write.size
        obj, entries = await run_long(size, partial(self._steps.draft_new, write, obj, managers))
        admission = WriteAdmission(self.admission, write)
        obj = await admission.mutate_new(obj, entries)
        metadata.initialize(obj, resource, write.namespace, self._steps.now())
        refused: set[str] = set()
        choose = partial(self._steps.new, write, obj, entries, refused, is_admitted=admission.changes)
        for attempt in range(_ATTEMPTS):
            new = await run_long(size, choose)
            await admission.validate_new(new)
            try:
                record = await self._store_new(write, new, admission, is_versioned=is_versioned)
            except AlreadyExists:
                if not new.is_named_here or attempt == _ATTEMPTS - 1:
                    raise already_exists(resource, new.obj["metadata"]["name"]) from None
            except ValueTooLarge:
                raise too_large_object() from None
            except ClaimTaken as error:
                refused.add(error.claim)
            else:
                admission.warn(new.warnings)
                return record
        raise unavailable("the addresses and ports of this request are taken as fast as they are chosen; try again")

    async def _store_new(self, write: Write, new: New, admission: WriteAdmission, *, is_versioned: bool) -> Record:
        """Store a new object. Raises `ApiStatus` and the store's errors."""
        resource, obj, facts = write.resource, new.obj, new.facts
        if resource.converter is not None:
            obj, facts = await self._to_stored(resource, obj)
        key, nulls = self.key(resource, write.namespace, obj["metadata"]["name"]), nulls_of(resource.stored)
        for _ in range(_ATTEMPTS):
            charges = await self._charged(partial(admission.charge_new, new.obj))
            write_nulls(obj, nulls)
            if write.dry_run:
                if self.store.get(key) is not None:
                    raise already_exists(resource, key.name)
                return Record(key, 0, _encode(obj), facts)
            if is_versioned:
                raise ApiStatus(500, "", "resourceVersion should not be set on objects to be created")
            try:
                also = (*new.also, *charges, *self._definition(resource))
                return await self.store.create(key, obj, facts, also=also, max_bytes=_max_bytes(write))
            except Conflict:  # another write charged the same quota, or changed the definition
                drop_nulls(obj, nulls)
        raise conflict(resource, key.name)

    async def _charged(self, charge: Callable[[], Companions]) -> Companions:
        """Return what admission commits with an object. Raises `ApiStatus`."""
        try:
            return charge()
        except ApiStatus:
            await self.store.settle()  # the refusal shows a state that could still be lost
            raise

    async def update(self, write: Write, change: Change) -> Record:
        """Change an object. `change` is pure and may run in another thread.

        Raises a 404, a 409 when `change` gives a resourceVersion that is not the current one, or a 422.
        """
        return await self._change(write, partial(self._steps.draft_changed, write, change))

    async def apply(self, write: Write, merge: Merge) -> Record:
        """Apply a configuration to an object that exists. Otherwise as `update`."""
        return await self._change(write, partial(self._steps.draft_applied, write, merge))

    async def _change(self, write: Write, draft_of: Callable[..., Draft]) -> Record:
        """Carry out an update: draft, plug-ins, hooks, plug-ins, commit; all of it again after a lost race."""
        resource, refused = write.resource, set[str]()
        admission = WriteAdmission(self.admission, write)
        for_admission = admission.changes
        for _ in range(_ATTEMPTS):
            current = await self._latest(write)
            base = await self.served(resource, current)
            size = max(write.size, len(current.value), LONG_BYTES if resource.strategy.may_take_long else 0)
            draft = await run_long(size, partial(draft_of, base, for_admission=for_admission))
            admitted = await admission.mutate_changed(draft)
            changed = await run_long(size, partial(self._steps.changed, write, draft, admitted, refused))
            await admission.validate_changed(changed, draft)
            charges = await self._charged(partial(admission.charge_changed, changed, draft))
            try:
                record = await self._store_changed(write, current, changed, charges)
            except Conflict:
                continue
            except ValueTooLarge:
                raise too_large_object() from None
            except ClaimTaken as error:
                refused.add(error.claim)
            except NotFound:
                raise not_found(resource, write.name) from None
            else:
                admission.warn(changed.warnings)
                return record
        raise conflict(resource, write.name)

    async def _store_changed(self, write: Write, current: Record, changed: Changed, charges: Companions) -> Record:
        """Store a changed object; remove it if its deletion is complete. Raises `ApiStatus` and the store's errors."""
        resource, obj, facts = write.resource, changed.obj, changed.facts
        converter = resource.converter
        is_current = converter is None or converter.is_in_storage_version(current)
        if changed.is_same and is_current and not self.store.is_stale(current.key):
            await self._settle(current.key, current)
            return current
        if converter is not None:
            obj, facts = await self._to_stored(resource, obj)
        write_nulls(obj, nulls_of(resource.stored))
        key, revision = current.key, current.revision
        if write.dry_run:
            return Record(key, revision, _encode(obj), facts)
        if changed.is_finished:
            await self.store.delete(key, expected=revision, also=changed.also)
            return Record(key, revision, _encode(obj), facts)
        return await self.store.update(
            key, obj, facts, expected=revision, also=(*changed.also, *charges), max_bytes=_max_bytes(write)
        )

    async def delete(self, write: Write, options: DeleteOptions) -> Deleted:
        """Delete an object. Raises a 404, or a 409 when a precondition does not hold."""
        resource, attributes = write.resource, write.attributes
        for _ in range(_ATTEMPTS):
            current = await self._latest(write)
            obj = _decode(current.value)
            check_preconditions(write, obj, options)
            if attributes is not None:
                base = await self.served(resource, current)
                await self.admission.admit(attributes, {}, obj if base is current else _decode(base.value))
            plan = plan_delete(resource, obj, options, self.clock())
            try:
                if isinstance(plan, Keep):
                    return Deleted(await self._keep(write, current, plan), gone=False)
                return Deleted(await self._remove(write, current, obj), gone=True)
            except (Conflict, ClaimTaken):
                continue
            except NotFound:
                raise not_found(resource, write.name) from None
        raise conflict(resource, write.name)

    async def _keep(self, write: Write, current: Record, plan: Keep) -> Record:
        """Store what a delete makes of an object that stays. Raises the store's errors."""
        if plan.obj is None:
            await self._settle(current.key, current)
            return current
        converter = write.resource.converter
        facts = self.facts(write.resource if converter is None else converter.storage, plan.obj)
        if write.dry_run:
            return Record(current.key, current.revision, _encode(plan.obj), facts)
        return await self.store.update(current.key, plan.obj, facts, expected=current.revision)

    async def _remove(self, write: Write, current: Record, obj: JsonObject) -> Record:
        """Remove an object and its companions. Raises the store's errors."""
        if write.dry_run:
            await self._settle(current.key, current)
            return current
        also = self._steps.companions(write.resource, None, obj)
        return await self.store.delete(current.key, expected=current.revision, also=also)
