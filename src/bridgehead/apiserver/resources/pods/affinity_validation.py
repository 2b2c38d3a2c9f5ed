"""Validation of `affinity` in pods and pod templates.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateAffinity`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector, validate_requirement
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_label_value,
    check_qualified_name,
)

from .label_keys import validate_label_keys

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_LABEL_VALUE = re.compile(r"matchExpressions\[\d+\]\.values\[")
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(path: str, affinity: JsonObject) -> list[FieldError]:
    errors = []
    if "nodeAffinity" in affinity:
        errors.extend(_validate_node_affinity(f"{path}.nodeAffinity", affinity["nodeAffinity"]))
    for kind in ("podAffinity", "podAntiAffinity"):
        if kind in affinity:
            errors.extend(_validate_pod_affinity(f"{path}.{kind}", affinity[kind]))
    return errors


def _validate_node_affinity(path: str, affinity: JsonObject) -> list[FieldError]:
    errors = []
    if _REQUIRED in affinity:
        errors.extend(validate_node_selector(f"{path}.{_REQUIRED}", affinity[_REQUIRED]))
    for index, preference in enumerate(affinity.get(_PREFERRED, ())):
        item = f"{path}.{_PREFERRED}[{index}]"
        errors.extend(_validate_weight(item, preference))
        found = _validate_node_selector_term(f"{item}.preference", preference.get("preference", {}))
        # Values that no node can have do no harm here. Clients get warnings of them.
        errors.extend(error for error in found if not _LABEL_VALUE.search(error.field))
    return errors


def validate_node_selector(path: str, selector: JsonObject) -> list[FieldError]:
    """Validate a NodeSelector."""
    item, terms = f"{path}.nodeSelectorTerms", selector.get("nodeSelectorTerms", ())
    if not terms:
        return [field.required(item, "must have at least one node selector term")]
    return [e for index, term in enumerate(terms) for e in _validate_node_selector_term(f"{item}[{index}]", term)]


def _validate_node_selector_term(path: str, term: JsonObject) -> list[FieldError]:
    errors = []
    for index, requirement in enumerate(term.get("matchExpressions", ())):
        errors.extend(_validate_node_requirement(f"{path}.matchExpressions[{index}]", requirement))
    for index, requirement in enumerate(term.get("matchFields", ())):
        errors.extend(_validate_node_field(f"{path}.matchFields[{index}]", requirement))
    return errors


def _validate_node_requirement(path: str, requirement: JsonObject) -> list[FieldError]:
    if requirement.get("operator") not in ("Gt", "Lt"):
        return field.errors_below(path, validate_requirement, requirement)
    errors = []
    if len(requirement.get("values", ())) != 1:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors.append(field.required(f"{path}.values", detail))
    key = requirement.get("key", "")
    errors.extend(field.invalid_for(f"{path}.key", key, check_qualified_name(key)))
    for index, value in enumerate(requirement.get("values", ())):
        errors.extend(field.invalid_for(f"{path}.values[{index}]", value, check_label_value(value)))
    return errors


def _validate_node_field(path: str, requirement: JsonObject) -> list[FieldError]:
    """Validate a requirement on a field: the only one is `metadata.name`, with one value."""
    errors = []
    operator, key = requirement.get("operator", ""), requirement.get("key", "")
    if operator not in ("In", "NotIn"):
        errors.append(field.invalid(f"{path}.operator", operator, "not a valid selector operator"))
    elif len(requirement.get("values", ())) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(field.required(f"{path}.values", detail))
    if key != "metadata.name":
        return [*errors, field.invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(requirement.get("values", ())):
        errors.extend(field.invalid_for(f"{path}.values[{index}]", value, check_dns1123_subdomain(value)))
    return errors


def _validate_pod_affinity(path: str, affinity: JsonObject) -> list[FieldError]:
    errors = _validate_pod_terms(f"{path}.{_REQUIRED}", affinity.get(_REQUIRED, ()))
    for index, preference in enumerate(affinity.get(_PREFERRED, ())):
        item = f"{path}.{_PREFERRED}[{index}]"
        errors.extend(_validate_weight(item, preference))
        errors.extend(_validate_pod_term(f"{item}.podAffinityTerm", preference.get("podAffinityTerm", {})))
    return errors


def _validate_pod_terms(path: str, terms: Sequence[JsonObject]) -> list[FieldError]:
    return [error for index, term in enumerate(terms) for error in _validate_pod_term(f"{path}[{index}]", term)]


def _validate_pod_term(path: str, term: JsonObject) -> list[FieldError]:
    errors = []
    for name in ("labelSelector", "namespaceSelector"):
        errors.extend(field.errors_below(f"{path}.{name}", validate_label_selector, term.get(name, {})))
    for namespace in term.get("namespaces", ()):
        errors.extend(field.invalid_for(f"{path}.namespace", namespace, check_dns1123_label(namespace)))
    errors.extend(validate_label_keys(path, term))
    if not (key := term.get("topologyKey", "")):
        errors.append(field.required(f"{path}.topologyKey", "can not be empty"))
    return [*errors, *field.invalid_for(f"{path}.topologyKey", key, check_qualified_name(key))]


def _validate_weight(path: str, preference: JsonObject) -> list[FieldError]:
    weight = preference.get("weight", 0)
    return [] if 1 <= weight <= 100 else [field.invalid(f"{path}.weight", weight, "must be in the range 1-100")]
