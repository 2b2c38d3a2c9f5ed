"""ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: their entries in the table and their rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.objects.names import check_dns1123_subdomain

from .policy_rules import default_match_resources, default_param_ref, validate_match_resources, validate_param_ref

_ACTIONS = ("Audit", "Deny", "Warn")


class PolicyBindingStrategy(Strategy):
    def __init__(self, *, is_validating: bool) -> None:
        self._is_validating = is_validating

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        default_match_resources(spec.get("matchResources"))
        default_param_ref(spec.get("paramRef"))

    def validate(self, obj: Field) -> None:
        spec = obj.at("spec")
        spec.at("policyName").must_be_set_and_pass(check_dns1123_subdomain)
        spec.at("paramRef").must_obey(validate_param_ref)
        spec.at("matchResources").must_obey(validate_match_resources)
        if self._is_validating:
            _validate_actions(spec.at("validationActions", []))


def _validate_actions(actions: Field) -> None:
    seen: set[str] = set()
    for action in actions.each():
        action.must_be_one_of(_ACTIONS)
        action.must_not_repeat(seen)
    if {"Deny", "Warn"} <= seen:
        actions.invalid(
            "must not contain both Deny and Warn "
            "(repeating the same validation failure information in the API response and headers serves no purpose)"
        )
    actions.must_be_set("at least one validation action is required")


def _param_ref(obj: JsonObject, now: float) -> str:
    ref = obj.get("spec", {}).get("paramRef")
    if not ref:
        return "<unset>"
    name: str = ref.get("name") or "<selector>"
    return f"{ref['namespace']}/{name}" if ref.get("namespace") else name


def _resource(kind: str, *, is_validating: bool) -> Resource:
    return Resource(
        group="admissionregistration.k8s.io",
        version="v1",
        kind=kind,
        plural=f"{kind.lower()}s",
        singular=kind.lower(),
        namespaced=False,
        categories=("api-extensions",),
        strategy=PolicyBindingStrategy(is_validating=is_validating),
        columns=(
            NAME,
            Column("PolicyName", lambda obj, now: obj.get("spec", {}).get("policyName", "")),
            Column("ParamRef", _param_ref),
            AGE,
        ),
        has_generation=True,
        check_name=check_dns1123_subdomain,
        allows_unconditional_update=False,
    )


VALIDATING_ADMISSION_POLICY_BINDINGS = _resource("ValidatingAdmissionPolicyBinding", is_validating=True)
MUTATING_ADMISSION_POLICY_BINDINGS = _resource("MutatingAdmissionPolicyBinding", is_validating=False)
