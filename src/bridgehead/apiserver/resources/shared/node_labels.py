"""Warnings of labels of nodes that have other names now.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/api/node/util.go`, `betaToGALabel`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.apiserver.resource import JsonObject


class _Rename(NamedTuple):
    release: str
    name: str


_RENAMED = {
    "beta.kubernetes.io/arch": _Rename("v1.14", "kubernetes.io/arch"),
    "beta.kubernetes.io/os": _Rename("v1.14", "kubernetes.io/os"),
    "failure-domain.beta.kubernetes.io/region": _Rename("v1.17", "topology.kubernetes.io/region"),
    "failure-domain.beta.kubernetes.io/zone": _Rename("v1.17", "topology.kubernetes.io/zone"),
    "beta.kubernetes.io/instance-type": _Rename("v1.17", "node.kubernetes.io/instance-type"),
}


def newer_name(label: str) -> str:
    """Return the newer name of a label, "" if it has none."""
    return _RENAMED[label].name if label in _RENAMED else ""


def warn_of_label(path: str, label: str) -> list[str]:
    return [f"{path}: {_describe(label)}"] if label in _RENAMED else []


def warn_of_key(path: str, key: str) -> list[str]:
    """Return a warning about the key at `path` of a rule for nodes."""
    return [f"{path}: {key} is {_describe(key)}"] if key in _RENAMED else []


def warn_of_expressions(path: str, expressions: Iterable[JsonObject]) -> list[str]:
    """Return warnings about the `matchExpressions` at `path` of a selector."""
    return [
        warning
        for index, expression in enumerate(expressions)
        for warning in warn_of_key(f"{path}.matchExpressions[{index}].key", expression.get("key", ""))
    ]


def _describe(label: str) -> str:
    release, name = _RENAMED[label]
    return f'deprecated since {release}; use "{name}" instead'
