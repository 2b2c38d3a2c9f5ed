"""Admission of claims and volumes: protection of those that are used, and expansion.

Source: Kubernetes admission plug-ins StorageObjectInUseProtection and PersistentVolumeClaimResize.
"""

from __future__ import annotations

import msgspec

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.columns import at
from bridgehead.apiserver.resources.shared.quantities import amount_of
from bridgehead.apiserver.resources.storage import class_of
from bridgehead.storage import Key, Store

from .attributes import CREATE, UPDATE, Attributes
from .chain import Plugin

_CLAIMS = "persistentvolumeclaims"
_FINALIZERS = {_CLAIMS: "kubernetes.io/pvc-protection", "persistentvolumes": "kubernetes.io/pv-protection"}
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
