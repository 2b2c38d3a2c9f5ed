"""The policy for groups of the Kubernetes community: a definition in one of them needs an annotation.

Pure: no I/O, no clock, no randomness. Source: apiextensions-apiserver/pkg/apihelpers, pkg/controller/apiapproval.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import urlsplit

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

from .definitions import API_APPROVED, make_condition

ANNOTATION = "api-approved.kubernetes.io"
_SEE = "see https://github.com/kubernetes/enhancements/pull/1111"

APPROVED, BYPASSED, MISSING, INVALID = (
    "ApprovedAnnotation",
    "UnapprovedAnnotation",
    "MissingAnnotation",
    "InvalidAnnotation",
)


def is_protected(group: str) -> bool:
    return any(group == owner or group.endswith(f".{owner}") for owner in ("k8s.io", "kubernetes.io"))


def approval_of(annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return the state of the approval, which is the condition's reason, and the text that explains it."""
    value = annotations.get(ANNOTATION, "")
    if not value:
        return MISSING, f'protected groups must have approval annotation "{ANNOTATION}", {_SEE}'
    if value.startswith("unapproved"):
        return BYPASSED, f"not approved: {json.dumps(value, ensure_ascii=False)}"
    if _is_url(value):
        return APPROVED, f"approved in {value}"
    expected = 'with either a URL or a reason starting with "unapproved"'
    return INVALID, f'protected groups must have approval annotation "{ANNOTATION}" {expected}, {_SEE}'


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(parts.scheme and parts.hostname)
    except ValueError:
        return False


def approval_condition(crd: JsonObject) -> JsonObject | None:
    """Return the condition of a definition, None for a group that is not protected."""
    if not is_protected(crd["spec"].get("group", "")):
        return None
    state, text = approval_of(crd["metadata"].get("annotations") or {})
    return make_condition(API_APPROVED, is_true=state == APPROVED, reason=state, message=text)


def validate_approval(crd: Field, old: JsonObject | None) -> None:
    """Validate the annotation of a new definition, or the change of one that was approved."""
    if not is_protected(crd.at("spec").get("group", "")):
        return
    annotations = crd.at("metadata").at("annotations")
    state, text = approval_of(annotations.value or {})
    # Definitions from before the policy may stay as they are.
    if old is not None and approval_of(old["metadata"].get("annotations") or {})[0] == state:
        return
    approval = annotations.entry(ANNOTATION)
    if state == INVALID:
        approval.invalid(text)
    if state == MISSING:
        approval.required(text)
