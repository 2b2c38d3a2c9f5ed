"""The annotation in which client-side `kubectl apply` keeps what it applied last.

An object that kubectl managed by client-side apply goes over to server-side apply without conflicts: fields that still
have the annotation's values were kubectl's. The annotation is kept up to date as long as it is there.

Pure: no I/O, no clock, no randomness.
Source: apimachinery/pkg/util/managedfields/internal: lastapplied.go, lastappliedmanager.go, lastappliedupdater.go.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from bridgehead.apiserver.go_json import check_depth

from .applied_configuration import check, field_set
from .comparing import compare
from .errors import BadConfiguration
from .fieldset import EMPTY, FieldSet, difference
from .managers import Kind

ANNOTATION = "kubectl.kubernetes.io/last-applied-configuration"
# kubectl's default field manager for apply.
KUBECTL = "kubectl"
# Bytes of all annotations together (TotalAnnotationSizeLimitB).
_MAX_ANNOTATIONS = 256 * 1024


def allowed_conflicts(live: dict[str, Any], kind: Kind) -> FieldSet:
    """Return the paths that client-side apply set and that still have the values it set."""
    text = _annotations(live).get(ANNOTATION)
    if not text:
        return EMPTY
    try:
        check_depth(text.encode())
        last = msgspec.json.decode(text)
        if not isinstance(last, dict) or last.get("apiVersion") != kind.api_version:
            return EMPTY
        check(last, kind.root)
    except (msgspec.DecodeError, RecursionError, BadConfiguration):
        return EMPTY
    compared = compare(last, live, kind.root)
    return difference(difference(field_set(last, kind.root), compared.changed), compared.removed)


def with_last_applied(obj: dict[str, Any], configuration: dict[str, Any]) -> dict[str, Any]:
    """Return the object with the annotation up to date, if it has the annotation."""
    annotations = _annotations(obj)
    if not annotations.get(ANNOTATION):
        return obj
    meta = dict(configuration.get("metadata") or {})
    if "annotations" in meta:
        meta["annotations"] = {name: text for name, text in _annotations(configuration).items() if name != ANNOTATION}
    text = json.dumps({**configuration, "metadata": meta}, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    updated = {**annotations, ANNOTATION: text + "\n"}
    if sum(len(name.encode()) + len(str(value).encode()) for name, value in updated.items()) > _MAX_ANNOTATIONS:
        del updated[ANNOTATION]
    return {**obj, "metadata": {**obj["metadata"], "annotations": updated}}


def _annotations(obj: dict[str, Any]) -> dict[str, Any]:
    found = (obj.get("metadata") or {}).get("annotations")
    return found if isinstance(found, dict) else {}
