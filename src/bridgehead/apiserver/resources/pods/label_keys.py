"""`matchLabelKeys` and `mismatchLabelKeys`: selectors that depend on the labels of the pod itself.

`merge_label_keys` adds a pod's own values to its selectors when it is created. Templates keep only the keys.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `mutatePodAffinity`, `mutateTopologySpreadConstraints`,
`validateMatchLabelKeysAndMismatchLabelKeys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_qualified_name

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = {"matchLabelKeys": "In", "mismatchLabelKeys": "NotIn"}


def merge_label_keys(spec: JsonObject, labels: Mapping[str, str]) -> None:
    """Add the values of the pod's labels to the selectors of its affinity terms and spread constraints."""
    for term in _terms(spec.get("affinity", {})):
        for keys in _OPERATORS:
            _merge(term, keys, labels)
    for constraint in spec.get("topologySpreadConstraints", ()):
        _merge(constraint, "matchLabelKeys", labels)


def _terms(affinity: JsonObject) -> Iterator[JsonObject]:
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            yield from affinity[kind].get(_REQUIRED, ())
            yield from (one.get("podAffinityTerm", {}) for one in affinity[kind].get(_PREFERRED, ()))


def _merge(owner: JsonObject, keys: str, labels: Mapping[str, str]) -> None:
    # An absent selector matches nothing, and stays so.
    if keys not in owner or "labelSelector" not in owner:
        return
    added = [
        {"key": key, "operator": _OPERATORS[keys], "values": [labels[key]]} for key in owner[keys] if key in labels
    ]
    if added:
        owner["labelSelector"].setdefault("matchExpressions", []).extend(added)


def validate_label_keys(path: str, owner: JsonObject) -> list[FieldError]:
    """Validate both lists of an affinity term or of a spread constraint."""
    match, mismatch = owner.get("matchLabelKeys", ()), owner.get("mismatchLabelKeys", ())
    if not match and not mismatch:
        return []
    selector = owner.get("labelSelector")
    errors = _validate_keys(f"{path}.matchLabelKeys", match, selector)
    errors += _validate_keys(f"{path}.mismatchLabelKeys", mismatch, selector)
    errors += _validate_unselected(path, match, selector)
    excluded = set(mismatch)
    for index, key in enumerate(match):
        if key in excluded:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.append(field.invalid(f"{path}.matchLabelKeys[{index}]", key, detail))
    return errors


def _validate_keys(path: str, keys: Sequence[str], selector: JsonObject | None) -> list[FieldError]:
    if not keys:
        return []
    if selector is None:
        return [field.forbidden(path, "must not be specified when labelSelector is not set")]
    return [
        error
        for index, key in enumerate(keys)
        for error in field.invalid_for(f"{path}[{index}]", key, check_qualified_name(key))
    ]


def _validate_unselected(path: str, keys: Sequence[str], selector: JsonObject | None) -> list[FieldError]:
    """Validate that the selector itself does not have the keys; `merge_label_keys` has added each once.

    The paths of the errors lack the name of the list, as in Kubernetes.
    """
    if selector is None:
        return []
    errors = []
    index_of = {key: index for index, key in enumerate(keys)}
    seen = set(selector.get("matchLabels", ()))
    for requirement in selector.get("matchExpressions", ()):
        key = requirement.get("key", "")
        if key in index_of and key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            errors.append(field.invalid(f"{path}[{index_of[key]}]", key, detail))
        seen.add(key)
    return errors
