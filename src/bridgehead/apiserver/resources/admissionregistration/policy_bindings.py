"""ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: their entries in the table and their rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
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

    def validate(self, obj: JsonObject) -> list[FieldError]:
        spec = obj["spec"]
        errors = field.required_valid("spec.policyName", spec.get("policyName", ""), check_dns1123_subdomain)
        errors += validate_param_ref("spec.paramRef", spec.get("paramRef"))
        errors += validate_match_resources("spec.matchResources", spec.get("matchResources"))
        if self._is_validating:
            errors += _validate_actions("spec.validationActions", spec.get("validationActions", ()))
        return errors


def _validate_actions(path: str, actions: Sequence[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, action in enumerate(actions):
        errors += field.one_of(f"{path}[{index}]", action, _ACTIONS)
        if action in seen:
            errors.append(field.duplicate(f"{path}[{index}]", action))
        seen.add(action)
    if {"Deny", "Warn"} <= seen:
        why = (
            "must not contain both Deny and Warn "
            "(repeating the same validation failure information in the API response and headers serves no purpose)"
        )
        errors.append(field.invalid(path, list(actions), why))
    if not seen:
        errors.append(field.required(path, "at least one validation action is required"))
    return errors


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
