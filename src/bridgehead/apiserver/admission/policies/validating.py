"""The evaluation of ValidatingAdmissionPolicies.

Source: apiserver/pkg/admission/plugin/policy/validating/dispatcher.go.
"""

from __future__ import annotations

import logging
from functools import partial
from weakref import WeakKeyDictionary

import msgspec

from bridgehead.apiserver.admission.attributes import Attributes, shown_name
from bridgehead.apiserver.admission.equivalent_forms import Forms
from bridgehead.apiserver.admission.evaluation import work_size
from bridgehead.apiserver.admission.plugin_dependencies import PluginDependencies
from bridgehead.apiserver.errors import ApiStatus, forbidden
from bridgehead.apiserver.http.worker import LONG_BYTES, in_loop, run_long
from bridgehead.apiserver.resource import JsonObject

from .compiled import Denial, Outcome, ValidatingRules
from .invocations import Invocation, Problem, invocations
from .policy_objects import Binding, Policy
from .policy_sources import PolicySource

log = logging.getLogger(__name__)

_FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class ValidatingDispatcher:
    """Evaluates the policies of a request."""

    def __init__(self, parts: PluginDependencies, policies: str, bindings: str) -> None:
        self._store, self._authorizer, self._table = parts.store, parts.authorizer, parts.table
        self._source = PolicySource(parts.store, policies, bindings, parts.table)
        self._rules: WeakKeyDictionary[Policy, ValidatingRules] = WeakKeyDictionary()

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._source.candidates(attributes))

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        refusals: list[ApiStatus] = []
        annotations: dict[str, list[str]] = {}
        forms = Forms(attributes)
        for candidate in self._source.candidates(attributes):
            async for found in invocations(candidate, attributes, obj, old, self._store, self._table):
                if isinstance(found, Problem):
                    if not found.policy.ignores_failures:
                        refusals.append(_refusal(attributes, obj, found.policy, found.binding, found.message))
                    continue
                shown = await forms.shown(obj, found.resource), await forms.shown(old, found.resource)
                variables = found.variables(attributes, *shown, self._store, in_loop(self._authorizer.decide))
                rules = self._rules_of(found.policy)
                size = work_size(rules.expressions, obj or old, LONG_BYTES)
                outcome = await run_long(size, partial(rules.evaluate, variables))
                self._record(found, attributes, obj, outcome, refusals, annotations)
        for key, values in annotations.items():
            attributes.annotations[key] = ", ".join(dict.fromkeys(values))
        if refusals:
            raise refusals[0]

    def _record(
        self,
        invocation: Invocation,
        attributes: Attributes,
        obj: JsonObject,
        outcome: Outcome,
        refusals: list[ApiStatus],
        annotations: dict[str, list[str]],
    ) -> None:
        policy, binding = invocation.policy, invocation.binding
        for denial in outcome.denials:
            if denial.is_error and policy.ignores_failures:
                log.warning("policy %s: %s; ignored by its failure policy", policy.name, denial.message)
                continue
            if "Deny" in binding.actions:
                refusals.append(_refusal(attributes, obj, policy, binding, denial.message, denial.reason))
            if "Warn" in binding.actions:
                who = f"ValidatingAdmissionPolicy '{policy.name}' with binding '{binding.name}'"
                attributes.warnings.append(f"Validation failed for {who}: {denial.message}")
            if "Audit" in binding.actions:
                attributes.annotations[_FAILURE_ANNOTATION] = _failure(policy, binding, denial)
        for key, value in outcome.annotations:
            annotations.setdefault(f"{policy.name}/{key}", []).append(value)
        if not policy.ignores_failures:
            refusals += [_refusal(attributes, obj, policy, binding, one) for one in outcome.annotation_errors]

    def _rules_of(self, policy: Policy) -> ValidatingRules:
        rules = self._rules.get(policy)
        if rules is None:
            rules = self._rules[policy] = ValidatingRules(policy.spec)
        return rules


def _refusal(
    attributes: Attributes, obj: JsonObject, policy: Policy, binding: Binding | None, why: str, reason: str = "Invalid"
) -> ApiStatus:
    who = f"ValidatingAdmissionPolicy '{policy.name}'"
    if binding is not None:
        who += f" with binding '{binding.name}'"
    message = f"{who} denied request: {why}"
    refusal = forbidden(attributes.resource, attributes.name or shown_name(obj), message, [{"message": message}])
    refusal.reason, refusal.code = reason, _CODES.get(reason, 422)
    return refusal


def _failure(policy: Policy, binding: Binding, denial: Denial) -> str:
    """Return the value of the audit annotation for a failed validation."""
    failure = {
        "message": denial.message,
        "policy": policy.name,
        "binding": binding.name,
        "expressionIndex": denial.index,
        "validationActions": list(binding.actions),
    }
    return msgspec.json.encode([failure]).decode()
