"""Admission policies and their bindings, and the reasons why they are refused."""

from __future__ import annotations

from typing import Any

_GROUP = "admissionregistration.k8s.io"
VALIDATING, MUTATING = f"validatingadmissionpolicies.{_GROUP}", f"mutatingadmissionpolicies.{_GROUP}"
VALIDATING_BINDINGS = f"validatingadmissionpolicybindings.{_GROUP}"
MUTATING_BINDINGS = f"mutatingadmissionpolicybindings.{_GROUP}"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
MATCH = {"resourceRules": [RULE]}
VALIDATION = {"expression": "object.metadata.name != ''"}
MUTATION = {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}


def _without_none(spec: dict[str, Any]) -> dict[str, Any]:
    return {"spec": {key: value for key, value in spec.items() if value is not None}}


def policy(**changes: Any) -> dict[str, Any]:
    """Return a validating policy that is valid but for `changes`; None removes a field."""
    return _without_none({"matchConstraints": MATCH, "validations": [VALIDATION], **changes})


def mutating(**changes: Any) -> dict[str, Any]:
    return _without_none({"matchConstraints": MATCH, "mutations": [MUTATION], "reinvocationPolicy": "Never", **changes})


def binding(**changes: Any) -> dict[str, Any]:
    return _without_none({"policyName": "p", "validationActions": ["Deny"], **changes})


def error(expression: str, column: int, problem: str) -> str:
    """Return the text of an expression that does not compile, as JSON."""
    lines = f"ERROR: <input>:1:{column}: {problem}", f" | {expression}", f" | {'.' * (column - 1)}^"
    return f'Invalid value: "{expression}": compilation failed: ' + "\n".join(lines)


