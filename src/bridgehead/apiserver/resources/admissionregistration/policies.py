"""ValidatingAdmissionPolicy and MutatingAdmissionPolicy: their entries in the table and their rules.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.apiserver.resources.shared.conditions import validate_conditions
from bridgehead.objects.names import check_dns1123_subdomain, check_qualified_name

from .expressions import Expressions
from .policy_rules import default_match_resources, validate_spec, validate_variables

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MOST_AUDIT_ANNOTATIONS = 20
_MOST_ANNOTATION_BYTES = 5 * 1024
_NEWLINE = re.compile(r"[\n\r]")
_NOTHING_TO_DO = "validations or auditAnnotations must contain at least one item"
# By patch type: the field of the expression, and the type of its value.
PATCHES = {"ApplyConfiguration": ("applyConfiguration", "Object"), "JSONPatch": ("jsonPatch", "list(JSONPatch)")}


class ValidatingPolicyStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        default_match_resources(spec.get("matchConstraints"))

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_validating(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if subresource:
            return _validate_status("status", obj.get("status", {}))
        return [] if obj["spec"] == old.get("spec") else _validate_validating(obj)


class MutatingPolicyStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("failurePolicy", "Fail")
        default_match_resources(spec.get("matchConstraints"))

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_mutating(obj["spec"])

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return [] if obj["spec"] == old.get("spec") else _validate_mutating(obj["spec"])


# --- Validating -------------------------------------------------------------------------------------------------------


def _validate_validating(obj: JsonObject) -> list[FieldError]:
    spec, name = obj["spec"], obj["metadata"].get("name", "")
    expressions = Expressions(has_params="paramKind" in spec, has_variables=bool(spec.get("variables")))

    def check() -> list[FieldError]:
        errors = validate_variables("spec.variables", spec.get("variables", ()), expressions)
        validations, annotations = spec.get("validations", ()), spec.get("auditAnnotations", ())
        if not validations and not annotations:
            paths = ("spec.validations", "spec.auditAnnotations")
            return errors + [field.required(path, _NOTHING_TO_DO) for path in paths]
        for index, validation in enumerate(validations):
            errors += _validate_validation(f"spec.validations[{index}]", validation, expressions)
        return errors + _validate_annotations("spec.auditAnnotations", annotations, name, expressions)

    return validate_spec(spec, check)


def _validate_validation(path: str, validation: JsonObject, expressions: Expressions) -> list[FieldError]:
    errors: list[FieldError] = []
    expression = validation.get("expression", "")
    if not expression.strip():
        errors.append(field.required(f"{path}.expression", "expression is not specified"))
    else:
        errors += expressions.check(f"{path}.expression", expression, ("bool",))
    message_expression, item = validation.get("messageExpression", ""), f"{path}.messageExpression"
    if message_expression.strip():
        errors += expressions.check(item, message_expression, ("string",), has_authorizer=False)
    elif message_expression:
        errors.append(field.invalid(item, message_expression, "must be non-empty if specified"))
    message = validation.get("message", "")
    if message and not message.strip():
        errors.append(field.invalid(f"{path}.message", message, "message must be non-empty if specified"))
    elif _NEWLINE.search(message.strip()):
        errors.append(field.invalid(f"{path}.message", message, "message must not contain line breaks"))
    if "reason" in validation:
        errors += field.one_of(f"{path}.reason", validation["reason"], _REASONS)
    return errors


def _validate_annotations(
    path: str, annotations: list[JsonObject], policy: str, expressions: Expressions
) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(annotations) > _MOST_AUDIT_ANNOTATIONS:
        detail = f"must not have more than {_MOST_AUDIT_ANNOTATIONS} auditAnnotations"
        errors.append(field.invalid(path, annotations, detail))
    keys: set[str] = set()
    for index, annotation in enumerate(annotations):
        item, key = f"{path}[{index}]", annotation.get("key", "")
        if policy:
            qualified = f"{policy}/{key}"
            errors += field.invalid_for(f"{item}.key", qualified, check_qualified_name(qualified))
        else:
            errors.append(field.invalid(f"{item}.key", key, "requires metadata.name be non-empty"))
        value = annotation.get("valueExpression", "")
        trimmed = value.strip()
        if not trimmed:
            errors.append(field.required(f"{item}.valueExpression", "valueExpression is not specified"))
        elif len(trimmed.encode()) > _MOST_ANNOTATION_BYTES:
            detail = f"must not exceed {_MOST_ANNOTATION_BYTES} bytes in length"
            errors.append(field.required(f"{item}.valueExpression", detail))
        else:
            errors += expressions.check(f"{item}.valueExpression", trimmed, ("string", "null"), shown=value)
        if key in keys:
            errors.append(field.duplicate(f"{item}.key", key))
        keys.add(key)
    return errors


def _validate_status(path: str, status: JsonObject) -> list[FieldError]:
    warnings: Sequence[JsonObject] = at(status, "typeChecking", "expressionWarnings") or ()
    errors: list[FieldError] = []
    for index, warning in enumerate(warnings):
        item = f"{path}.typeChecking.expressionWarnings[{index}]"
        if not warning.get("warning"):
            errors.append(field.required(f"{item}.warning"))
        if not warning.get("fieldRef", "").strip():
            errors.append(field.required(f"{item}.fieldRef"))
    return errors + field.errors_below(f"{path}.conditions", validate_conditions, status.get("conditions", ()))


# --- Mutating ---------------------------------------------------------------------------------------------------------


def _validate_mutating(spec: JsonObject) -> list[FieldError]:
    expressions = Expressions(has_params="paramKind" in spec, has_variables=bool(spec.get("variables")), can_patch=True)

    def check() -> list[FieldError]:
        errors = _refuse_deletes(spec)
        errors += validate_variables("spec.variables", spec.get("variables", ()), expressions)
        mutations = spec.get("mutations", ())
        if not mutations:
            errors.append(field.required("spec.mutations", "mutations must contain at least one item"))
        for index, mutation in enumerate(mutations):
            errors += _validate_mutation(f"spec.mutations[{index}]", mutation, expressions)
        policy = spec.get("reinvocationPolicy")
        if not policy:
            return [*errors, field.required("spec.reinvocationPolicy")]
        return errors + field.one_of("spec.reinvocationPolicy", policy, ("IfNeeded", "Never"))

    return validate_spec(spec, check)


def _refuse_deletes(spec: JsonObject) -> list[FieldError]:
    """Return errors for the operation DELETE, whose object can't change."""
    errors = []
    for number, rule in enumerate(spec.get("matchConstraints", {}).get("resourceRules", ())):
        for index, operation in enumerate(rule.get("operations", ())):
            if operation == "DELETE":
                path = f"spec.matchConstraints.resourceRules[{number}].operations[{index}]"
                errors.append(field.not_supported(path, operation, ("*", "CONNECT", "CREATE", "UPDATE")))
    return errors


def _validate_mutation(path: str, mutation: JsonObject, expressions: Expressions) -> list[FieldError]:
    kind = mutation.get("patchType", "")
    if not kind:
        return [field.required(f"{path}.patchType")]
    if kind not in PATCHES:
        return [field.not_supported(f"{path}.patchType", kind, tuple(PATCHES))]
    errors: list[FieldError] = []
    for other, (name, result) in PATCHES.items():
        item = f"{path}.{name}"
        if other != kind:
            if name in mutation:
                errors.append(field.invalid(item, mutation[name], f"must be empty when patchType is {kind}"))
            continue
        expression = mutation.get(name, {}).get("expression", "")
        if name not in mutation:
            errors.append(field.required(item, f"must be specified when patchType is {kind}"))
        elif not expression.strip():
            errors.append(field.required(f"{item}.expression", "expression is not specified"))
        else:
            errors += expressions.check(f"{item}.expression", expression, (result,))
    return errors


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
