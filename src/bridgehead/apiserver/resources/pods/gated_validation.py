"""Changes of a pod that waits for its scheduling gates: it may be limited to fewer nodes.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateNodeSelectorMutation`,
`validateNodeAffinityMutation`.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LISTS = ("matchExpressions", "matchFields")


def validate_gated_changes(spec: JsonObject, old: JsonObject) -> list[FieldError]:
    """Validate changes of the node selector and of the node affinity. `old` has scheduling gates."""
    errors = []
    selector, before = spec.get("nodeSelector", {}), old.get("nodeSelector", {})
    if not before.items() <= selector.items():
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.append(field.invalid("spec.nodeSelector", selector, detail))
    return [*errors, *_validate_affinity(_required_terms(spec), _required_terms(old))]


def _required_terms(spec: JsonObject) -> list[JsonObject]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms: list[JsonObject] = affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    return terms


def _validate_affinity(terms: list[JsonObject], before: list[JsonObject]) -> list[FieldError]:
    """Validate that each term only gets more requirements. Terms are alternatives, so a new one would allow nodes."""
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    if not before:
        return []
    if len(terms) != len(before):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [field.invalid(path, [_as_go(term) for term in terms] or None, detail)]
    return [
        field.invalid(f"{path}[{index}]", _as_go(term), "only additions are allowed (no mutations or deletions)")
        for index, (term, was) in enumerate(zip(terms, before, strict=True))
        if not _has_only_additions(term, was)
    ]


def _has_only_additions(term: JsonObject, before: JsonObject) -> bool:
    if not any(before.get(name) for name in _LISTS):
        return not any(term.get(name) for name in _LISTS)  # an empty term matches no node
    return all(term.get(name, [])[: len(before.get(name, []))] == before.get(name, []) for name in _LISTS)


def _as_go(term: JsonObject) -> Any:
    """Return a term as errors show it: with the names of Kubernetes' internal type, and all of its fields."""
    return {
        f"{name[0].upper()}{name[1:]}": [
            {"Key": one.get("key", ""), "Operator": one.get("operator", ""), "Values": one.get("values")}
            for one in term[name]
        ]
        if name in term
        else None
        for name in _LISTS
    }


def without_node_limits(spec: JsonObject, old: JsonObject) -> JsonObject:
    """Return the spec with the node selector and the node affinity of `old`."""
    kept = {name: value for name, value in spec.items() if name not in ("nodeSelector", "affinity")}
    if "nodeSelector" in old:
        kept["nodeSelector"] = old["nodeSelector"]
    affinity = {name: value for name, value in spec.get("affinity", {}).items() if name != "nodeAffinity"}
    before = old.get("affinity")
    if before is not None and "nodeAffinity" in before:
        affinity["nodeAffinity"] = before["nodeAffinity"]
    if affinity or before is not None:
        kept["affinity"] = affinity
    return kept
