"""`matchLabelKeys` and `mismatchLabelKeys`: selectors that depend on the labels of the pod itself.

`merge_label_keys` adds a pod's own values to its selectors when it is created. Templates keep only the keys.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `mutatePodAffinity`, `mutateTopologySpreadConstraints`,
`validateMatchLabelKeysAndMismatchLabelKeys`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
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


def validate_label_keys(owner: Field) -> None:
    """Validate both lists of an affinity term or of a spread constraint."""
    match, mismatch = owner.at("matchLabelKeys", ()), owner.at("mismatchLabelKeys", ())
    if not match and not mismatch:
        return
    _validate_keys(match, owner)
    _validate_keys(mismatch, owner)
    _validate_unselected(match, owner)
    excluded = set(mismatch.value)
    for key in match.each():
        key.must_not_be_in(excluded, "exists in both matchLabelKeys and mismatchLabelKeys")


def _validate_keys(keys: Field, owner: Field) -> None:
    if keys and "labelSelector" not in owner.value:
        keys.forbidden("must not be specified when labelSelector is not set")
        return
    keys.must_all_pass(check_qualified_name)


def _validate_unselected(keys: Field, owner: Field) -> None:
    """Validate that the selector itself does not have the keys; `merge_label_keys` has added each once.

    The paths of the errors lack the name of the list, as in Kubernetes.
    """
    index_of = {key: index for index, key in enumerate(keys.value)}
    selector = owner.get("labelSelector", {})
    seen = set(selector.get("matchLabels", ()))
    for requirement in selector.get("matchExpressions", ()):
        key = requirement.get("key", "")
        if key in index_of and key in seen:
            Field(key, index_of[key], owner).invalid("exists in both matchLabelKeys and labelSelector")
        seen.add(key)
