"""APIServices for the APIs that this server serves itself: Kubernetes' own groups, and those of custom resources.

Own groups get their object at the start, as Kubernetes registers them; those of custom resources come and go with them.
Source: kube-aggregator `autoregister_controller.go`, pkg/controlplane/apiserver/aggregator.go, crdregistration.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.handlers.discovery import REVIEWS
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.registry.registry import Registry
from bridgehead.apiserver.registry.write import Write
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.resources import apiservices
from bridgehead.storage import Key, StorageError

log = logging.getLogger(__name__)

RESOURCE = apiservices.RESOURCE
LABEL = "kube-aggregator.kubernetes.io/automanaged"
_ON_START, _ALWAYS = "onstart", "true"

# Groups in the order of preference among clients: the highest one wins where names collide.
_GROUP_PRIORITIES = {
    "": 18000,
    "apps": 17800,
    "events.k8s.io": 17750,
    "authentication.k8s.io": 17700,
    "authorization.k8s.io": 17600,
    "autoscaling": 17500,
    "batch": 17400,
    "certificates.k8s.io": 17300,
    "networking.k8s.io": 17200,
    "policy": 17100,
    "rbac.authorization.k8s.io": 17000,
    "storage.k8s.io": 16800,
    "apiextensions.k8s.io": 16700,
    "admissionregistration.k8s.io": 16700,
    "scheduling.k8s.io": 16600,
    "coordination.k8s.io": 16500,
    "node.k8s.io": 16300,
    "discovery.k8s.io": 16200,
    "flowcontrol.apiserver.k8s.io": 16100,
    "internal.apiserver.k8s.io": 16000,
    "resource.k8s.io": 15900,
    "storagemigration.k8s.io": 15800,
}
_VERSION_PRIORITIES = {("", "v1"): 1, ("flowcontrol.apiserver.k8s.io", "v1"): 21}
_VERSION_PRIORITY = 15
_CUSTOM_PRIORITIES = 1000, 100


def wanted(table: Iterable[Resource]) -> dict[str, JsonObject]:
    """Return the APIServices of a table, by name, as they are created."""
    found: dict[str, JsonObject] = {}
    own = {(group, version) for group, version, *_ in REVIEWS}
    custom: set[tuple[str, str]] = set()
    for resource in table:
        (own if resource.definition is None else custom).add((resource.group, resource.version))
    for group, version in sorted(own):
        if group in _GROUP_PRIORITIES:
            priorities = _GROUP_PRIORITIES[group], _VERSION_PRIORITIES.get((group, version), _VERSION_PRIORITY)
            found[f"{version}.{group}"] = _local(group, version, priorities, _ON_START)
    for group, version in sorted(custom - own):
        found[f"{version}.{group}"] = _local(group, version, _CUSTOM_PRIORITIES, _ALWAYS)
    return found


def _local(group: str, version: str, priorities: tuple[int, int], managed: str) -> JsonObject:
    spec: JsonObject = {"version": version, "groupPriorityMinimum": priorities[0], "versionPriority": priorities[1]}
    if group:
        spec["group"] = group
    return {"metadata": {"name": f"{version}.{group}", "labels": {LABEL: managed}}, "spec": spec}


class LocalApis:
    """Keeps the APIServices of local APIs."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def sync(self, *, starts: bool) -> None:
        """Create, correct and remove APIServices. `starts`: also those that are only registered at the start."""
        services = wanted(self._registry.table)
        stored = {
            record.key.name: managed
            for record in self._registry.store.list(RESOURCE.id)
            if (managed := record.facts.labels.get(LABEL)) is not None
        }
        for name, obj in services.items():
            if starts or obj["metadata"]["labels"][LABEL] == _ALWAYS:
                await self._ensure(name, obj)
        for name, managed in stored.items():
            if name not in services and (starts or managed == _ALWAYS):
                await self._remove(name)

    async def _ensure(self, name: str, obj: JsonObject) -> None:
        record = self._registry.store.get(Key(RESOURCE.id, "", name))
        try:
            if record is None:
                await self._registry.create(Write(RESOURCE), obj)
            elif record.facts.labels.get(LABEL) is not None and not _agrees(record.value, obj):
                await self._registry.update(Write(RESOURCE, "", name), lambda old: {**old, "spec": obj["spec"]})
        except (ApiStatus, StorageError) as error:
            if not _is_written_by_others(error):
                log.warning("cannot register the APIService %s: %s", name, error)

    async def _remove(self, name: str) -> None:
        try:
            await self._registry.delete(Write(RESOURCE, "", name), DeleteOptions())
        except (ApiStatus, StorageError) as error:
            log.warning("cannot remove the APIService %s: %s", name, error)


def _is_written_by_others(error: Exception) -> bool:
    """Return whether another API server on the same store wrote the object meanwhile."""
    return isinstance(error, ApiStatus) and error.reason in ("AlreadyExists", "Conflict")


def _agrees(stored: bytes, obj: Mapping[str, JsonObject]) -> bool:
    return bool(msgspec.json.decode(stored).get("spec") == obj["spec"])
