"""Rules that both kinds of policies and their bindings share: what they match, parameters, variables.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain, check_path_segment

from .expressions import Expressions, check_match_condition
from .match_conditions import validate_match_conditions
from .rules import default_rules, validate_rule_with_operations

_MATCH_POLICIES = ("Equivalent", "Exact")
FAILURE_POLICIES = ("Fail", "Ignore")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_IDENTIFIER = re.compile(r"[_a-zA-Z][_a-zA-Z0-9]*")
_RESERVED = frozenset(
    {"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while"}
)  # fmt: skip


def default_match_resources(match: JsonObject | None) -> None:
    if match is None:
        return
    match.setdefault("matchPolicy", "Equivalent")
    match.setdefault("namespaceSelector", {})
    match.setdefault("objectSelector", {})
    default_rules(match.get("resourceRules", ()))
    default_rules(match.get("excludeResourceRules", ()))


def default_param_ref(ref: JsonObject | None) -> None:
    if ref is not None:
        ref.setdefault("parameterNotFoundAction", "Deny")


def validate_constraints(path: str, match: JsonObject | None) -> list[FieldError]:
    """Validate a policy's `matchConstraints`, which need a rule."""
    if match is None:
        return [field.required(path)]
    errors = validate_match_resources(path, match)
    if not match.get("resourceRules"):
        errors.append(field.required(f"{path}.resourceRules"))
    return errors


def validate_match_resources(path: str, match: JsonObject | None) -> list[FieldError]:
    if match is None:
        return []
    errors = field.one_of(f"{path}.matchPolicy", match.get("matchPolicy"), _MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        errors += field.errors_below(f"{path}.{name}", validate_label_selector, match.get(name, {}))
    for name in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(match.get(name, ())):
            errors += _validate_named_rule(f"{path}.{name}[{index}]", rule)
    return errors


def _validate_named_rule(path: str, rule: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, name in enumerate(rule.get("resourceNames", ())):
        item = f"{path}.resourceNames[{index}]"
        errors += field.invalid_for(item, name, check_path_segment(name))
        if name in seen:
            errors.append(field.duplicate(item, name))
        seen.add(name)
    return errors + validate_rule_with_operations(path, rule)


def validate_param_kind(path: str, kind: JsonObject) -> list[FieldError]:
    errors: list[FieldError] = []
    api_version, name = kind.get("apiVersion", ""), kind.get("kind", "")
    item = f"{path}.apiVersion"
    if not api_version:
        errors.append(field.required(item))
    elif api_version.count("/") > 1:
        errors.append(field.invalid(item, api_version, f"unexpected GroupVersion string: {api_version}"))
    else:
        group, _, version = api_version.rpartition("/")
        if group and (reasons := check_dns1123_subdomain(group)):
            errors.append(field.invalid(item, group, ",".join(reasons)))
        if not version:
            errors.append(field.invalid(item, api_version, "version must be specified"))
        elif reasons := check_dns1035_label(version):
            errors.append(field.invalid(item, version, ",".join(reasons)))
    if not name:
        errors.append(field.required(f"{path}.kind"))
    elif reasons := check_dns1035_label(name.lower()):
        detail = "may have mixed case, but should otherwise match: " + ",".join(reasons)
        errors.append(field.invalid(f"{path}.kind", name, detail))
    return errors


def validate_param_ref(path: str, ref: JsonObject | None) -> list[FieldError]:
    if ref is None:
        return []
    errors: list[FieldError] = []
    name, selector = ref.get("name", ""), ref.get("selector")
    if name:
        errors += field.invalid_for(f"{path}.name", name, check_path_segment(name))
        if selector is not None:
            errors.append(field.forbidden(f"{path}.name", "name and selector are mutually exclusive"))
    if selector is not None:
        errors += field.errors_below(f"{path}.selector", validate_label_selector, selector)
        if name:
            errors.append(field.forbidden(f"{path}.selector", "name and selector are mutually exclusive"))
    if not name and selector is None:
        errors.append(field.required(path, "one of name or selector must be specified"))
    action = ref.get("parameterNotFoundAction")
    if not action:
        errors.append(field.required(f"{path}.parameterNotFoundAction"))
    else:
        errors += field.one_of(f"{path}.parameterNotFoundAction", action, _NOT_FOUND_ACTIONS)
    return errors


def validate_conditions(path: str, spec: JsonObject) -> list[FieldError]:
    """Validate a policy's `matchConditions`."""
    check = partial(check_match_condition, has_params="paramKind" in spec)
    return validate_match_conditions(path, spec.get("matchConditions", ()), check)


def validate_variables(path: str, variables: Sequence[JsonObject], expressions: Expressions) -> list[FieldError]:
    """Validate a policy's variables and add them to `expressions`."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        item, name, expression = f"{path}[{index}]", variable.get("name", ""), variable.get("expression", "")
        if not name.strip():
            errors.append(field.required(f"{item}.name", "name is not specified"))
        elif _IDENTIFIER.fullmatch(name) is None or name in _RESERVED:
            errors.append(field.invalid(f"{item}.name", name, "name is not a valid CEL identifier"))
        if not expression.strip():
            errors.append(field.required(f"{item}.expression", "expression is not specified"))
        else:
            errors += expressions.add_variable(f"{item}.expression", name, expression)
    return errors


def validate_spec(spec: JsonObject, check: Callable[[], list[FieldError]]) -> list[FieldError]:
    """Validate what both kinds of policies have; `check` validates the rest."""
    errors = field.one_of("spec.failurePolicy", spec.get("failurePolicy"), FAILURE_POLICIES)
    if "paramKind" in spec:
        errors += validate_param_kind("spec.paramKind", spec["paramKind"])
    errors += validate_constraints("spec.matchConstraints", spec.get("matchConstraints"))
    errors += validate_conditions("spec.matchConditions", spec)
    return errors + check()
