"""Warnings about rules for nodes that use labels which nodes no longer have, or values that none can have.

Called by `pod_warnings`. Pure: no I/O, no clock, no randomness. Source: Kubernetes
`GetWarningsForNodeSelectorTerm`, `GetLabelDeprecatedMessage`.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.node_labels import warn_of_key, warn_of_label
from bridgehead.objects.names import check_label_value

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def warn_of_node_labels(path: str, spec: JsonObject) -> list[str]:
    """Return warnings about the node selector, node affinity and spread constraints of the pod spec at `path`."""
    warnings = [
        warning for key in spec.get("nodeSelector", ()) for warning in warn_of_label(f"{path}.nodeSelector[{key}]", key)
    ]
    affinity = spec.get("affinity", {}).get("nodeAffinity")
    if affinity is not None:
        item = f"{path}.affinity.nodeAffinity"
        for index, term in enumerate(affinity.get(_REQUIRED, {}).get("nodeSelectorTerms", ())):
            warnings += _warn_of_term(f"{item}.{_REQUIRED}.nodeSelectorTerms[{index}]", term, checks_values=False)
        for index, weighted in enumerate(affinity.get(_PREFERRED, ())):
            term = weighted.get("preference", {})
            warnings += _warn_of_term(f"{item}.{_PREFERRED}[{index}].preference", term, checks_values=True)
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        item, key = f"{path}.topologySpreadConstraints[{index}]", constraint.get("topologyKey", "")
        warnings += warn_of_key(f"{item}.topologyKey", key)
        if "labelSelector" not in constraint:
            warnings.append(f"{item}.labelSelector: a null labelSelector results in matching no pod")
    return warnings


def _warn_of_term(path: str, term: JsonObject, *, checks_values: bool) -> list[str]:
    warnings = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        item, key = f"{path}.matchExpressions[{index}]", requirement.get("key", "")
        warnings += warn_of_key(f"{item}.key", key)
        for position, value in enumerate(requirement.get("values", ()) if checks_values else ()):
            warnings += [
                f"{item}.values[{position}]: {value} is invalid, {reason}" for reason in check_label_value(value)
            ]
    return warnings
