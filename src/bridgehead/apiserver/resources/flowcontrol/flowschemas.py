"""FlowSchema (flowcontrol.apiserver.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateFlowSchema`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, number_column, text_column
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .mandatory import FLOW_SCHEMA_SPECS

_DEFAULT_PRECEDENCE, _MAX_PRECEDENCE = 1000, 10000
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
# The kinds of subjects, and the field of each.
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


class FlowSchemaStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or _DEFAULT_PRECEDENCE
        obj.setdefault("status", {})

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: JsonObject) -> list[FieldError]:
        name, spec = at(obj, "metadata", "name") or "", obj.get("spec", {})
        errors = _validate_spec("spec", spec, name)
        if name in FLOW_SCHEMA_SPECS and spec != FLOW_SCHEMA_SPECS[name]:
            errors.append(field.invalid("spec", spec, f"spec of '{name}' must equal the fixed value"))
        return [*errors, *validate_conditions(at(obj, "status", "conditions") or ())]


def validate_conditions(conditions: Sequence[JsonObject]) -> list[FieldError]:
    """Validate the conditions in the status of a FlowSchema or a PriorityLevelConfiguration."""
    errors = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        path, type_ = f"status.conditions[{index}].type", condition.get("type", "")
        if type_ in seen:
            errors.append(field.duplicate(path, type_))
        seen.add(type_)
        if not type_:
            errors.append(field.required(path, "must not be empty"))
    return errors


def _validate_spec(path: str, spec: JsonObject, name: str) -> list[FieldError]:
    item, precedence = f"{path}.matchingPrecedence", spec.get("matchingPrecedence", 0)
    errors = []
    if precedence <= 0:
        errors.append(field.invalid(item, precedence, "must be a positive value"))
    if precedence > _MAX_PRECEDENCE:
        errors.append(field.invalid(item, precedence, f"must not be greater than {_MAX_PRECEDENCE}"))
    if precedence == 1 and name != "exempt":
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
        errors.append(field.invalid(item, precedence, detail))
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        shown = field.internal_value(method, {"type": ""})
        errors.append(field.not_supported(f"{path}.distinguisherMethod.type", shown, _METHODS))
    level, item = at(spec, "priorityLevelConfiguration", "name") or "", f"{path}.priorityLevelConfiguration.name"
    if level:
        errors.extend(field.invalid_for(item, level, check_dns1123_subdomain(level)))
    else:
        errors.append(field.required(item, "must reference a priority level"))
    for index, rule in enumerate(spec.get("rules", ())):
        errors.extend(_validate_rule(f"{path}.rules[{index}]", rule))
    return errors


def _validate_rule(path: str, rule: JsonObject) -> list[FieldError]:
    subjects, resources, urls = (rule.get(name, ()) for name in ("subjects", "resourceRules", "nonResourceRules"))
    errors = []
    if not subjects:
        errors.append(field.required(f"{path}.subjects", "subjects must contain at least one value"))
    for index, subject in enumerate(subjects):
        errors.extend(_validate_subject(f"{path}.subjects[{index}]", subject))
    if not resources and not urls:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(field.required(path, detail))
    for index, one in enumerate(resources):
        errors.extend(_validate_resource_rule(f"{path}.resourceRules[{index}]", one))
    for index, one in enumerate(urls):
        errors.extend(_validate_url_rule(f"{path}.nonResourceRules[{index}]", one))
    return errors


def _validate_subject(path: str, subject: JsonObject) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [field.not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))]
    name = _SUBJECTS[kind]
    item, one = f"{path}.{name}", subject.get(name)
    if one is None:
        errors = [field.required(item, f"{name} is required when subject kind is '{kind}'")]
    else:
        errors = [] if one.get("name") else [field.required(f"{item}.name")]
        if kind == "ServiceAccount":
            errors.extend(_validate_account(item, one))
    errors.extend(
        field.forbidden(f"{path}.{other}", f"{other} is forbidden when subject kind is not '{other_kind}'")
        for other_kind, other in _SUBJECTS.items()
        if other != name and other in subject
    )
    return errors


def _validate_account(path: str, account: JsonObject) -> list[FieldError]:
    errors = []
    name, namespace = account.get("name", ""), account.get("namespace", "")
    if name and name != "*":
        errors.extend(field.invalid_for(f"{path}.name", name, check_dns1123_subdomain(name)))
    if namespace:
        errors.extend(field.invalid_for(f"{path}.namespace", namespace, check_dns1123_label(namespace)))
    else:
        errors.append(field.required(f"{path}.namespace", "must specify namespace for service account"))
    return errors


def _validate_verbs(path: str, verbs: Sequence[str]) -> list[FieldError]:
    if not verbs:
        return [field.required(f"{path}.verbs", "verbs must contain at least one value")]
    if "*" in verbs:
        return _validate_wildcard(f"{path}.verbs", verbs, "verbs")
    if any(verb not in _VERBS for verb in verbs):
        return [field.not_supported(f"{path}.verbs", verbs, _VERBS)]
    return []


def _validate_wildcard(path: str, values: Sequence[str], what: str) -> list[FieldError]:
    if "*" in values and len(values) > 1:
        return [field.invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resource_rule(path: str, rule: JsonObject) -> list[FieldError]:
    errors = _validate_verbs(path, rule.get("verbs", ()))
    for name, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values = rule.get(name, ())
        if not values:
            errors.append(field.required(f"{path}.{name}", f"resource rules must supply at least one {one}"))
        errors.extend(_validate_wildcard(f"{path}.{name}", values, many))
    namespaces, item = rule.get("namespaces", ()), f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        errors.append(field.required(item, detail))
    elif "*" in namespaces:
        errors.extend(_validate_wildcard(item, namespaces, "namespaces"))
    else:
        errors.extend(
            field.invalid(f"{item}[{index}]", namespace, _NAMESPACE + reason)
            for index, namespace in enumerate(namespaces)
            for reason in check_dns1123_label(namespace)
        )
    return errors


def _validate_url_rule(path: str, rule: JsonObject) -> list[FieldError]:
    errors = _validate_verbs(path, rule.get("verbs", ()))
    urls, item = rule.get("nonResourceURLs", ()), f"{path}.nonResourceURLs"
    if not urls:
        errors.append(field.required(item, "nonResourceURLs must contain at least one value"))
    elif "*" in urls:
        errors.extend(_validate_wildcard(item, urls, "non-resource URLs"))
    else:
        for index, url in enumerate(urls):
            errors.extend(field.invalid_for(f"{item}[{index}]", url, _check_url(url)))
    return errors


def _check_url(url: str) -> list[str]:
    if not url:
        return ["must not be empty"]
    if not url.startswith("/"):
        return ["must start with slash"]
    if " " in url:
        return ["must not contain white-space"]
    if "//" in url:
        return ["must not contain double slash"]
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return ["wildcard can only do suffix matching"]
    return []


def _missing_level_cell(schema: JsonObject, now: float) -> str:
    dangling = find_condition(at(schema, "status", "conditions"), "Dangling")
    return "?" if dangling is None else str(dangling.get("status", ""))


RESOURCE = Resource(
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    kind="FlowSchema",
    plural="flowschemas",
    singular="flowschema",
    namespaced=False,
    subresources=("status",),
    strategy=FlowSchemaStrategy(),
    columns=(
        NAME,
        text_column("PriorityLevel", "spec", "priorityLevelConfiguration", "name"),
        number_column("MatchingPrecedence", "spec", "matchingPrecedence", type="string"),
        text_column("DistinguisherMethod", "spec", "distinguisherMethod", "type", empty=NONE),
        AGE,
        Column("MissingPL", _missing_level_cell),
    ),
    has_generation=True,
    check_name=check_dns1123_subdomain,
    kept_by_status=CLIENT_METADATA,
)
