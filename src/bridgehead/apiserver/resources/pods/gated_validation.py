"""Changes of a pod that waits for its scheduling gates: it may be limited to fewer nodes.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateNodeSelectorMutation`,
`validateNodeAffinityMutation`.
"""

from __future__ import annotations

from typing import Any

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LISTS = ("matchExpressions", "matchFields")


def validate_gated_changes(spec: Field, old: JsonObject) -> None:
    """Validate changes of the node selector and of the node affinity. `old` has scheduling gates."""
    selector = spec.at("nodeSelector", {})
    if not old.get("nodeSelector", {}).items() <= selector.value.items():
        selector.invalid("only additions to spec.nodeSelector are allowed (no mutations or deletions)")
    terms = spec.at("affinity").at("nodeAffinity").at(_REQUIRED).at("nodeSelectorTerms", [])
    _validate_terms(terms, _required_terms(old))


def _required_terms(spec: JsonObject) -> list[JsonObject]:
    affinity = spec.get("affinity", {}).get("nodeAffinity", {})
    terms: list[JsonObject] = affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", [])
    return terms


def _validate_terms(terms: Field, before: list[JsonObject]) -> None:
    """Validate that each term only gets more requirements. Terms are alternatives, so a new one would allow nodes."""
    if not before:
        return
    if len(terms.value) != len(before):
        shown = [_as_go(term) for term in terms.value] or None
        terms.showing(shown).invalid("no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for term, was in zip(terms.each(), before, strict=True):
        if not _has_only_additions(term.value, was):
            term.showing(_as_go(term.value)).invalid("only additions are allowed (no mutations or deletions)")


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
