"""Warnings about expressions that contradict the schemas of a policy's resources.

The expressions of a policy see untyped objects; here they are compiled again, with the types of the resources that the
policy names. Warnings do not change what the policy does.
Pure: no I/O, no clock, no randomness. Source: apiserver/pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bridgehead.apiserver.cel import CompileError
from bridgehead.apiserver.cel.admission_environments import admission_environment
from bridgehead.apiserver.cel.schema_types import type_of_schema
from bridgehead.apiserver.cel.types import DYN, Type
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.table import ResourceTable

_MOST_TYPES = 10
_REFERENCE = "#/$defs/"
_INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
_QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"

Definitions = Mapping[str, JsonObject]


def checked_resources(spec: JsonObject, table: ResourceTable) -> list[Resource]:
    """Return the resources with whose types a policy's expressions are checked: those that its rules name exactly."""
    found: dict[tuple[str, str, str], Resource] = {}
    for rule in spec.get("matchConstraints", {}).get("resourceRules", ()):
        for group, version, plural in _named(rule):
            resource = table.find(group, version, plural)
            if resource is not None and len(found) < _MOST_TYPES:
                found[group, version, resource.kind] = resource
    return [found[key] for key in sorted(found)]


def _named(rule: JsonObject) -> Iterator[tuple[str, str, str]]:
    groups, versions = rule.get("apiGroups", ()), rule.get("apiVersions", ())
    if any("*" in one for one in (*groups, *versions)):
        return
    plurals = [one for one in rule.get("resources", ()) if not set(one) & {"*", "/"}]
    for group in sorted(groups):
        for version in sorted(versions):
            for plural in sorted(plurals):
                yield group, version, plural


def type_of_resource(name: str, *definitions: Definitions) -> Type | None:
    """Return the type of a definition's objects; None if it is unknown or expressions can't use them.

    A definition is looked up in `definitions` one after the other.
    """
    return type_of_schema(_inlined({"$ref": f"{_REFERENCE}{name}"}, definitions, ()), name, is_root=True)


def _inlined(schema: JsonObject, definitions: Sequence[Definitions], outer: tuple[str, ...]) -> JsonObject:
    """Return a schema without references, as structural schemas are. Unknown and recursive parts have no type."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(_REFERENCE)
        if name == _INT_OR_STRING:
            return {"x-kubernetes-int-or-string": True}
        if name == _QUANTITY:
            return {"type": "string"}
        definition = next((one[name] for one in definitions if name in one), None)
        return {} if definition is None or name in outer else _inlined(definition, definitions, (*outer, name))
    kind = schema.get("type")
    plain: JsonObject = {**schema, "type": kind[0] if isinstance(kind, list) else kind}
    if "properties" in schema:
        properties = schema["properties"].items()
        plain["properties"] = {key: _inlined(one, definitions, outer) for key, one in properties}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            plain[name] = _inlined(schema[name], definitions, outer)
    return plain


def expression_warnings(
    spec: JsonObject, types: Sequence[tuple[Resource, Type]], params: Type | None
) -> list[JsonObject]:
    """Return the ExpressionWarnings of a policy. `params` is the type of its parameters, if that is known."""
    warnings: list[JsonObject] = []
    for index, validation in enumerate(spec.get("validations", ())):
        for name in ("expression", "messageExpression"):
            problems = _problems(spec, validation.get(name, ""), types, params)
            if problems:
                path = f"spec.validations[{index}].{name}"
                warnings.append({"fieldRef": path, "warning": "\n".join(problems)})
    return warnings


def _problems(
    spec: JsonObject, expression: str, types: Sequence[tuple[Resource, Type]], params: Type | None
) -> list[str]:
    problems = []
    for resource, object_type in types if expression else ():
        variables = _variables(spec, object_type, params)
        problem = _compile(expression, object_type, params, variables)
        if isinstance(problem, str):
            problems.append(f"{resource.api_version}, Kind={resource.kind}: {problem}\n")
    return problems


def _variables(spec: JsonObject, object_type: Type, params: Type | None) -> dict[str, Type] | None:
    if not spec.get("variables"):
        return None
    known: dict[str, Type] = {}
    for variable in spec["variables"]:
        found = _compile(variable["expression"], object_type, params, known)
        known[variable["name"]] = DYN if isinstance(found, str) else found
    return known


def _compile(
    expression: str, object_type: Type, params: Type | None, variables: Mapping[str, Type] | None
) -> Type | str:
    """Return the type of an expression, or why it does not compile."""
    settings: dict[str, Any] = {} if params is None else {"params_type": params}
    environment = admission_environment(
        has_params=params is not None, variables=variables, object_type=object_type, **settings
    )
    try:
        return environment.compile(expression).result
    except CompileError as error:
        return str(error).removeprefix("compilation failed: ")
