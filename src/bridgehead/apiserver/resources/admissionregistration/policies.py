"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: their entries in the table and their rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

import re

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy, Strategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME
from bridgehead.apiserver.resources.shared.conditions import validate_conditions
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .expressions import Expressions
from .policy_rules import default_match_resources, validate_spec, validate_variables

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MOST_AUDIT_ANNOTATIONS = 20
_MOST_ANNOTATION_BYTES = 5 * 1024
_NEWLINE = re.compile(r"[\n\r]")
_NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"
# Field of the expression, and the type of its value, by patch type.
PATCHES = {"ApplyConfiguration": ("applyConfiguration", "Object"), "JSONPatch": ("jsonPatch", "list(JSONPatch)")}


class ValidatingPolicyStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        default_match_resources(spec.get("matchConstraints"))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Field) -> None:
        _validate_validating(obj)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if subresource:
            _validate_status(obj.at("status"))
        elif obj.get("spec") != old.get("spec"):
            _validate_validating(obj)


class MutatingPolicyStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        default_match_resources(spec.get("matchConstraints"))

    def validate_create(self, obj: Field) -> None:
        _validate_mutating(obj.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        if obj.get("spec") != old.get("spec"):
            _validate_mutating(obj.at("spec"))


def _expressions(spec: Field, *, can_patch: bool = False) -> Expressions:
    has_params, has_variables = "paramKind" in spec.value, bool(spec.get("variables"))
    return Expressions(has_params=has_params, has_variables=has_variables, can_patch=can_patch)


# --- Validating -------------------------------------------------------------------------------------------------------


def _validate_validating(obj: Field) -> None:
    spec, policy = obj.at("spec"), obj.at("metadata").get("name", "")
    validations, annotations = spec.at("validations"), spec.at("auditAnnotations")
    expressions = _expressions(spec)
    validate_spec(spec)
    validate_variables(spec.at("variables"), expressions)
    if not validations and not annotations:
        validations.required(_NOTHING_TO_DO)
        annotations.required(_NOTHING_TO_DO)
        return
    validations.must_all_obey(_validate_validation, expressions)
    _validate_annotations(annotations, policy, expressions)


def _validate_validation(validation: Field, expressions: Expressions) -> None:
    message, message_expression = validation.at("message", ""), validation.at("messageExpression", "")
    expressions.validate(validation.at("expression", ""), ("bool",))
    if message_expression.value.strip():
        expressions.validate(message_expression, ("string",), has_authorizer=False)
    elif message_expression:
        message_expression.invalid("must be non-empty if specified")
    if message and not message.value.strip():
        message.invalid("message must be non-empty if specified")
    elif _NEWLINE.search(message.value.strip()):
        message.invalid("message must not contain line breaks")
    validation.at("reason").must_be_one_of(_REASONS)


def _validate_annotations(annotations: Field, policy: str, expressions: Expressions) -> None:
    if len(annotations.value or ()) > _MOST_AUDIT_ANNOTATIONS:
        annotations.invalid(f"must not have more than {_MOST_AUDIT_ANNOTATIONS} auditAnnotations")
    keys: set[str] = set()
    for annotation in annotations.each():
        key, value = annotation.at("key", ""), annotation.at("valueExpression", "")
        if policy:
            key.showing(f"{policy}/{key.value}").must_pass(check_qualified_name)
        else:
            key.invalid("requires metadata.name be non-empty")
        trimmed = value.value.strip()
        if not trimmed:
            value.required("valueExpression is not specified")
        elif len(trimmed.encode()) > _MOST_ANNOTATION_BYTES:
            value.required(f"must not exceed {_MOST_ANNOTATION_BYTES} bytes in length")
        else:
            expressions.validate(value, ("string", "null"), text=trimmed)
        key.must_not_repeat(keys)


def _validate_status(status: Field) -> None:
    for warning in status.at("typeChecking").at("expressionWarnings").each():
        warning.at("warning").must_be_set()
        if not warning.get("fieldRef", "").strip():
            warning.at("fieldRef").required()
    validate_conditions(status.at("conditions"))


# --- Mutating ---------------------------------------------------------------------------------------------------------


def _validate_mutating(spec: Field) -> None:
    mutations, expressions = spec.at("mutations"), _expressions(spec, can_patch=True)
    validate_spec(spec)
    _refuse_deletes(spec.at("matchConstraints"))
    validate_variables(spec.at("variables"), expressions)
    mutations.must_be_set("mutations must contain at least one item")
    mutations.must_all_obey(_validate_mutation, expressions)
    spec.at("reinvocationPolicy").must_be_set_to_one_of(("IfNeeded", "Never"))


def _refuse_deletes(constraints: Field) -> None:
    """Refuse the operation DELETE, whose object can't change."""
    for rule in constraints.at("resourceRules").each():
        for operation in rule.at("operations").each():
            if operation.value == "DELETE":
                operation.not_supported(("*", "CONNECT", "CREATE", "UPDATE"))


def _validate_mutation(mutation: Field, expressions: Expressions) -> None:
    kind = mutation.at("patchType")
    if not kind.must_be_set_to_one_of(tuple(PATCHES)):
        return
    for patch_type, (name, result) in PATCHES.items():
        patch = mutation.at(name)
        if patch_type != kind.value:
            if patch.value is not None:
                patch.invalid(f"must be empty when patchType is {kind.value}")
        elif patch.value is None:
            patch.required(f"must be specified when patchType is {kind.value}")
        else:
            expressions.validate(patch.at("expression", ""), (result,))


# --- The table --------------------------------------------------------------------------------------------------------


def _param_kind(obj: JsonObject, now: float) -> str:
    kind = obj.get("spec", {}).get("paramKind")
    return f"{kind.get('apiVersion', '')}/{kind.get('kind', '')}" if kind else "<unset>"


def _resource(kind: str, plural: str, counted: str, strategy: Strategy, subresources: tuple[str, ...]) -> Resource:
    return Resource(
        group="admissionregistration.k8s.io",
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        namespaced=False,
        categories=("api-extensions",),
        subresources=subresources,
        strategy=strategy,
        columns=(
            NAME,
            Column(counted.capitalize(), lambda obj, now: len(obj.get("spec", {}).get(counted, ())), type="integer"),
            Column("ParamKind", _param_kind),
            AGE,
        ),
        has_generation=True,
        check_name=check_dns1123_subdomain,
        kept_by_status=CLIENT_METADATA,
        allows_unconditional_update=False,
    )


VALIDATING_ADMISSION_POLICIES = _resource(
    "ValidatingAdmissionPolicy", "validatingadmissionpolicies", "validations", ValidatingPolicyStrategy(), ("status",)
)
MUTATING_ADMISSION_POLICIES = _resource(
    "MutatingAdmissionPolicy", "mutatingadmissionpolicies", "mutations", MutatingPolicyStrategy(), ()
)
