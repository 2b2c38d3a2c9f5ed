"""The plug-in ValidatingAdmissionPolicy.

Source: apiserver/pkg/admission/plugin/policy/validating/dispatcher.go.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import msgspec

from bridgehead.apiserver.access.authorization import Authorizer
from bridgehead.apiserver.admission.attributes import Attributes, shown_name
from bridgehead.apiserver.admission.chain import Plugin
from bridgehead.apiserver.admission.forms import Forms
from bridgehead.apiserver.errors import ApiStatus, forbidden
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.table import ResourceTable
from bridgehead.storage import Store

from .definitions import Binding, Policy
from .invocations import Invocation, Problem, invocations
from .sources import PolicySource

if TYPE_CHECKING:
    from .compiled import Denial, ValidatingRules

log = logging.getLogger(__name__)

_GROUP = "admissionregistration.k8s.io"
_FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
_CODES = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413}


class ValidatingPolicies(Plugin):
    """The plug-in ValidatingAdmissionPolicy."""

    def __init__(self, store: Store, authorizer: Authorizer, table: ResourceTable) -> None:
        policies, bindings = f"validatingadmissionpolicies.{_GROUP}", f"validatingadmissionpolicybindings.{_GROUP}"
        self._store, self._authorizer, self._table = store, authorizer, table
        self._source = PolicySource(store, policies, bindings, table)
        self._rules: WeakKeyDictionary[Policy, ValidatingRules] = WeakKeyDictionary()

    def handles(self, attributes: Attributes) -> bool:
        return bool(self._source.candidates(attributes))

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        refusals: list[ApiStatus] = []
        annotations: dict[str, list[str]] = {}
        forms = Forms(attributes)
        for candidate in self._source.candidates(attributes):
            for found in invocations(candidate, attributes, obj, old, self._store, self._table):
                if isinstance(found, Problem):
                    if not found.policy.ignores_failures:
                        refusals.append(_refusal(attributes, obj, found.policy, found.binding, found.message))
                    continue
                shown = await forms.shown(obj, found.resource), await forms.shown(old, found.resource)
                variables = found.variables(attributes, *shown, self._store, self._authorizer.decide)
                self._evaluate(found, attributes, obj, variables, refusals, annotations)
        for key, values in annotations.items():
            attributes.annotations[key] = ", ".join(dict.fromkeys(values))
        if refusals:
            raise refusals[0]

    def _evaluate(
        self,
        invocation: Invocation,
        attributes: Attributes,
        obj: JsonObject,
        variables: dict[str, Any],
        refusals: list[ApiStatus],
        annotations: dict[str, list[str]],
    ) -> None:
        policy, binding = invocation.policy, invocation.binding
        outcome = self._rules_of(policy).evaluate(variables)
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
        from .compiled import ValidatingRules

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
