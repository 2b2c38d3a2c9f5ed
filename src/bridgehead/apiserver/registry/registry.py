"""Operations on one stored object: get, create, update, delete.

A write reads the object, runs admission, the resource's hooks and validation, and commits against the revision that was
read. After a lost race for the object or for an address, it starts again with the new state.
Source: apiserver/pkg/registry/generic/registry/store.go.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from bridgehead.apiserver.bodies.schema import Schema, Shape
from bridgehead.apiserver.errors import (
    already_exists,
    bad_request,
    conflict,
    failed_precondition,
    invalid,
    not_found,
    unavailable,
)
from bridgehead.apiserver.fieldmanagement.managers import SERVER, Entries, Writer, same_but_times
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import Change, Companion, JsonObject, Resource, Strategy, copied
from bridgehead.apiserver.resources.shared.metadata_validation import validate_metadata, validate_metadata_update
from bridgehead.apiserver.table import ResourceTable
from bridgehead.objects.times import format_time
from bridgehead.storage import (
    AlreadyExists,
    ClaimTaken,
    Companions,
    Conflict,
    Create,
    Delete,
    Facts,
    Key,
    NotFound,
    Record,
    Store,
)

from . import metadata
from .admission import Admission
from .deletion import DeleteOptions, Keep, is_finished, plan_delete
from .ownership import FIELD, LABELLED_BY_STATUS, Ownership

# An attempt fails only when another write succeeds, so the system as a whole makes progress. This bound ends a bug.
_ATTEMPTS = 200

# The one subresource that changes spec and status together.
BINDING = "binding"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode


@dataclass(frozen=True, slots=True)
class Deleted:
    """Result of a delete. `record` is the object's last state; `gone` is False if it only got a deletion timestamp."""

    record: Record
    gone: bool


