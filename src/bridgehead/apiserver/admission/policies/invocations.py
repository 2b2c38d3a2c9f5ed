"""The evaluations that a request needs: one for each policy, binding and parameter that match it.

Source: apiserver/pkg/admission/plugin/policy/generic/policy_dispatcher.go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes
from bridgehead.apiserver.admission.expression_variables import Decide, describe_namespace, request_variables
from bridgehead.apiserver.errors import not_found_named
from bridgehead.apiserver.resource import JsonObject, Resource
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Key, Store

from .parameters import NotConfigured, collect_params, find_param_resource
from .policy_objects import Binding, Policy
from .policy_sources import Candidate


@dataclass(frozen=True, slots=True)
class Problem:
    """A policy, or its binding, that can't be evaluated."""

    policy: Policy
    binding: Binding | None
    message: str


@dataclass(frozen=True, slots=True)
class Invocation:
    """One evaluation of a policy, for the request as one for `resource`."""

    policy: Policy
    binding: Binding
    resource: Resource
    param: JsonObject | None

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key of the invocation among those of a request."""
        metadata = {} if self.param is None else self.param["metadata"]
        return self.policy.name, self.binding.name, metadata.get("namespace", ""), metadata.get("name", "")

    def variables(
        self, attributes: Attributes, obj: JsonObject, old: JsonObject, store: Store, decide: Decide
    ) -> dict[str, Any]:
        """Return the variables of the policy's expressions. Raises a 404 for the request's namespace."""
        variables = request_variables(attributes, self.resource, obj, old, decide)
        variables["params"] = self.param
        if attributes.namespace and attributes.resource.namespaced:
            record = store.get(Key("namespaces", "", attributes.namespace))
            if record is None:
                raise not_found_named("namespaces", "", attributes.namespace)
            variables["namespaceObject"] = describe_namespace(msgspec.json.decode(record.value))
        return variables


async def invocations(
    candidate: Candidate,
    attributes: Attributes,
    obj: JsonObject,
    old: JsonObject,
    store: Store,
    table: ResourceTable,
) -> AsyncIterator[Invocation | Problem]:
    """Yield the evaluations of a policy that a request needs. Raises a 404 for the request's namespace."""
    policy, equivalents = candidate.policy, candidate.equivalents
    resource = policy.match.resource(attributes, equivalents, obj, old, store)
    if resource is None:
        return
    try:
        params_of = find_param_resource(policy.param_kind, table)
    except NotConfigured as error:
        yield Problem(policy, None, f"failed to configure policy: {error}")
        return
    for binding in candidate.bindings:
        if binding.match.resource(attributes, equivalents, obj, old, store) is None:
            continue
        try:
            params = await collect_params(params_of, binding, attributes.namespace, store)
        except NotConfigured as error:
            yield Problem(policy, binding, f"failed to configure binding: {error}")
            continue
        for param in params:
            yield Invocation(policy, binding, resource, param)
