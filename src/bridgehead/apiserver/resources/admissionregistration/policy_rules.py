"""Rules that both kinds of policies and their bindings share: what they match, parameters, variables.

Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/apis/admissionregistration/v1/defaults.go`, `pkg/apis/admissionregistration/validation`.
"""

from __future__ import annotations

import re
from functools import partial

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.metadata_validation import validate_label_selector
from bridgehead.objects.names import check_dns1035_label, check_dns1123_subdomain, check_path_segment

from .expressions import Expressions, validate_match_condition
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


def validate_spec(spec: Field) -> None:
    """Validate the fields that both kinds of policies have, but their variables."""
    spec.at("failurePolicy", "").must_be_one_of(FAILURE_POLICIES)
    kind, constraints = spec.at("paramKind"), spec.at("matchConstraints")
    kind.must_obey(_validate_param_kind)
    if constraints.value is None:
        constraints.required()
    else:
        validate_match_resources(constraints)
        constraints.at("resourceRules").must_be_set()
    validate_condition = partial(validate_match_condition, has_params=kind.value is not None)
    validate_match_conditions(spec.at("matchConditions"), validate_condition)


def validate_match_resources(match: Field) -> None:
    match.at("matchPolicy", "").must_be_one_of(_MATCH_POLICIES)
    for name in ("namespaceSelector", "objectSelector"):
        validate_label_selector(match.at(name))
    for name in ("resourceRules", "excludeResourceRules"):
        for rule in match.at(name).each():
            seen: set[str] = set()
            for resource_name in rule.at("resourceNames").each():
                resource_name.must_pass(check_path_segment)
                resource_name.must_not_repeat(seen)
            validate_rule_with_operations(rule)


def _validate_param_kind(param_kind: Field) -> None:
    _validate_api_version(param_kind.at("apiVersion"))
    kind = param_kind.at("kind")
    if kind.must_be_set() and (reasons := check_dns1035_label(kind.value.lower())):
        kind.invalid("may have mixed case, but should otherwise match: " + ",".join(reasons))


def _validate_api_version(api_version: Field) -> None:
    if not api_version.must_be_set():
        return
    if api_version.value.count("/") > 1:
        api_version.invalid(f"unexpected GroupVersion string: {api_version.value}")
        return
    group, _, version = api_version.value.rpartition("/")
    if group and (reasons := check_dns1123_subdomain(group)):
        api_version.showing(group).invalid(",".join(reasons))
    if not version:
        api_version.invalid("version must be specified")
    elif reasons := check_dns1035_label(version):
        api_version.showing(version).invalid(",".join(reasons))


def validate_param_ref(ref: Field) -> None:
    name, selector = ref.if_set("name"), ref.at("selector")
    is_ambiguous = bool(name) and selector.value is not None
    name.must_pass(check_path_segment)
    if is_ambiguous:
        name.forbidden("name and selector are mutually exclusive")
    validate_label_selector(selector)
    if is_ambiguous:
        selector.forbidden("name and selector are mutually exclusive")
    if not name and selector.value is None:
        ref.required("one of name or selector must be specified")
    ref.at("parameterNotFoundAction").must_be_set_to_one_of(_NOT_FOUND_ACTIONS)


def validate_variables(variables: Field, expressions: Expressions) -> None:
    """Validate a policy's variables and add them to `expressions`."""
    for variable in variables.each():
        name = variable.at("name", "")
        if not name.value.strip():
            name.required("name is not specified")
        elif _IDENTIFIER.fullmatch(name.value) is None or name.value in _RESERVED:
            name.invalid("name is not a valid CEL identifier")
        expressions.add_variable(name.value, variable.at("expression", ""))