class Registry:
    """Operations on the objects of all resources, in their stored forms. `clock` returns seconds since the epoch."""

    def __init__(self, table: ResourceTable, store: Store, schema: Schema, clock: Callable[[], float]) -> None:
        self.table = table
        self.store = store
        self.clock = clock
        self.admission = Admission(store)
        self.ownership = Ownership(schema)
        self.delete_options = schema.of_kind("", "v1", "DeleteOptions")
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

    def key(self, resource: Resource, namespace: str, name: str) -> Key:
        return Key(resource.stored.id, namespace if resource.namespaced else "", name)

    def get(self, resource: Resource, namespace: str, name: str) -> Record:
        """Read an object. Raises a 404."""
        record = self.store.get(self.key(resource, namespace, name))
        if record is None:
            raise not_found(resource, name)
        return record

    async def create(
        self,
        resource: Resource,
        namespace: str,
        obj: JsonObject,
        *,
        writer: Writer = SERVER,
        dry_run: bool = False,
        size: int = 0,
    ) -> Record:
        """Store a new object. The registry takes over `obj`. `size` is that of the request's body in bytes.

        `writer` becomes the manager of the object's fields; the managedFields of an apply are taken as they are.
        """
        meta = obj.setdefault("metadata", {})
        if meta.get("resourceVersion") not in (None, "", "0"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._check_url(resource, namespace, "", meta)
        entries = await run_long(size, partial(self._default_new, resource, obj, writer))
        is_completed = await self.admission.admit_create(resource, namespace, obj)
        base = meta.get("generateName", "") if not meta.get("name") else ""
        metadata.initialize(obj, resource, namespace, self._now())
        obj = {"kind": resource.stored.kind, "apiVersion": resource.stored.api_version} | obj
        refused: set[str] = set()
        choose = partial(self._candidate, resource, obj, base, entries, refused, is_completed=is_completed)
        for attempt in range(_ATTEMPTS):
            candidate, facts = await run_long(size, choose)
            key = self.key(resource, namespace, candidate["metadata"]["name"])
            if dry_run:
                if self.store.get(key) is not None:
                    raise already_exists(resource, key.name)
                return Record(key, 0, _encode(candidate), facts)
            try:
                also = self._companions(resource, candidate, None)
                return await self.store.create(key, candidate, facts, also=also)
            except AlreadyExists:
                if not base or attempt == _ATTEMPTS - 1:
                    raise already_exists(resource, key.name) from None
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
        writer: Writer | None = SERVER,
        subresource: str = "",
        dry_run: bool = False,
        size: int = 0,
    ) -> Record:
        """Change an object. `change` is pure and may run in another thread; `size` is that of the body in bytes.

        `writer` becomes the manager of the fields that change; None: their managers stay.
        Raises a 404, a 409 when `change` gives a resourceVersion that is not the current one, or a 422.
        """
        refused: set[str] = set()
        for _ in range(_ATTEMPTS):
            current = self.get(resource, namespace, name)
            work = partial(self._changed, resource, namespace, name, current, change, subresource, writer, refused)
            changed = await run_long(max(size, len(current.value)), work)
            if changed is None:
                return current
            new, facts, also = changed
            finished = is_finished(new)
            if dry_run:
                return Record(current.key, current.revision, _encode(new), facts)
            try:
                if finished:
                    also = self._companions(resource, None, new)
                    await self.store.delete(current.key, expected=current.revision, also=also)
                    return Record(current.key, current.revision, _encode(new), facts)
                return await self.store.update(current.key, new, facts, expected=current.revision, also=also)
            except Conflict:
                continue
            except ClaimTaken as error:
                refused.add(error.claim)
            except NotFound:
                raise not_found(resource, name) from None
        raise conflict(resource, name)

    async def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> Deleted:
        """Delete an object. Raises a 404, or a 409 when a precondition does not hold."""
        self.admission.admit_delete(resource, name)
        for _ in range(_ATTEMPTS):
            current = self.get(resource, namespace, name)
            obj = _decode(current.value)
            _check_preconditions(resource, name, obj, options)
            plan = plan_delete(resource, obj, options, self.clock())
            try:
                if isinstance(plan, Keep):
                    if plan.obj is None:
                        return Deleted(current, gone=False)
                    facts = self.facts(resource, plan.obj)
                    if options.dry_run:
                        return Deleted(Record(current.key, current.revision, _encode(plan.obj), facts), gone=False)
                    updated = await self.store.update(current.key, plan.obj, facts, expected=current.revision)
                    return Deleted(updated, gone=False)
                if options.dry_run:
                    return Deleted(current, gone=True)
                also = self._companions(resource, None, obj)
                return Deleted(await self.store.delete(current.key, expected=current.revision, also=also), gone=True)
            except (Conflict, ClaimTaken):
                continue
            except NotFound:
                raise not_found(resource, name) from None
        raise conflict(resource, name)

    def facts(self, resource: Resource, obj: JsonObject) -> Facts:
        meta = obj["metadata"]
        fields = {"metadata.name": meta["name"]}
        if resource.namespaced:
            fields["metadata.namespace"] = meta["namespace"]
        for field, read in resource.stored.selectable.items():
            fields[field] = read(obj)
        return Facts(meta.get("labels") or {}, fields, resource.stored.strategy.claims(obj))

    def _changed(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        current: Record,
        change: Change,
        subresource: str,
        writer: Writer | None,
        refused: AbstractSet[str],
    ) -> tuple[JsonObject, Facts, Companions] | None:
        """Return what one attempt of an update stores; None if nothing changes. Raises a 400, 409 or 422."""
        old = _decode(current.value)
        new = change(old)
        meta = new.setdefault("metadata", {})
        self._check_url(resource, namespace, name, meta)
        given = meta.get("resourceVersion")
        if given not in (None, "", "0", str(current.revision)):
            raise conflict(resource, name)
        if meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
            raise failed_precondition(resource, name, "UID", meta["uid"], old["metadata"]["uid"])
        sent = meta.get(FIELD)
        # The hooks work without the managers of fields, which may be larger than the object.
        before: Entries = old["metadata"].pop(FIELD, None) or []
        new = self._default_changed(resource, new, old, subresource)
        after = self.ownership.updated(resource, old, new, before, sent, writer, self._now())
        self._prepare_update(resource, new, old, subresource, refused)
        if new == old and same_but_times(before, after):
            return None
        if after:
            new["metadata"][FIELD] = after
        return new, self.facts(resource, new), self._companions(resource, new, old)

    def _now(self) -> str:
        return format_time(self.clock())

    def _companions(self, resource: Resource, new: JsonObject | None, old: JsonObject | None) -> Companions:
        """Return the writes by which the companions of `old` become those of `new`."""
        strategy = resource.stored.strategy
        if type(strategy).companions is Strategy.companions:
            return ()
        wanted = () if new is None else strategy.companions(new)
        held = () if old is None else strategy.companions(old)
        before = {Key(one.resource, "", one.name) for one in held}
        after = {Key(one.resource, "", one.name): one for one in wanted}
        writes: list[Create | Delete] = [Delete(key, None) for key in before if key not in after]
        writes += [self._companion(key, one) for key, one in after.items() if key not in before]
        return tuple(writes)

    def _companion(self, key: Key, companion: Companion) -> Create:
        obj, now = companion.make(), self._now()
        metadata.identify(obj, now)
        obj["metadata"][FIELD] = self.ownership.of_companion(self.table.by_id(key.resource), obj, now)
        return Create(key, obj, Facts(companion.labels, {"metadata.name": key.name}), claim=companion.claim)

    def _is_taken(self, refused: AbstractSet[str]) -> Callable[[str], bool]:
        """Return `Store.is_claimed`, which also covers what refused earlier attempts."""
        if not refused:
            return self.store.is_claimed
        return lambda claim: claim in refused or self.store.is_claimed(claim)

    def _default_new(self, resource: Resource, obj: JsonObject, writer: Writer) -> Entries:
        """Set default values in a new object; return its managedFields.

        Managers own what they sent and its defaults, but not what admission and the other hooks add.
        """
        resource.stored.strategy.default(obj)
        return self.ownership.created(resource, obj, obj["metadata"].get(FIELD), writer, self._now())

    def _candidate(
        self,
        resource: Resource,
        obj: JsonObject,
        base: str,
        entries: Entries,
        refused: AbstractSet[str],
        *,
        is_completed: bool,
    ) -> tuple[JsonObject, Facts]:
        """Return what one attempt of a create stores. Raises a 422."""
        # A retry begins with the request's object, without the choices of the previous attempt.
        candidate = copied(obj)
        if base:
            candidate["metadata"]["name"] = metadata.generate_name(base)
        if is_completed:
            resource.stored.strategy.default(candidate)
        self._prepare_create(resource, candidate, refused)
        if entries:
            candidate["metadata"][FIELD] = entries
        return candidate, self.facts(resource, candidate)

    def _prepare_create(self, resource: Resource, obj: JsonObject, refused: AbstractSet[str]) -> None:
        """Apply the hooks for a create to `obj`, which has its default values. Raises a 422."""
        strategy = resource.stored.strategy
        strategy.prepare_create(obj)
        name = obj["metadata"].get("name", "")
        errors = validate_metadata(obj, resource)
        errors += strategy.allocate(obj, None, self._is_taken(refused))
        errors += strategy.validate(obj) + strategy.validate_create(obj)
        if errors:
            raise invalid(resource.group, resource.kind, name, errors)

    def _default_changed(self, resource: Resource, new: JsonObject, old: JsonObject, subresource: str) -> JsonObject:
        """Return a copy of `new` with default values, and without the changes that this request may not make."""
        if subresource == "status":
            new = _with_status_only(new, old)
        else:
            new = dict(new)
            if "status" in resource.subresources and subresource != BINDING:
                new.pop("status", None)
                if "status" in old:
                    new["status"] = old["status"]
        new["metadata"] = dict(new["metadata"])
        metadata.carry_over(new, old)
        new["apiVersion"], new["kind"] = resource.stored.api_version, resource.stored.kind
        # Hooks change objects in place, and parts of `new` may be shared with `old`.
        new = copied(new)
        resource.stored.strategy.default(new)
        return new

    def _prepare_update(
        self, resource: Resource, new: JsonObject, old: JsonObject, subresource: str, refused: AbstractSet[str]
    ) -> None:
        """Apply the hooks for an update to `new`, which has its default values. Raises a 422."""
        strategy = resource.stored.strategy
        strategy.prepare_update(new, old, subresource)
        errors = strategy.allocate(new, old, self._is_taken(refused))
        errors += validate_metadata(new, resource)
        errors += validate_metadata_update(new, old, resource)
        errors += strategy.validate(new)
        errors += strategy.validate_update(new, old, subresource)
        errors += self.admission.check_update(resource, new, old)
        if errors:
            raise invalid(resource.group, resource.kind, old["metadata"]["name"], errors)
        metadata.count_generation(new, old, resource)

    def _check_url(self, resource: Resource, namespace: str, name: str, meta: JsonObject) -> None:
        given = meta.get("namespace")
        if given and given != (namespace if resource.namespaced else ""):
            if resource.namespaced:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            meta.pop("namespace")
        if name:
            if not meta.get("name"):
                meta["name"] = name
            check_name(meta["name"], name)


