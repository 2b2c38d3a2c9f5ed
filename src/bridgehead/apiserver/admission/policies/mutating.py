"""The evaluation of MutatingAdmissionPolicies: they change the object one after the other.

When a policy changes the object, all plug-ins run a second time, and with them the policies with reinvocationPolicy
IfNeeded that were evaluated before the change.
Source: apiserver/pkg/admission/plugin/policy/mutating/dispatcher.go, reinvocationcontext.go.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from weakref import WeakKeyDictionary

from bridgehead.apiserver.admission.attributes import Attributes, shown_name
from bridgehead.apiserver.admission.equivalent_forms import Forms
from bridgehead.apiserver.admission.evaluation import ExpressionFailed, work_size
from bridgehead.apiserver.admission.plugin_dependencies import PluginDependencies
from bridgehead.apiserver.bodies.conforming import conform
from bridgehead.apiserver.cel import Budget, BudgetExceeded
from bridgehead.apiserver.errors import ApiStatus, SchemaMismatch, forbidden
from bridgehead.apiserver.http.worker import LONG_BYTES, in_loop, run_long
from bridgehead.apiserver.resource import JsonObject, Resource, copied

from .compiled import MutatingRules
from .invocations import Invocation, Problem, invocations
from .patches import PatchFailed, apply_configuration, apply_patches
from .policy_objects import Binding, Policy
from .policy_sources import PolicySource

log = logging.getLogger(__name__)

_KEPT = "MutatingAdmissionPolicy"


@dataclass(slots=True)
class _Passes:
    """State of the two passes. Invocations are known by their keys."""

    reinvocable: set[tuple[str, str, str, str]] = field(default_factory=set)
    due: set[tuple[str, str, str, str]] = field(default_factory=set)
    output: JsonObject | None = None

    def require(self) -> None:
        """Let all policies that were evaluated before be evaluated again."""
        self.due |= self.reinvocable
        self.reinvocable.clear()


class MutatingDispatcher:
    """Applies the policies of a request."""

    def __init__(self, parts: PluginDependencies, policies: str, bindings: str) -> None:
        self._store, self._authorizer, self._table = parts.store, parts.authorizer, parts.table
        self._shape_of, self._root_of = parts.shape_of, parts.root_of
        self._source = PolicySource(parts.store, policies, bindings, parts.table)
        self._rules: WeakKeyDictionary[Policy, MutatingRules] = WeakKeyDictionary()

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._source.candidates(attributes))

    async def mutate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> JsonObject:
        passes: _Passes = attributes.reinvocation.kept.setdefault(_KEPT, _Passes())
        if attributes.reinvocation.is_second and passes.output != obj:
            passes.require()  # other plug-ins have changed the object meanwhile
        problems: list[Problem] = []
        for candidate in self._source.candidates(attributes):
            async for found in invocations(candidate, attributes, obj, old, self._store, self._table):
                if isinstance(found, Problem):
                    problems.append(found)
                else:
                    obj = await self._invoke(found, attributes, obj, old, passes, problems)
        passes.output = copied(obj)
        _refuse(attributes, obj, [one for one in problems if not one.policy.ignores_failures])
        return obj

    async def _invoke(
        self,
        invocation: Invocation,
        attributes: Attributes,
        obj: JsonObject,
        old: JsonObject,
        passes: _Passes,
        problems: list[Problem],
    ) -> JsonObject:
        """Return the object as a policy changes it. Appends what fails to `problems`."""
        if attributes.reinvocation.is_second and invocation.key not in passes.due:
            return obj
        policy, binding, forms = invocation.policy, invocation.binding, Forms(attributes)
        rules = self._rules_of(policy)
        shown = await forms.shown(obj, invocation.resource), await forms.shown(old, invocation.resource)
        variables = invocation.variables(attributes, *shown, self._store, in_loop(self._authorizer.decide))
        try:
            size = work_size(rules.conditions.expressions, shown[0] or shown[1], LONG_BYTES)
            if not await run_long(size, partial(rules.conditions.hold, variables)):
                return obj
        except ExpressionFailed as error:
            problems.append(Problem(policy, binding, str(error)))
            return obj
        changed = await self._changed(invocation, rules, attributes, shown[0], variables, problems) if obj else obj
        if changed != shown[0]:
            obj = await forms.taken(changed, invocation.resource)
            passes.require()
            attributes.reinvocation.is_wanted = True
        if policy.spec.get("reinvocationPolicy") == "IfNeeded":
            passes.reinvocable.add(invocation.key)
        return obj

    async def _changed(
        self,
        invocation: Invocation,
        rules: MutatingRules,
        attributes: Attributes,
        obj: JsonObject,
        variables: dict[str, object],
        problems: list[Problem],
    ) -> JsonObject:
        """Return the object with a policy's mutations, each of which sees those before."""
        for kind, expression in rules.mutations:
            budget = Budget()
            try:
                complete = rules.complete({**variables, "object": obj}, budget)
                size = work_size(rules.expressions, obj, LONG_BYTES)
                value = await run_long(size, partial(expression.evaluate, complete, budget))
                if kind == "JSONPatch":
                    patched = apply_patches(obj, value)
                else:
                    patched = apply_configuration(obj, value, self._root_of(invocation.resource))
                obj = self._completed(patched, obj, invocation.resource, attributes)
            except (ExpressionFailed, BudgetExceeded, PatchFailed, SchemaMismatch, RecursionError) as error:
                problems.append(Problem(invocation.policy, invocation.binding, str(error)))
        return obj

    def _completed(
        self, patched: JsonObject, before: JsonObject, resource: Resource, attributes: Attributes
    ) -> JsonObject:
        """Return a changed object with default values. Raises SchemaMismatch."""
        if (patched.get("apiVersion"), patched.get("kind")) != (before.get("apiVersion"), before.get("kind")):
            raise SchemaMismatch("the patch changes the kind of the object")
        kind = attributes.kind or (resource.group, resource.version, resource.kind)
        completed, _ = conform(patched, self._shape_of(resource, kind))
        if attributes.kind is None and resource.stored_form is None:
            resource.strategy.default(completed)
        return completed

    def _rules_of(self, policy: Policy) -> MutatingRules:
        rules = self._rules.get(policy)
        if rules is None:
            rules = self._rules[policy] = MutatingRules(policy.spec)
        return rules


def _refuse(attributes: Attributes, obj: JsonObject, problems: list[Problem]) -> None:
    """Raise a refusal if a policy could not be applied."""
    if not problems:
        return
    messages = [_describe(one.policy, one.binding, one.message) for one in problems]
    causes: list[JsonObject] = [{"message": message} for message in messages]
    refusal = forbidden(attributes.resource, attributes.name or shown_name(obj), "", causes)
    is_configured = not problems[0].message.startswith("failed to configure")
    raise ApiStatus(403, "Invalid" if is_configured else "Forbidden", messages[0], refusal.details)


def _describe(policy: Policy, binding: Binding | None, why: str) -> str:
    if binding is None:
        return f'policy "{policy.name}" denied request: {why}'
    return f"policy '{policy.name}' with binding '{binding.name}' denied request: {why}"
