"""Relations of objects to nodes: which objects the pods of a node use.

    node <- pod <- ConfigMap, Secret, ServiceAccount, PersistentVolumeClaim, ResourceClaim
    node <- pod <- PersistentVolumeClaim <- PersistentVolume <- Secret
    node <- VolumeAttachment, ResourceSlice

A mirror pod is related to its node only: the node creates it itself, and it must give the node no rights.
Source: plugin/pkg/auth/authorizer/node/graph.go, pkg/api/v1/persistentvolume (VisitPVSecretNames).
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.pods import references
from bridgehead.objects.critical_pods import MIRROR_POD
from bridgehead.storage import Key, Store

# Sources of PersistentVolumes with a Secret that the kubelet reads, in the claim's namespace unless they name another.
_SECRET_SOURCES = ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")


class NodeRelations:
    """Finds relations in the store. Names of resources are those of its keys."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def has(self, node: str, key: Key) -> bool:
        """Whether an object is related to a node."""
        match key.resource:
            case "pods":
                record = self._store.get(key)
                return record is not None and record.facts.fields.get("spec.nodeName") == node
            case "persistentvolumes":
                return self._has_volume(node, self._read(key))
            case "volumeattachments.storage.k8s.io" | "resourceslices.resource.k8s.io":
                found = self._read(key)
                return found is not None and found.get("spec", {}).get("nodeName", "") == node
            case "secrets":
                return self._is_used(node, key) or any(
                    self._has_volume(node, volume)
                    for volume in self._volumes(key.name)
                    if (key.namespace, key.name) in volume_secrets(volume)
                )
        return self._is_used(node, key)

    def _is_used(self, node: str, key: Key) -> bool:
        """Whether a pod of the node uses the object."""
        return any(key.name in _used_names(pod, key.resource) for pod in self._pods(node, key.namespace))

    def _has_volume(self, node: str, volume: JsonObject | None) -> bool:
        claim = (volume or {}).get("spec", {}).get("claimRef") or {}
        key = Key("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
        return bool(claim) and self._is_used(node, key)

    def _pods(self, node: str, namespace: str) -> Iterator[JsonObject]:
        """Yield the node's pods but mirror pods."""
        for record in self._store.list("pods", namespace):
            if record.facts.fields.get("spec.nodeName") == node:
                pod = msgspec.json.decode(record.value)
                if MIRROR_POD not in pod["metadata"].get("annotations", {}):
                    yield pod

    def _volumes(self, text: str) -> Iterator[JsonObject]:
        """Yield the PersistentVolumes in whose JSON a name occurs: decoding all would take long."""
        wanted = text.encode()
        return (msgspec.json.decode(one.value) for one in self._store.list("persistentvolumes") if wanted in one.value)

    def _read(self, key: Key) -> JsonObject | None:
        record = self._store.get(key)
        return None if record is None else msgspec.json.decode(record.value)


def _used_names(pod: JsonObject, resource: str) -> set[str]:
    """Return the names of a resource's objects that a pod uses, all in the pod's namespace."""
    spec = pod.get("spec", {})
    match resource:
        case "serviceaccounts":
            return {spec.get("serviceAccountName", "")}
        case "persistentvolumeclaims":
            return volume_claims(pod)
        case "resourceclaims.resource.k8s.io":
            return resource_claims(pod)
    return {name for kind, name in references(spec) if f"{kind}s" == resource}


def volume_claims(pod: JsonObject) -> set[str]:
    """Return the names of the PersistentVolumeClaims of a pod, also of those of its ephemeral volumes."""
    names = set()
    for volume in pod.get("spec", {}).get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.add(volume["persistentVolumeClaim"].get("claimName", ""))
        elif "ephemeral" in volume:
            names.add(f"{pod['metadata']['name']}-{volume['name']}")
    return names


def resource_claims(pod: JsonObject) -> set[str]:
    """Return the names of the ResourceClaims of a pod, but not of those that do not exist yet."""
    status = pod.get("status", {})
    created = {one["name"]: one.get("resourceClaimName", "") for one in status.get("resourceClaimStatuses") or ()}
    claims = pod.get("spec", {}).get("resourceClaims") or ()
    names = {claim.get("resourceClaimName") or created.get(claim["name"], "") for claim in claims}
    names.add((status.get("extendedResourceClaimStatus") or {}).get("resourceClaimName", ""))
    return names - {""}


def volume_secrets(volume: JsonObject) -> set[tuple[str, str]]:
    """Return namespace and name of the Secrets of a PersistentVolume that the kubelet reads."""
    spec = volume.get("spec", {})
    own_namespace = (spec.get("claimRef") or {}).get("namespace", "")
    secrets = [spec[source]["secretRef"] for source in _SECRET_SOURCES if spec.get(source, {}).get("secretRef")]
    csi = spec.get("csi") or {}
    secrets += [csi[name] for name in ("nodePublishSecretRef", "nodeStageSecretRef") if csi.get(name)]
    azure = spec.get("azureFile") or {}
    secrets.append({"namespace": azure.get("secretNamespace"), "name": azure.get("secretName")})
    return {(one.get("namespace") or own_namespace, one["name"]) for one in secrets if one.get("name")}
