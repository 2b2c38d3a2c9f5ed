"""The ConfigMaps and Secrets that a pod refers to.

The node authorizer and admission use it. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `VisitPodSecretNames`, `VisitPodConfigmapNames`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_SOURCES = {
    "configMap": ("configmap", "name"),
    "configMapRef": ("configmap", "name"),
    "configMapKeyRef": ("configmap", "name"),
    "secret": ("secret", "name"),
    "secretRef": ("secret", "name"),
    "secretKeyRef": ("secret", "name"),
    "nodePublishSecretRef": ("secret", "name"),
    "azureFile": ("secret", "secretName"),
}


def references(spec: Any) -> Iterator[tuple[str, str]]:
    """Yield ("configmap" or "secret", name) for each reference in a pod's spec."""
    if isinstance(spec, list):
        for item in spec:
            yield from references(item)
        return
    if not isinstance(spec, dict):
        return
    for field, value in spec.items():
        if field in _SOURCES and isinstance(value, dict):
            kind, key = _SOURCES[field]
            name = value.get("secretName") or value.get(key)
            if name:
                yield kind, name
        elif field == "imagePullSecrets" and isinstance(value, list):
            yield from (("secret", item["name"]) for item in value if item.get("name"))
        elif isinstance(value, dict | list):
            yield from references(value)
