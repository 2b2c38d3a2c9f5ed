"""Validation of `affinity` in pods and pod templates.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateAffinity`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.shared.metadata_validation import (
    validate_label_selector,
    validate_operator_and_key,
    validate_values,
)
from bridgehead.objects.names import (
    check_dns1123_label,
    check_dns1123_subdomain,
    check_qualified_name,
)

from .label_keys import validate_label_keys

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_affinity(affinity: Field) -> None:
    affinity.at("nodeAffinity").must_obey(_validate_node_affinity)
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity.at(kind).must_obey(_validate_pod_affinity)


def _validate_node_affinity(affinity: Field) -> None:
    affinity.at(_REQUIRED).must_obey(validate_node_selector)
    for preference in affinity.at(_PREFERRED).each():
        _validate_weight(preference)
        # Values that no node can have do no harm here. Clients get warnings of them.
        _validate_node_selector_term(preference.at("preference"), checks_values=False)


def validate_node_selector(selector: Field) -> None:
    """Validate a NodeSelector."""
    terms = selector.at("nodeSelectorTerms")
    terms.must_be_set("must have at least one node selector term")
    terms.must_all_obey(_validate_node_selector_term)


def _validate_node_selector_term(term: Field, *, checks_values: bool = True) -> None:
    for requirement in term.at("matchExpressions").each():
        if requirement.get("operator") in ("Gt", "Lt"):
            if len(requirement.get("values", ())) != 1:
                requirement.at("values").required("must be specified single value when `operator` is 'Lt' or 'Gt'")
            requirement.at("key", "").must_pass(check_qualified_name)
        else:
            validate_operator_and_key(requirement)
        if checks_values:
            validate_values(requirement)
    term.at("matchFields").must_all_obey(_validate_node_field)


def _validate_node_field(requirement: Field) -> None:
    """Validate a requirement on a field: the only one is `metadata.name`, with one value."""
    operator, key, values = requirement.at("operator", ""), requirement.at("key", ""), requirement.at("values", ())
    if operator.value not in ("In", "NotIn"):
        operator.invalid("not a valid selector operator")
    elif len(values.value) != 1:
        values.required("must be only one value when `operator` is 'In' or 'NotIn' for node field selector")
    if key.value != "metadata.name":
        key.invalid("not a valid field selector key")
        return
    values.must_all_pass(check_dns1123_subdomain)


def _validate_pod_affinity(affinity: Field) -> None:
    affinity.at(_REQUIRED).must_all_obey(_validate_pod_term)
    for preference in affinity.at(_PREFERRED).each():
        _validate_weight(preference)
        _validate_pod_term(preference.at("podAffinityTerm", {}))


def _validate_pod_term(term: Field) -> None:
    validate_label_selector(term.at("labelSelector"))
    validate_label_selector(term.at("namespaceSelector"))
    for namespace in term.get("namespaces", ()):
        term.at("namespace").showing(namespace).must_pass(check_dns1123_label)  # so in Kubernetes
    validate_label_keys(term)
    key = term.at("topologyKey", "")
    key.must_be_set("can not be empty")
    key.must_pass(check_qualified_name)


def _validate_weight(preference: Field) -> None:
    preference.at("weight", 0).must_be_within(1, 100, "must be in the range 1-100")
