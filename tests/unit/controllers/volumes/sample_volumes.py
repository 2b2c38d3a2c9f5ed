"""Claims, volumes and classes for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.objects.core import Node, Pod
from bridgehead.objects.storage import PersistentVolume, PersistentVolumeClaim, StorageClass


def claim(name: str = "data", *, size: str = "1Gi", phase: str = "Pending", **spec: Any) -> PersistentVolumeClaim:
    """A claim of the class `fast`. `annotations` are its metadata's."""
    annotations = spec.pop("annotations", {})
    default = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "fast",
        "resources": {"requests": {"storage": size}},
    }
    metadata = {"name": name, "namespace": "n", "uid": f"uid-{name}", "annotations": annotations}
    return msgspec.convert(
        {"metadata": metadata, "spec": default | spec, "status": {"phase": phase}}, PersistentVolumeClaim
    )


def volume(name: str = "pv", *, size: str = "1Gi", phase: str = "Available", **spec: Any) -> PersistentVolume:
    """A volume of the class `fast`. `metadata` is added to its own."""
    metadata = {"name": name} | spec.pop("metadata", {})
    default = {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast", "capacity": {"storage": size}}
    return msgspec.convert({"metadata": metadata, "spec": default | spec, "status": {"phase": phase}}, PersistentVolume)


def reference(name: str = "data", uid: str | None = None) -> dict[str, str]:
    """The claimRef of a volume. `uid` None: that of `claim(name)`."""
    return {"namespace": "n", "name": name, "uid": f"uid-{name}" if uid is None else uid}


def on_node(name: str) -> dict[str, Any]:
    """The nodeAffinity of a volume of a node."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def on_host(name: str) -> dict[str, Any]:
    """A term of a class's allowedTopologies: one node."""
    return {"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": [name]}]}


def storage_class(provisioner: str = "example.com/disk", mode: str = "Immediate", **more: Any) -> StorageClass:
    fields = {"metadata": {"name": "fast"}, "provisioner": provisioner, "volumeBindingMode": mode, **more}
    return msgspec.convert(fields, StorageClass)


def node(name: str, **spec: Any) -> Node:
    metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, Node)


def pod_with(*claims: str) -> Pod:
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]
    volumes.append({"name": "tmp", "emptyDir": {}})
    return msgspec.convert({"metadata": {"name": "p", "namespace": "n"}, "spec": {"volumes": volumes}}, Pod)
