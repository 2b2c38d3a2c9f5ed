"""Admission of pods by their service account: its existence, its token's volume, its image pull secrets.

Source: Kubernetes admission plug-in ServiceAccount.
"""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bridgehead.apiserver.errors import forbidden
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import references
from bridgehead.apiserver.resources.shared.generated_names import random_suffix
from bridgehead.objects.critical_pods import MIRROR_POD
from bridgehead.storage import Key, Record, Store, TooOld

from .attributes import CREATE, Attributes, shown_name
from .chain import Plugin
from .namespace_lifecycle import check_namespace

_TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3607  # as in Kubernetes (WarnOnlyBoundTokenExpirationPeriod)
_VOLUME_PREFIX = "kube-api-access-"
# A controller creates the `default` account of a new namespace. A pod that is created first waits this long for it.
_DEFAULT_ACCOUNT_SECONDS = 2.0

_decode = msgspec.json.decode


class ServiceAccounts(Plugin):
    """The plug-in ServiceAccount."""

    is_static = True

    def __init__(self, store: Store) -> None:
        self._store = store

    def handles(self, attributes: Attributes) -> bool:
        return attributes.operation == CREATE and attributes.resource.id == "pods" and not attributes.subresource

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        spec, resource, namespace = obj.setdefault("spec", {}), attributes.resource, attributes.namespace
        if MIRROR_POD in obj["metadata"].get("annotations", {}):
            # A mirror pod describes what runs already, so nothing is added to it.
            if why := _refuse_mirror(spec):
                raise forbidden(resource, shown_name(obj), why)
            return obj
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or "default"
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        record = await self._account(namespace, name)
        check_namespace(self._store, attributes, obj)  # again, because waiting for the account takes time
        if record is None:
            why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
            raise forbidden(resource, shown_name(obj), why)
        account = _decode(record.value)
        wanted = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
        if wanted:
            mount_token(spec)
        if account.get("imagePullSecrets") and not spec.get("imagePullSecrets"):
            spec["imagePullSecrets"] = account["imagePullSecrets"]
        return obj

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
