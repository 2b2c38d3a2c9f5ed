"""Static pods: pods of manifest files on a node. `mirror_pods` shows them in the API.

Pure: no I/O, no clock, no randomness. Called by `static_pods`. Source: kubelet's `config.applyDefaults`,
`tryDecodeSinglePod`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from bridgehead.kubelet.volumes.referenced_objects import references_of
from bridgehead.objects.core import Pod
from bridgehead.objects.critical_pods import CRITICAL_PRIORITY
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain
from bridgehead.objects.pod_resources import pod_limits, pod_requests

SOURCE: Final = "kubernetes.io/config.source"
HASH: Final = "kubernetes.io/config.hash"
_OF_FILE: Final = "file"

# Sources of volumes that need an object of the API, besides ConfigMaps and Secrets.
_REFERENCES: Final = {
    "csi": "csidrivers (via CSI volumes)",
    "persistentVolumeClaim": "persistentvolumeclaims",
    "ephemeral": "persistentvolumeclaims (via ephemeral volumes)",
}
_PROJECTED_REFERENCES: Final = {
    "serviceAccountToken": "serviceaccounts (via projected volumes)",
    "clusterTrustBundle": "clustertrustbundles",
    "podCertificate": "podcertificates",
}


class StaticPod(msgspec.Struct, frozen=True):
    """A pod of a manifest. `body` is what the mirror pod has, without its own annotation and owner."""

    pod: Pod
    body: dict[str, Any]

    @property
    def key(self) -> ObjectKey:
        return self.pod.key

    @property
    def uid(self) -> str:
        """A hash of node, file and content: another content is another pod."""
        return self.pod.metadata.uid


def parse_static_pod(manifest: object, path: str, node_name: str) -> StaticPod:
    """Return the pod of a manifest, decoded from JSON, on a node. Raises ValueError for what is no pod."""
    if not isinstance(manifest, dict) or manifest.get("kind") != "Pod" or manifest.get("apiVersion") != "v1":
        raise ValueError("it is not a Pod of v1")
    metadata, spec = manifest.get("metadata") or {}, manifest.get("spec") or {}
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        raise ValueError("metadata and spec are not objects")
    if not metadata.get("name"):
        raise ValueError("metadata.name: Required value")
    if not spec.get("containers"):
        raise ValueError("spec.containers: Required value")
    own_annotations, own_tolerations = metadata.get("annotations") or {}, spec.get("tolerations") or []
    if not isinstance(own_annotations, dict) or not isinstance(own_tolerations, list):
        raise ValueError("metadata.annotations is not an object, or spec.tolerations is not a list")
    name, namespace = f"{metadata['name']}-{node_name.lower()}", metadata.get("namespace") or "default"
    content = msgspec.json.encode([node_name, path, manifest], order="deterministic")
    uid = hashlib.md5(content, usedforsecurity=False).hexdigest()
    annotations = {**own_annotations, SOURCE: _OF_FILE, HASH: uid}
    tolerations = [*own_tolerations, {"operator": "Exists", "effect": "NoExecute"}]
    body = {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": metadata.get("labels") or {},
            "annotations": annotations,
        },
        "spec": {**spec, "nodeName": node_name, "tolerations": tolerations},
    }
    try:
        pod = msgspec.convert(body, Pod)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from error
    pod_requests(pod.spec), pod_limits(pod.spec)  # each quantity is parsed
    _check_names(pod)
    _check_references(pod, spec)
    return StaticPod(msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, uid=uid)), body)


def _check_names(pod: Pod) -> None:
    """Raise ValueError for an invalid name of the pod or in it: names are parts of paths on the node."""
    spec = pod.spec
    named = (("spec.containers", spec.init_containers + spec.containers), ("spec.volumes", spec.volumes))
    checked = [
        ("metadata.name", check_dns1123_subdomain(pod.metadata.name)),
        ("metadata.namespace", check_dns1123_label(pod.metadata.namespace)),
        *((f"{path}.name", check_dns1123_label(one.name)) for path, listed in named for one in listed),
    ]
    for path, errors in checked:
        if errors:
            raise ValueError(f"{path}: Invalid value: {errors[0]}")


def _check_references(pod: Pod, spec: Mapping[str, Any]) -> None:
    """Raise ValueError for a pod that needs an object of the API: a static pod runs without an API server.

    `spec` is the manifest's. Source: `podutil.HasAPIObjectReference`.
    """
    kinds = {reference.kind for reference in references_of(pod)}
    found = [
        *(["serviceaccounts"] if spec.get("serviceAccountName") or spec.get("serviceAccount") else []),
        *(["secrets"] if "Secret" in kinds else []),
        *(["configmaps"] if "ConfigMap" in kinds else []),
        *(["resourceclaims"] if spec.get("resourceClaims") else []),
        *(_REFERENCES[field] for volume in spec.get("volumes") or () for field in volume if field in _REFERENCES),
        *(
            _PROJECTED_REFERENCES[field]
            for volume in spec.get("volumes") or ()
            for source in (volume.get("projected") or {}).get("sources") or ()
            for field in source
            if field in _PROJECTED_REFERENCES
        ),
    ]
    if found:
        raise ValueError(f"static pods may not reference {found[0]}")


def is_static(pod: Pod) -> bool:
    """Whether the pod comes from a file of its node. For pods of the API server call `without_source` before."""
    return pod.metadata.annotations.get(SOURCE) == _OF_FILE


def is_critical(pod: Pod) -> bool:
    """Whether the pod is one without which the node or the cluster does not work. Source: kubelet's `IsCriticalPod`."""
    return is_static(pod) or (pod.spec.priority or 0) >= CRITICAL_PRIORITY


def without_source(pod: Pod) -> Pod:
    """Return a pod of the API server without the annotation that makes a static pod: its user may not choose it."""
    if SOURCE not in pod.metadata.annotations:
        return pod
    annotations = {name: value for name, value in pod.metadata.annotations.items() if name != SOURCE}
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, annotations=annotations))


def plan_changes(
    wanted: Mapping[str, StaticPod], running: Mapping[str, ObjectKey]
) -> tuple[list[str], list[StaticPod]]:
    """Return the uids of running static pods to stop, and the static pods to start.

    A pod starts when no pod of its name runs any more.
    """
    stop = [uid for uid in running if uid not in wanted]
    taken = set(running.values())
    start = []
    for uid, static in wanted.items():
        if uid not in running and static.key not in taken:
            start.append(static)
            taken.add(static.key)
    return stop, start
