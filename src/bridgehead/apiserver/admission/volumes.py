"""Admission of claims and volumes: protection of those that are used, expansion, times of phases.

Source: Kubernetes admission plug-ins StorageObjectInUseProtection and PersistentVolumeClaimResize.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.apiserver.resources.shared.quantity_rules import amount_of
from bridgehead.apiserver.resources.storage import class_of
from bridgehead.objects.times import format_time
from bridgehead.storage import Key, Store

from .attributes import CREATE, UPDATE, Attributes
from .chain import Plugin

_CLAIMS = "persistentvolumeclaims"
_VOLUMES = "persistentvolumes"
_FINALIZERS = {_CLAIMS: "kubernetes.io/pvc-protection", _VOLUMES: "kubernetes.io/pv-protection"}
_CHANGED = "lastPhaseTransitionTime"
_NOT_EXPANDABLE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"
)


class StorageProtection(Plugin):
    """The plug-in StorageObjectInUseProtection: a finalizer that the protection controllers remove."""

    is_static = True

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == CREATE and attributes.resource.id in _FINALIZERS and not attributes.subresource

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        finalizers = obj["metadata"].setdefault("finalizers", [])
        if (finalizer := _FINALIZERS[attributes.resource.id]) not in finalizers:
            finalizers.append(finalizer)
        return obj


class ClaimResize(Plugin):
    """The plug-in PersistentVolumeClaimResize: only claims of a class that allows it may grow.

    The claim's own rules let only bound ones grow.
    """

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == UPDATE and attributes.resource.id == _CLAIMS and not attributes.subresource

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        size, before = (amount_of(at(one, "spec", "resources", "requests", "storage") or "0") for one in (obj, old))
        if size is None or before is None or size <= before:
            return
        name = class_of(obj)
        record = self._store.get(Key("storageclasses.storage.k8s.io", "", name)) if name else None
        allows = record is not None and msgspec.json.decode(record.value).get("allowVolumeExpansion")
        if not allows or name != class_of(old):
            raise forbidden(attributes.resource, attributes.name, _NOT_EXPANDABLE)


class VolumePhases(Plugin):
    """Sets when the phase of a volume changed; Kubernetes does it in the storage of the kind.

    `clock` returns seconds since the epoch.
    """

    is_static = True

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock

    def handles(self, attributes: Attributes) -> bool:
        return (
            attributes.operation == UPDATE and attributes.resource.id == _VOLUMES and attributes.subresource == "status"
        )

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        status, before = obj.get("status", {}), old.get("status", {})
        if status.get("phase") != before.get("phase") and status.get(_CHANGED) in (None, before.get(_CHANGED)):
            status[_CHANGED] = format_time(self._clock())
        return obj
