"""The default roles and bindings: what is missing is created at each start, and what lacks rights gets them.

Rights and subjects that users added stay, and objects with the annotation
`rbac.authorization.kubernetes.io/autoupdate: "false"` are left alone. The first start writes about 140 objects, in one
commit. Source: Kubernetes pkg/registry/rbac/rest/storage_rbac.go.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import msgspec

from bridgehead.apiserver.bodies.nulls import decode_stored, nulls_of, write_nulls
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources import rbac
from bridgehead.objects.times import format_time
from bridgehead.storage import AlreadyExists, Create

from . import metadata
from .deletion import DeleteOptions
from .managed_fields import FIELD
from .registry import Registry
from .write import Write

log = logging.getLogger(__name__)

_RESOURCES = {one.kind: one for one in (rbac.CLUSTER_ROLES, rbac.ROLES, rbac.CLUSTER_ROLE_BINDINGS, rbac.ROLE_BINDINGS)}
# A write fails only when another server on the same store writes the same object.
_ATTEMPTS = 3


async def ensure_default_roles(registry: Registry) -> None:
    """Bring all default objects to what they should be. Raises `ApiStatus`."""
    # Imported here because they are used once, at the start.
    from bridgehead.apiserver.resources.rbac.defaults import default_objects

    missing: list[tuple[Resource, JsonObject]] = []
    for expected in default_objects():
        resource = registry.find(rbac.GROUP, "v1", _RESOURCES[expected["kind"]].plural)
        if resource is None:
            continue
        existing = _read(registry, resource, expected)
        if existing is None:
            missing.append((resource, expected))
        elif _is_to_be_changed(existing, expected):
            await _ensure(registry, resource, expected)
    if missing:
        try:
            await _create_all(registry, missing)
        except AlreadyExists:  # another server on the same store was first
            for resource, expected in missing:
                await _ensure(registry, resource, expected)


async def _create_all(registry: Registry, missing: list[tuple[Resource, JsonObject]]) -> None:
    """Create valid objects at the same time, so that they share a commit. Raises `AlreadyExists` when one is there."""
    now = format_time(registry.clock())
    writes = [_new(registry, resource, obj, now) for resource, obj in missing]
    await asyncio.gather(*(registry.store.create(write.key, write.value, write.facts) for write in writes))


def _new(registry: Registry, resource: Resource, obj: JsonObject, now: str) -> Create:
    meta = obj["metadata"]
    entries = registry.ownership.created(Write(resource), obj, None, now)
    metadata.identify(obj, now)
    meta[FIELD] = entries
    key = registry.key(resource, meta.get("namespace", ""), meta["name"])
    facts, stored = registry.facts(resource, obj), dict(obj)
    write_nulls(stored, nulls_of(resource))
    return Create(key, stored, facts)


def _is_to_be_changed(existing: JsonObject, expected: JsonObject) -> bool:
    from bridgehead.apiserver.resources.rbac import reconciliation

    if reconciliation.is_protected(existing):
        return False
    return (
        reconciliation.needs_recreation(existing, expected) or reconciliation.reconciled(existing, expected) != existing
    )


async def _ensure(registry: Registry, resource: Resource, expected: JsonObject) -> None:
    from bridgehead.apiserver.resources.rbac import reconciliation

    namespace, name = expected["metadata"].get("namespace", ""), expected["metadata"]["name"]
    for attempt in range(_ATTEMPTS):
        existing = _read(registry, resource, expected)
        try:
            if existing is not None and not _is_to_be_changed(existing, expected):
                return
            if existing is not None and not reconciliation.needs_recreation(existing, expected):
                change = partial(reconciliation.reconciled, expected=expected)
                await registry.update(Write(resource, namespace, name), change)
                log.info("updated the default %s %s", resource.kind, name)
                return
            if existing is not None:
                await registry.delete(Write(resource, namespace, name), DeleteOptions(uid=existing["metadata"]["uid"]))
                log.info("recreated the default %s %s: it referred to another role", resource.kind, name)
            await registry.create(Write(resource, namespace), msgspec.json.decode(msgspec.json.encode(expected)))
            return
        except ApiStatus as status:
            if status.code not in (404, 409) or attempt == _ATTEMPTS - 1:
                raise


def _read(registry: Registry, resource: Resource, expected: JsonObject) -> JsonObject | None:
    metadata = expected["metadata"]
    record = registry.store.get(registry.key(resource, metadata.get("namespace", ""), metadata["name"]))
    return None if record is None else decode_stored(resource, record.value)
