"""Validation of a container's own restart policy and of its rules for exit codes.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateContainerRestartPolicy`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES, _MOST_VALUES = 20, 255


def validate_restarts(container: Field) -> None:
    """Validate `restartPolicy` and `restartPolicyRules` of a container or an init container."""
    policy, rules = container.at("restartPolicy"), container.at("restartPolicyRules")
    policy.must_be_one_of(RESTART_POLICIES)
    if rules and policy.value is None:
        policy.required("must specify restartPolicy when restart rules are used")
    rules.must_have_at_most(_MOST_RULES)
    rules.must_all_obey(_validate_rule)


def _validate_rule(rule: Field) -> None:
    rule.at("action", "").must_be_one_of(_ACTIONS)
    codes = rule.at("exitCodes")
    if not codes.must_exist("must be specified"):
        return
    codes.at("operator", "").must_be_one_of(_OPERATORS)
    codes.at("values").must_have_at_most(_MOST_VALUES)
