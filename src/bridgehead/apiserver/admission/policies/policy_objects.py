"""Policies and bindings as their objects describe them, and which requests they are for.

Only the labels of namespaces are read from the store. Source: apiserver/pkg/admission/plugin/policy/matching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.matching import find_resource, matches_namespace, matches_object, parse_selector
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.objects.selectors import Selector
from bridgehead.storage import Store


@dataclass(frozen=True, slots=True, eq=False)
class Match:
    """A `MatchResources`: which requests a policy or a binding is for."""

    namespaces: Selector
    objects: Selector
    rules: tuple[JsonObject, ...]
    excluded: tuple[JsonObject, ...]
    matches_equivalents: bool

    def finds_rule(self, attributes: Attributes, equivalents: Sequence[Resource]) -> bool:
        """Whether a rule may be for the request, whatever the names of objects."""
        return not self.rules or self._find(self.rules, attributes, equivalents) is not None

    def resource(
        self,
        attributes: Attributes,
        equivalents: Sequence[Resource],
        obj: JsonObject,
        old: JsonObject,
        store: Store,
    ) -> Resource | None:
        """Return the resource as which the request matches; None if it does not. Raises a 404 for its namespace."""
        if self._find(_named(self.excluded, attributes), attributes, equivalents) is not None:
            return None
        resource: Resource | None = attributes.resource
        if self.rules:
            resource = self._find(_named(self.rules, attributes), attributes, equivalents)
        if resource is None or not matches_object(self.objects, obj, old):
            return None
        return resource if matches_namespace(self.namespaces, attributes, obj, store) else None

    def _find(
        self, rules: Sequence[JsonObject], attributes: Attributes, equivalents: Sequence[Resource]
    ) -> Resource | None:
        return find_resource(rules, attributes, equivalents if self.matches_equivalents else ())


def _named(rules: Sequence[JsonObject], attributes: Attributes) -> Sequence[JsonObject]:
    """Return the rules that are for the name of the request's object."""
    return [one for one in rules if not one.get("resourceNames") or attributes.name in one["resourceNames"]]


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Policy:
    """A policy. `obj` is the object itself. The plug-ins keep its compiled expressions as long as the policy exists."""

    name: str
    obj: JsonObject
    match: Match
    param_kind: JsonObject | None
    ignores_failures: bool

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.obj["spec"]
        return spec


@dataclass(frozen=True, slots=True, eq=False)
class Binding:
    """A binding. `actions` are the validationActions of a ValidatingAdmissionPolicyBinding."""

    name: str
    policy: str
    match: Match
    param_ref: JsonObject | None
    actions: tuple[str, ...]


def parse_policy(obj: JsonObject) -> Policy:
    """Parse a policy, which has default values. Raises ValueError for a selector."""
    spec = obj["spec"]
    return Policy(
        obj["metadata"]["name"],
        obj,
        _parse_match(spec.get("matchConstraints")),
        spec.get("paramKind"),
        spec.get("failurePolicy") == "Ignore",
    )


def parse_binding(obj: JsonObject) -> Binding:
    """Parse a binding, which has default values. Raises ValueError for a selector."""
    spec = obj["spec"]
    return Binding(
        obj["metadata"]["name"],
        spec.get("policyName", ""),
        _parse_match(spec.get("matchResources")),
        spec.get("paramRef"),
        tuple(spec.get("validationActions", ())),
    )


def _parse_match(match: JsonObject | None) -> Match:
    match = match or {}
    return Match(
        parse_selector(match.get("namespaceSelector")),
        parse_selector(match.get("objectSelector")),
        tuple(match.get("resourceRules", ())),
        tuple(match.get("excludeResourceRules", ())),
        match.get("matchPolicy") != "Exact",
    )
