"""The operations on stored objects, without HTTP: what a handler calls once a request is understood.

Each write is read, admitted, run through the resource's hooks, validated and committed against the revision that was
read. Whoever lost a race for the object or for an address it claims starts over with fresh values
(source: apiserver/pkg/registry/generic/registry/store.go).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject, Resource, copied
from bridgehead.apiserver.resources.metadata import validate_metadata, validate_metadata_update
from bridgehead.storage import AlreadyExists, ClaimTaken, Conflict, Facts, Key, NotFound, Record, Store

from . import metadata
from .admission import Admission
from .deletion import DeleteOptions, Keep, is_finished, plan_delete

# Each attempt has lost to a write that was made, so somebody has always got on; this only ends what must be a mistake.
_ATTEMPTS = 200

# The one subresource that changes spec and status together.
BINDING = "binding"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.decode

# Changes an object that was just read; the result may share parts with it. Called again after a lost race.
Change = Callable[[JsonObject], JsonObject]


@dataclass(frozen=True, slots=True)
class Deleted:
    """`record` is the object's last state; `gone` is False when it only has been marked."""

    record: Record
    gone: bool


class Registry:
    """`clock` gives seconds since the epoch."""

    def __init__(self, table: Sequence[Resource], store: Store, schema: Schema, clock: Callable[[], float]) -> None:
        self.table = tuple(table)
        self.store = store
        self.clock = clock
        self.admission = Admission(store)
        self.delete_options = schema.of_kind("", "v1", "DeleteOptions")
        self._by_path = {(r.group, r.version, r.plural): r for r in table}
        self._shapes = {r.id: schema.of_kind(r.group, r.version, r.kind) for r in table}

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        return self._by_path.get((group, version, plural))

    def shape(self, resource: Resource) -> Shape:
        return self._shapes[resource.id]

    def key(self, resource: Resource, namespace: str, name: str) -> Key:
        return Key(resource.id, namespace if resource.namespaced else "", name)

    def get(self, resource: Resource, namespace: str, name: str) -> Record:
        """Raises a 404."""
        record = self.store.get(self.key(resource, namespace, name))
        if record is None:
            raise not_found(resource, name)
        return record

    async def create(
        self, resource: Resource, namespace: str, obj: JsonObject, *, dry_run: bool = False, size: int = 0
    ) -> Record:
        """`obj` is taken over. `size` is that of its body."""
        meta = obj.setdefault("metadata", {})
        if meta.get("resourceVersion") not in (None, "", "0"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        self._check_url(resource, namespace, "", meta)
        await self.admission.admit_create(resource, namespace, obj)
        base = meta.get("generateName", "") if not meta.get("name") else ""
        metadata.initialize(obj, resource, namespace, self.clock())
        obj = {"kind": resource.kind, "apiVersion": resource.api_version} | obj
        for attempt in range(_ATTEMPTS):
            candidate, facts = await run_long(size, partial(self._candidate, resource, obj, base))
            key = self.key(resource, namespace, candidate["metadata"]["name"])
            if dry_run:
                if self.store.get(key) is not None:
                    raise already_exists(resource, key.name)
                return Record(key, 0, _encode(candidate), facts)
            try:
                return await self.store.create(key, candidate, facts)
            except AlreadyExists:
                if not base or attempt == _ATTEMPTS - 1:
                    raise already_exists(resource, key.name) from None
            except ClaimTaken:
                continue
        raise unavailable("the addresses and ports of this request are taken as fast as they are chosen; try again")

    async def update(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        change: Change,
        *,
        subresource: str = "",
        dry_run: bool = False,
        size: int = 0,
    ) -> Record:
        """`change` is pure and may run in another thread; `size` is that of the body it came from.

        Raises a 404, a 409 when `change` gives a resourceVersion that is not the current one, or a 422.
        """
        for _ in range(_ATTEMPTS):
            current = self.get(resource, namespace, name)
            work = partial(self._changed, resource, namespace, name, current, change, subresource)
            changed = await run_long(max(size, len(current.value)), work)
            if changed is None:
                return current
            new, facts = changed
            finished = is_finished(new)
            if dry_run:
                return Record(current.key, current.revision, _encode(new), facts)
            try:
                if finished:
                    await self.store.delete(current.key, expected=current.revision)
                    return Record(current.key, current.revision, _encode(new), facts)
                return await self.store.update(current.key, new, facts, expected=current.revision)
            except (Conflict, ClaimTaken):
                continue
            except NotFound:
                raise not_found(resource, name) from None
        raise conflict(resource, name)

    async def delete(self, resource: Resource, namespace: str, name: str, options: DeleteOptions) -> Deleted:
        """Raises a 404, or a 409 when a precondition does not hold."""
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
                return Deleted(await self.store.delete(current.key, expected=current.revision), gone=True)
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
        for field, read in resource.selectable.items():
            fields[field] = read(obj)
        return Facts(meta.get("labels") or {}, fields, resource.strategy.claims(obj))

    def _changed(
        self, resource: Resource, namespace: str, name: str, current: Record, change: Change, subresource: str
    ) -> tuple[JsonObject, Facts] | None:
        """What one attempt of an update is to store; None for what is stored already. Raises a 400, 409 or 422."""
        old = _decode(current.value)
        new = change(old)
        meta = new.setdefault("metadata", {})
        self._check_url(resource, namespace, name, meta)
        given = meta.get("resourceVersion")
        if given not in (None, "", "0", str(current.revision)):
            raise conflict(resource, name)
        if meta.get("uid") and meta["uid"] != old["metadata"]["uid"]:
            raise failed_precondition(resource, name, "UID", meta["uid"], old["metadata"]["uid"])
        new = self._prepare_update(resource, new, old, subresource)
        return None if new == old else (new, self.facts(resource, new))

    def _candidate(self, resource: Resource, obj: JsonObject, base: str) -> tuple[JsonObject, Facts]:
        """What one attempt of a create is to store. Raises a 422."""
        # A retry begins with what was asked for, not with what was chosen for the attempt before.
        candidate = copied(obj)
        if base:
            candidate["metadata"]["name"] = metadata.generate_name(base)
        self._prepare_create(resource, candidate)
        return candidate, self.facts(resource, candidate)

    def _prepare_create(self, resource: Resource, obj: JsonObject) -> None:
        """Raises a 422."""
        strategy = resource.strategy
        strategy.default(obj)
        strategy.prepare_create(obj)
        name = obj["metadata"].get("name", "")
        errors = validate_metadata(obj, resource)
        errors += strategy.allocate(obj, None, self.store.is_claimed)
        errors += strategy.validate(obj)
        if errors:
            raise invalid(resource.group, resource.kind, name, errors)

    def _prepare_update(self, resource: Resource, new: JsonObject, old: JsonObject, subresource: str) -> JsonObject:
        """Raises a 422."""
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
        new["apiVersion"], new["kind"] = resource.api_version, resource.kind
        # Hooks change objects in place, and what they were given may be a part of `old`.
        new = copied(new)
        strategy = resource.strategy
        strategy.default(new)
        strategy.prepare_update(new, old, subresource)
        errors = strategy.allocate(new, old, self.store.is_claimed)
        errors += validate_metadata(new, resource)
        errors += validate_metadata_update(new, old, resource)
        errors += strategy.validate(new)
        errors += strategy.validate_update(new, old, subresource)
        errors += self.admission.check_update(resource, new, old)
        if errors:
            raise invalid(resource.group, resource.kind, old["metadata"]["name"], errors)
        metadata.count_generation(new, old, resource)
        return new

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
    """Raises a 400."""
    if given != on_url:
        raise bad_request(f"the name of the object ({given}) does not match the name on the URL ({on_url})")


def _with_status_only(new: JsonObject, old: JsonObject) -> JsonObject:
    """The status endpoint changes the status and, of the metadata, what its writers keep there."""
    meta, before = dict(new["metadata"]), old["metadata"]
    if old.get("kind") not in ("Pod", "Node"):
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