def check_name(given: str, on_url: str) -> None:
    """Raise a 400 if the object's name is not that of the URL."""
    if given != on_url:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({on_url})")


def _with_status_only(new: JsonObject, old: JsonObject) -> JsonObject:
    """Return `old` with the status of `new`, and with those metadata that controllers may write with it."""
    meta, before = dict(new["metadata"]), old["metadata"]
    if old.get("kind") not in LABELLED_BY_STATUS:
        _restore(meta, before, "labels")
    _restore(meta, before, "ownerReferences")
    kept = {**old, "metadata": meta}
    kept.pop("status", None)
    if "status" in new:
        kept["status"] = new["status"]
    return kept


def _restore(new: JsonObject, old: JsonObject, field: str) -> None:
    if field in old:
        new[field] = old[field]
    else:
        new.pop(field, None)


def _check_preconditions(resource: Resource, name: str, obj: JsonObject, options: DeleteOptions) -> None:
    meta: dict[str, Any] = obj["metadata"]
    if options.uid is not None and options.uid != meta["uid"]:
        raise failed_precondition(resource, name, "UID", options.uid, meta["uid"])
    if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
        wanted, actual = options.resource_version, meta["resourceVersion"]
        raise failed_precondition(resource, name, "ResourceVersion", wanted, actual)
