"""Admission: rules that depend on other objects, such as the namespace or a pod's service account.

Runs before a resource's own hooks.
Source: Kubernetes admission plug-ins NamespaceLifecycle and ServiceAccount.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bridgehead.apiserver.errors import forbidden, not_found_named
from bridgehead.apiserver.resource import FieldError, JsonObject, Resource
from bridgehead.apiserver.resources.pods import MIRROR_POD, references
from bridgehead.apiserver.resources.priorityclasses import SYSTEM_CLASSES
from bridgehead.storage import Key, Record, Store, TooOld

from .class_admission import (
    apply_runtime_class,
    check_priority_class,
    set_ingress_class,
    set_priority,
    set_storage_class,
)
from .metadata import random_suffix
from .node_addresses import check_node_addresses

UNDELETABLE_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607  # as in Kubernetes (WarnOnlyBoundTokenExpirationPeriod)
_VOLUME_PREFIX = "kube-api-access-"
# A controller creates the `default` account of a new namespace. A pod that is created first waits this long for it.
_DEFAULT_ACCOUNT_SECONDS = 2.0

_decode = msgspec.json.decode


class Admission:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit_create(self, resource: Resource, namespace: str, obj: JsonObject) -> bool:
        """Check and complete a new object; return whether anything may have been added. Raises a 403 or a 404."""
        if resource.namespaced:
            self._check_namespace(resource, namespace, obj)
        match resource.id:
            case "pods":
                await self._add_service_account(resource, namespace, obj)
                apply_runtime_class(self._store, resource, obj)
                set_priority(self._store, resource, obj)
            case "ingresses.networking.k8s.io":
                set_ingress_class(self._store, obj)
            case "persistentvolumeclaims":
                set_storage_class(self._store, obj)
            case "priorityclasses.scheduling.k8s.io":
                check_priority_class(self._store, resource, obj)
                return False
            case _:
                return False
        return True

    def check_update(self, resource: Resource, new: JsonObject, old: JsonObject) -> list[FieldError]:
        """Return the errors of an otherwise valid change that are due to other objects. Raises a 403."""
        if resource.id == "priorityclasses.scheduling.k8s.io":
            check_priority_class(self._store, resource, new)
        return check_node_addresses(self._store, new, old) if resource.id == "services" else []

    def admit_delete(self, resource: Resource, name: str) -> None:
        if resource.id == "namespaces" and name in UNDELETABLE_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")
        if resource.id == "priorityclasses.scheduling.k8s.io" and name in SYSTEM_CLASSES:
            raise forbidden(resource, name, "this is a system priority class and cannot be deleted")

    def _check_namespace(self, resource: Resource, namespace: str, obj: JsonObject) -> None:
        record = self._store.get(Key("namespaces", "", namespace))
        if record is None:
            raise not_found_named("namespaces", "", namespace)
        # `status.phase` is among the facts, but only the deletion timestamp is authoritative.
        if b'"deletionTimestamp"' in record.value and "deletionTimestamp" in _decode(record.value)["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            metadata = obj["metadata"]
            raise forbidden(resource, metadata.get("name") or metadata.get("generateName", ""), why, [cause])

    async def _add_service_account(self, resource: Resource, namespace: str, pod: JsonObject) -> None:
        spec, metadata = pod.setdefault("spec", {}), pod["metadata"]
        if MIRROR_POD in metadata.get("annotations", {}):
            # A mirror pod describes what runs already, so nothing is added to it.
            if why := _refuse_mirror(spec):
                raise forbidden(resource, metadata.get("name") or metadata.get("generateName", ""), why)
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        record = await self._account(namespace, name)
        self._check_namespace(resource, namespace, pod)  # again, because waiting for the account takes time
        if record is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(resource, metadata.get("name") or metadata.get("generateName", ""), why)
        account = _decode(record.value)
        wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
        if wanted:
            mount_token(spec)
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]

    async def _account(self, namespace: str, name: str) -> Record | None:
        key = Key("serviceaccounts", namespace, name)
        record = self._store.get(key)
        if record is not None or name != "default":
            return record
        try:
            watch = self._store.watch("serviceaccounts", namespace, since=self._store.revision)
        except TooOld:
            return None
        try:
            async with asyncio.timeout(_DEFAULT_ACCOUNT_SECONDS):
                async for _ in watch:
                    record = self._store.get(key)
                    if record is not None:
                        return record
        except TimeoutError:
            return None
        finally:
            watch.close()
        return None


def _refuse_mirror(spec: JsonObject) -> str:
    """Return the reason why a mirror pod may not have this spec, or ""."""
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if any(kind == "secret" for kind, _ in references(spec)):
        return "a mirror pod may not reference secrets"
    sources = (s for volume in spec.get("volumes", ()) for s in volume.get("projected", {}).get("sources", ()))
    if any("serviceAccountToken" in source for source in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def mount_token(spec: JsonObject) -> None:
    """Mount token, CA certificate and namespace into every container that mounts nothing else there."""
    containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
    bare = [
        container
        for container in containers
        if all(mount.get("mountPath") != _TOKEN_PATH for mount in container.get("volumeMounts", ()))
    ]
    if not bare:
        return
    volumes: list[Any] = spec.setdefault("volumes", [])
    name = next((v["name"] for v in volumes if v.get("name", "").startswith(_VOLUME_PREFIX)), "")
    if not name:
        name = _VOLUME_PREFIX + random_suffix()
        volumes.append(_token_volume(name))
    for container in bare:
        container.setdefault("volumeMounts", []).append({"name": name, "mountPath": _TOKEN_PATH, "readOnly": True})


def _token_volume(name: str) -> JsonObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "name": name,
        "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [namespace]}},
            ],
            "defaultMode": 0o644,
        },
    }
