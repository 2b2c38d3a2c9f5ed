"""FlowSchema (flowcontrol.apiserver.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateFlowSchema`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field, internal_value
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, number_column, text_column
from bridgehead.apiserver.resources.shared.conditions import find_condition
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .mandatory import FLOW_SCHEMA_SPECS

_DEFAULT_PRECEDENCE, _MAX_PRECEDENCE = 1000, 10000
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
# The kinds of subjects, and the field of each.
_SUBJECTS = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}


class FlowSchemaStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec["matchingPrecedence"] = spec.get("matchingPrecedence") or _DEFAULT_PRECEDENCE
        obj.setdefault("status", {})

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate(self, obj: Field) -> None:
        spec, name = obj.at("spec", {}), at(obj.value, "metadata", "name") or ""
        _validate_spec(spec, name)
        if name in FLOW_SCHEMA_SPECS and spec.value != FLOW_SCHEMA_SPECS[name]:
            spec.invalid(f"spec of '{name}' must equal the fixed value")
        validate_conditions(obj.at("status").at("conditions"))


def validate_conditions(conditions: Field) -> None:
    """Validate the conditions in the status of a FlowSchema or a PriorityLevelConfiguration."""
    types: set[str] = set()
    for condition in conditions.each():
        type_ = condition.at("type", "")
        type_.must_not_repeat(types)
        type_.must_be_set("must not be empty")


def _validate_spec(spec: Field, name: str) -> None:
    precedence, method = spec.at("matchingPrecedence", 0), spec.at("distinguisherMethod")
    precedence.must_be_at_least(1, "must be a positive value")
    precedence.must_be_at_most(_MAX_PRECEDENCE, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence.value == 1 and name != "exempt":
        precedence.invalid("only the schema named 'exempt' may have matchingPrecedence 1")
    if method.value is not None and method.get("type") not in _METHODS:
        method.at("type").showing(internal_value(method.value, {"type": ""})).not_supported(_METHODS)
    level = spec.at("priorityLevelConfiguration").at("name")
    level.must_be_set_and_pass(check_dns1123_subdomain, "must reference a priority level")
    spec.at("rules").must_all_obey(_validate_rule)


def _validate_rule(rule: Field) -> None:
    subjects, resources, urls = (rule.at(name) for name in ("subjects", "resourceRules", "nonResourceRules"))
    subjects.must_be_set("subjects must contain at least one value")
    subjects.must_all_obey(_validate_subject)
    if not resources and not urls:
        rule.required("at least one of resourceRules and nonResourceRules has to be non-empty")
    resources.must_all_obey(_validate_resource_rule)
    urls.must_all_obey(_validate_url_rule)


def _validate_subject(subject: Field) -> None:
    kind = subject.at("kind", "")
    if not kind.must_be_one_of(sorted(_SUBJECTS)):
        return
    name = _SUBJECTS[kind.value]
    given = subject.at(name)
    if given.must_exist(f"{name} is required when subject kind is '{kind.value}'"):
        given.at("name").must_be_set()
        if kind.value == "ServiceAccount":
            _validate_account(given)
    for other_kind, other in _SUBJECTS.items():
        if other != name and other in subject.value:
            subject.at(other).forbidden(f"{other} is forbidden when subject kind is not '{other_kind}'")


def _validate_account(account: Field) -> None:
    name = account.at("name")
    if name and name.value != "*":
        name.must_pass(check_dns1123_subdomain)
    why = "must specify namespace for service account"
    account.at("namespace").must_be_set_and_pass(check_dns1123_label, why)


def _validate_verbs(verbs: Field) -> None:
    if not verbs.must_be_set("verbs must contain at least one value"):
        return
    if "*" in verbs.value:
        _validate_wildcard(verbs, "verbs")
    elif not set(verbs.value) <= set(_VERBS):
        verbs.not_supported(_VERBS)


def _validate_wildcard(values: Field, what: str) -> None:
    """Validate that a list with `*` has no other items. `what` names such items."""
    if values and "*" in values.value and len(values.value) > 1:
        values.invalid(f"if '*' is present, must not specify other {what}")


def _validate_resource_rule(rule: Field) -> None:
    _validate_verbs(rule.at("verbs"))
    for name, one, many in (("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")):
        values = rule.at(name)
        values.must_be_set(f"resource rules must supply at least one {one}")
        _validate_wildcard(values, many)
    namespaces = rule.at("namespaces", ())
    if not namespaces and not rule.get("clusterScope"):
        namespaces.required("resource rules that are not cluster scoped must supply at least one namespace")
    elif "*" in namespaces.value:
        _validate_wildcard(namespaces, "namespaces")
    else:
        namespaces.must_all_pass(_check_namespace)


def _validate_url_rule(rule: Field) -> None:
    urls = rule.at("nonResourceURLs")
    _validate_verbs(rule.at("verbs"))
    if not urls.must_be_set("nonResourceURLs must contain at least one value"):
        return
    if "*" in urls.value:
        _validate_wildcard(urls, "non-resource URLs")
    else:
        urls.must_all_pass(_check_url)


def _check_namespace(name: str) -> list[str]:
    return [f"each member of this list must be '*' or a DNS-1123 label; {why}" for why in check_dns1123_label(name)]


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