V = "spec.validations[0]"
SELECTOR = "spec.matchConstraints.objectSelector"
_AT_LEAST_ONE = "validations or auditAnnotations must contain at least one item"
_NOTHING = [f"spec.{name}: Required value: {_AT_LEAST_ONE}" for name in ("validations", "auditAnnotations")]
_STARTS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
SHARED: list[tuple[dict[str, Any], list[str]]] = [
    ({"matchConstraints": None}, ["spec.matchConstraints: Required value"]),
    ({"matchConstraints": {}}, ["spec.matchConstraints.resourceRules: Required value"]),
    ({"matchConstraints": {"resourceRules": [{**RULE, "apiGroups": []}]}}, [
        "spec.matchConstraints.resourceRules[0].apiGroups: Required value"]),
    ({"matchConstraints": {"resourceRules": [{**RULE, "resourceNames": ["a", "a", "b/c"]}]}}, [
        'spec.matchConstraints.resourceRules[0].resourceNames[1]: Duplicate value: "a"',
        'spec.matchConstraints.resourceRules[0].resourceNames[2]: Invalid value: "b/c": may not contain \'/\'']),
    ({"matchConstraints": {**MATCH, "matchPolicy": "Maybe"}}, [
        'spec.matchConstraints.matchPolicy: Unsupported value: "Maybe": supported values: "Equivalent", "Exact"']),
    ({"matchConstraints": {**MATCH, "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}}, [
        f"{SELECTOR}.matchExpressions[0].values: Required value: "
        "must be specified when `operator` is 'In' or 'NotIn'"]),
    ({"failurePolicy": "Maybe"}, [
        'spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore"']),
    ({"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}, []),
    ({"paramKind": {}}, ["spec.paramKind.apiVersion: Required value", "spec.paramKind.kind: Required value"]),
    ({"paramKind": {"apiVersion": "a/b/c", "kind": "A"}}, [
        'spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c']),
    ({"paramKind": {"apiVersion": "g/", "kind": "A"}}, [
        'spec.paramKind.apiVersion: Invalid value: "g/": version must be specified']),
    ({"matchConditions": [{"name": "a", "expression": "params.x == 1"}]}, [
        "spec.matchConditions[0].expression: "
        + error("params.x == 1", 1, "undeclared reference to 'params' (in container '')")]),
    ({
        "matchConditions": [{"name": "a", "expression": "params.x == 1"}],
        "paramKind": {"apiVersion": "v1", "kind": "A"},
    }, []),
    ({
        "matchConditions": [{"name": "a", "expression": "int('1x') == 1"}],
        "variables": [{"name": "a", "expression": "bool('maybe')"}],
    }, [
        "spec.matchConditions[0].expression: Internal error: program instantiation failed: type conversion error from "
        "'string' to 'int'",
        "spec.variables[0].expression: Internal error: program instantiation failed: type conversion error from "
        "'string' to 'bool'"]),
    ({"variables": [{"name": "if", "expression": "1"}, {"name": "", "expression": " "}]}, [
        'spec.variables[0].name: Invalid value: "if": name is not a valid CEL identifier',
        "spec.variables[1].name: Required value: name is not specified",
        "spec.variables[1].expression: Required value: expression is not specified"]),
    ({"variables": [{"name": "a", "expression": "variables.b"}, {"name": "b", "expression": "1"}]}, [
        "spec.variables[0].expression: " + error("variables.b", 10, "undefined field 'b'")]),
]  # fmt: skip
CASES: list[tuple[dict[str, Any], list[str]]] = [
    (policy(), []),
    *((policy(**changes), errors) for changes, errors in SHARED),
    (policy(validations=None), _NOTHING),
    (policy(validations=[{"expression": " "}]), [f"{V}.expression: Required value: expression is not specified"]),
    (policy(validations=[{"expression": "object.x"}]), [
        f'{V}.expression: Invalid value: "object.x": must evaluate to bool but got dyn']),
    (policy(validations=[{"expression": "1 +"}]), [
        f"{V}.expression: " + error("1 +", 4, f"Syntax error: mismatched input '<EOF>' expecting {_STARTS}")]),
    (policy(validations=[{"expression": "request.x == 1"}]), [
        f"{V}.expression: " + error("request.x == 1", 8, "undefined field 'x'")]),
    (policy(
        validations=[{"expression": "variables.a + 1 > 2 && authorizer.path('/').check('get').allowed()"}],
        variables=[{"name": "a", "expression": "1"}]), []),
    (policy(validations=[{**VALIDATION, "messageExpression": " "}]), [
        f'{V}.messageExpression: Invalid value: " ": must be non-empty if specified']),
    (policy(validations=[{**VALIDATION, "messageExpression": "1"}]), [
        f'{V}.messageExpression: Invalid value: "1": must evaluate to string but got int']),
    (policy(validations=[{**VALIDATION, "message": " "}]), [
        f'{V}.message: Invalid value: " ": message must be non-empty if specified']),
    (policy(validations=[{**VALIDATION, "message": "a\nb"}]), [
        f'{V}.message: Invalid value: "a\\nb": message must not contain line breaks']),
    (policy(validations=[{**VALIDATION, "reason": "Gone"}]), [
        f'{V}.reason: Unsupported value: "Gone": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge"']),
    (policy(validations=None, auditAnnotations=[{"key": "k", "valueExpression": "'v'"}]), []),
    (policy(auditAnnotations=[{"key": "k", "valueExpression": "null"}, {"key": "k", "valueExpression": ""}]), [
        "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
        'spec.auditAnnotations[1].key: Duplicate value: "k"']),
    (policy(auditAnnotations=[{"key": "k", "valueExpression": "1"}]), [
        'spec.auditAnnotations[0].valueExpression: Invalid value: "1": '
        "must evaluate to one of [string null_type] but got int"]),
]  # fmt: skip
M = "spec.mutations[0]"
MUTATING_CASES: list[tuple[dict[str, Any], list[str]]] = [
    (mutating(), []),
    *((mutating(**changes), errors) for changes, errors in SHARED),
    (mutating(mutations=None), ["spec.mutations: Required value: mutations must contain at least one item"]),
    (mutating(reinvocationPolicy=None), ["spec.reinvocationPolicy: Required value"]),
    (mutating(reinvocationPolicy="Always"), [
        'spec.reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"']),
    (mutating(matchConstraints={"resourceRules": [{**RULE, "operations": ["DELETE"]}]}), [
        'spec.matchConstraints.resourceRules[0].operations[0]: Unsupported value: "DELETE": '
        'supported values: "*", "CONNECT", "CREATE", "UPDATE"']),
    (mutating(mutations=[{}]), [f"{M}.patchType: Required value"]),
    (mutating(mutations=[{"patchType": "Merge"}]), [
        f'{M}.patchType: Unsupported value: "Merge": supported values: "ApplyConfiguration", "JSONPatch"']),
    (mutating(mutations=[{"patchType": "JSONPatch"}]), [
        f"{M}.jsonPatch: Required value: must be specified when patchType is JSONPatch"]),
    (mutating(mutations=[{"patchType": "JSONPatch", "jsonPatch": {}}]), [
        f"{M}.jsonPatch.expression: Required value: expression is not specified"]),
    (mutating(mutations=[{**MUTATION, "patchType": "JSONPatch", "jsonPatch": {"expression": "[]"}}]), [
        f'{M}.applyConfiguration: Invalid value: {{"expression":"Object{{}}"}}: '
        "must be empty when patchType is JSONPatch",
        f'{M}.jsonPatch.expression: Invalid value: "[]": must evaluate to list(JSONPatch) but got list(dyn)']),
    (mutating(mutations=[{**MUTATION, "applyConfiguration": {"expression": "object"}}]), [
        f'{M}.applyConfiguration.expression: Invalid value: "object": must evaluate to Object but got dyn']),
]  # fmt: skip
REF = {"name": "a", "parameterNotFoundAction": "Deny"}
BINDING_CASES: list[tuple[dict[str, Any], list[str]]] = [
    (binding(), []),
    (binding(policyName=None), ["spec.policyName: Required value"]),
    (binding(paramRef=REF), []),
    (binding(paramRef={}), ["spec.paramRef: Required value: one of name or selector must be specified"]),
    (binding(paramRef={**REF, "selector": {}}), [
        "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
        "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive"]),
    (binding(paramRef={"name": "a/b", "parameterNotFoundAction": "Maybe"}), [
        "spec.paramRef.name: Invalid value: \"a/b\": may not contain '/'",
        'spec.paramRef.parameterNotFoundAction: Unsupported value: "Maybe": supported values: "Deny", "Allow"']),
    (binding(matchResources={"matchPolicy": "Maybe"}), [
        'spec.matchResources.matchPolicy: Unsupported value: "Maybe": supported values: "Equivalent", "Exact"']),
]  # fmt: skip
REFUSALS = {
    VALIDATING: CASES,
    MUTATING: MUTATING_CASES,
    MUTATING_BINDINGS: BINDING_CASES,
    VALIDATING_BINDINGS: [
        *BINDING_CASES,
        (binding(validationActions=None), [
            "spec.validationActions: Required value: at least one validation action is required"]),
        (binding(validationActions=["Deny", "Warn", "Deny", "Log"]), [
            'spec.validationActions[2]: Duplicate value: "Deny"',
            'spec.validationActions[3]: Unsupported value: "Log": supported values: "Audit", "Deny", "Warn"',
            'spec.validationActions: Invalid value: ["Deny","Warn","Deny","Log"]: must not contain both Deny and Warn '
            "(repeating the same validation failure information in the API response and headers serves no purpose)"]),
    ],
}  # fmt: skip
UPDATES = [
    (VALIDATING, policy(), policy(validations=None), _NOTHING),
    (MUTATING, mutating(), mutating(mutations=None), [
        "spec.mutations: Required value: mutations must contain at least one item"]),
    (MUTATING, mutating(), mutating(), []),
]  # fmt: skip
