"""What objects need from the objects around them: a namespace, a pod's service account, addresses that are not taken.

Runs before a resource's own hooks. Source: Kubernetes admission plug-ins NamespaceLifecycle, ServiceAccount and
Priority.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bridgehead.apiserver.errors import forbidden, not_found_named
from bridgehead.apiserver.resource import FieldError, JsonObject, Resource
from bridgehead.apiserver.resources.pod_references import MIRROR_POD, references
from bridgehead.storage import Key, Record, Store, TooOld

from .captured import check_captured
from .metadata import random_suffix

IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607  # an hour, and a little so that a refresh at 80 % is not on the hour
_VOLUME_PREFIX = "kube-api-access-"
# The `default` account of a new namespace is made by a controller: a pod right after it waits this long.
_DEFAULT_ACCOUNT_SECONDS = 2.0

_decode = msgspec.json.decode


class Admission:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def admit_create(self, resource: Resource, namespace: str, obj: JsonObject) -> None:
        """Raises a 403 or a 404; completes `obj`."""
        if resource.namespaced:
            self._check_namespace(resource, namespace, obj)
        if resource.id == "pods":
            await self._add_service_account(resource, namespace, obj)
            spec = obj["spec"]
            if "priorityClassName" not in spec:
                spec.setdefault("priority", 0)
                spec.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def check_update(self, resource: Resource, new: JsonObject, old: JsonObject) -> list[FieldError]:
        """What other objects have against a change that is fine by itself."""
        return check_captured(self._store, new, old) if resource.id == "services" else []

    def admit_delete(self, resource: Resource, name: str) -> None:
        if resource.id == "namespaces" and name in IMMORTAL_NAMESPACES:
            raise forbidden(resource, name, "this namespace may not be deleted")

    def _check_namespace(self, resource: Resource, namespace: str, obj: JsonObject) -> None:
        record = self._store.get(Key("namespaces", "", namespace))
        if record is None:
            raise not_found_named("namespaces", "", namespace)
        # The phase is among the facts, but only the object says it for certain.
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
            # It shows what runs already, and a change would make it something else.
            if why := _refuse_mirror(spec):
                raise forbidden(resource, metadata.get("name") or metadata.get("generateName", ""), why)
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        record = await self._account(namespace, name)
        self._check_namespace(resource, namespace, pod)  # once more: its account may have been waited for
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
    """Why no mirror pod may have this spec, or ""."""
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        return "a mirror pod may not reference service accounts"
    if any(kind == "secret" for kind, _ in references(spec)):
        return "a mirror pod may not reference secrets"
    sources = (s for volume in spec.get("volumes", ()) for s in volume.get("projected", {}).get("sources", ()))
    if any("serviceAccountToken" in source for source in sources):
        return "a mirror pod may not use ServiceAccountToken volume projections"
    return ""


def mount_token(spec: JsonObject) -> None:
    """Give every container that has nothing there the volume with token, CA certificate and namespace."""
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
            "defaultMode": 420,
        },
    }
