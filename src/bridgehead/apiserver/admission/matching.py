"""Requests that a webhook or a policy is for: rules, namespace selectors, object selectors.

The store is read for the labels of namespaces only. Source: apiserver/pkg/admission/plugin/webhook/predicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.apiserver.errors import not_found_named
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.meta import LabelSelector
from bridgehead.objects.selectors import Selector, compile_selector
from bridgehead.storage import Key, Store

from .attributes import CREATE, UPDATE, Attributes

_GROUP = "admissionregistration.k8s.io"
_CONFIGURATIONS = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)


def is_exempt(attributes: Attributes) -> bool:
    """Whether neither webhooks nor policies see the request: it configures them."""
    return attributes.resource.group == _GROUP and attributes.resource.kind in _CONFIGURATIONS


def equivalent_resources(resource: Resource, table: Iterable[Resource]) -> list[Resource]:
    """Return the other resources under which the objects of `resource` are served, such as other versions."""
    stored = resource.stored.id
    return [one for one in table if one.stored.id == stored and one != resource]


def find_resource(
    rules: Sequence[JsonObject], attributes: Attributes, equivalents: Sequence[Resource]
) -> Resource | None:
    """Return the resource as which the rules match a request, None if they do not match.

    It is the requested one, or one of `equivalents` in the order of the rules. The caller gives no equivalents for
    matchPolicy Exact.
    """
    for rule in rules:
        if matches_rule(rule, attributes, attributes.resource):
            return attributes.resource
    for rule in rules:
        for one in equivalents:
            if matches_rule(rule, attributes, one):
                return one
    return None


def matches_rule(rule: JsonObject, attributes: Attributes, resource: Resource) -> bool:
    """Whether a `RuleWithOperations` matches a request as if it were for `resource`."""
    return (
        _is_one_of(rule.get("operations", ()), attributes.operation)
        and _is_one_of(rule.get("apiGroups", ()), resource.group)
        and _is_one_of(rule.get("apiVersions", ()), resource.version)
        and _matches_scope(rule.get("scope", "*"), attributes)
        and any(_matches_resource(one, resource.plural, attributes.subresource) for one in rule.get("resources", ()))
    )


def _is_one_of(values: Sequence[str], wanted: str) -> bool:
    return wanted in values or "*" in values


def _matches_scope(scope: str, attributes: Attributes) -> bool:
    if scope == "*":
        return True
    # The attributes of a Namespace have its own name as their namespace, but it is a cluster-scoped object.
    is_namespaced = bool(attributes.namespace) and attributes.resource.id != "namespaces"
    return is_namespaced == (scope == "Namespaced")


def _matches_resource(pattern: str, plural: str, subresource: str) -> bool:
    resource, _, wanted = pattern.partition("/")
    return resource in ("*", plural) and wanted in ("*", subresource)


def parse_selector(selector: JsonObject | None) -> Selector:
    """Compile a label selector of a webhook or a policy; without one, everything matches. Raises ValueError."""
    return compile_selector(msgspec.convert(selector or {}, LabelSelector))


def matches_namespace(selector: Selector, attributes: Attributes, obj: JsonObject, store: Store) -> bool:
    """Whether the request's namespace matches. Cluster-scoped objects always match. Raises a 404."""
    is_namespace = attributes.resource.id == "namespaces"
    if selector.selects_everything or not (attributes.namespace or is_namespace):
        return True
    if is_namespace and not attributes.subresource and attributes.operation in (CREATE, UPDATE):
        return selector.matches(obj.get("metadata", {}).get("labels") or {})
    record = store.get(Key("namespaces", "", attributes.namespace))
    if record is None:
        raise not_found_named("namespaces", "", attributes.namespace)
    return selector.matches(record.facts.labels)


def matches_object(selector: Selector, obj: JsonObject, old: JsonObject) -> bool:
    """Whether the labels of the object or of the old object match. Options of a connection have no labels."""
    if selector.selects_everything:
        return True
    return any("metadata" in one and selector.matches(one["metadata"].get("labels") or {}) for one in (obj, old) if one)
