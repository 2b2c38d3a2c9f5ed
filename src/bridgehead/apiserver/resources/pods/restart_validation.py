"""Validation of a container's own restart policy and of its rules for exit codes.

Called by `pod_validation`. Pure: no I/O, no clock, no randomness. Source: Kubernetes `validateContainerRestartPolicy`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared import field

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_MOST_RULES, _MOST_VALUES = 20, 255


def validate_restarts(path: str, container: JsonObject) -> list[FieldError]:
    """Validate `restartPolicy` and `restartPolicyRules` of a container or an init container."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    errors = []
    if policy is not None:
        errors += field.one_of(f"{path}.restartPolicy", policy, RESTART_POLICIES)
    elif rules:
        detail = "must specify restartPolicy when restart rules are used"
        errors.append(field.required(f"{path}.restartPolicy", detail))
    if len(rules) > _MOST_RULES:
        errors.append(field.too_many(f"{path}.restartPolicyRules", len(rules), _MOST_RULES))
    for index, rule in enumerate(rules):
        errors += _validate_rule(f"{path}.restartPolicyRules[{index}]", rule)
    return errors


def _validate_rule(path: str, rule: JsonObject) -> list[FieldError]:
    errors = field.one_of(f"{path}.action", rule.get("action", ""), _ACTIONS)
    codes = rule.get("exitCodes")
    if codes is None:
        return [*errors, field.required(f"{path}.exitCodes", "must be specified")]
    errors += field.one_of(f"{path}.exitCodes.operator", codes.get("operator", ""), _OPERATORS)
    if len(codes.get("values", ())) > _MOST_VALUES:
        errors.append(field.too_many(f"{path}.exitCodes.values", len(codes["values"]), _MOST_VALUES))
    return errors
