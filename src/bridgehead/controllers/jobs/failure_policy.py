"""Evaluation of a Job's `podFailurePolicy` for a failed pod.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/job/pod_failure_policy.go`.
"""

from __future__ import annotations

from typing import NamedTuple

from bridgehead.objects.batch import ExitCodeRequirement, PodFailurePolicy
from bridgehead.objects.core import ContainerStatus, Pod
from bridgehead.objects.meta import find_condition


class Match(NamedTuple):
    """The rule that matched. `action`: FailJob, FailIndex, Ignore or Count; `message` is for FailJob."""

    action: str
    message: str


COUNT = Match("Count", "")


def match_failure(policy: PodFailurePolicy | None, pod: Pod) -> Match:
    """Return the first matching rule's action; without one the failure counts against the back-off limit."""
    for index, rule in enumerate(policy.rules if policy is not None else ()):
        if rule.on_exit_codes is not None:
            found = _failed_container(rule.on_exit_codes, pod)
            if found is not None:
                name, code = found
                text = f"Container {name} for pod {pod.key} failed with exit code {code}"
                return Match(rule.action, f"{text} matching {rule.action} rule at index {index}")
        for pattern in rule.on_pod_conditions:
            condition = find_condition(pod.status.conditions, pattern.type)
            if condition is not None and condition.status == pattern.status:
                text = f"Pod {pod.key} has condition {pattern.type}"
                return Match(rule.action, f"{text} matching {rule.action} rule at index {index}")
    return COUNT


def _failed_container(requirement: ExitCodeRequirement, pod: Pod) -> tuple[str, int] | None:
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        code = _exit_code(status)
        if requirement.container_name not in (None, status.name) or not code:
            continue
        if (code in requirement.values) == (requirement.operator == "In"):
            return status.name, code
    return None


def _exit_code(status: ContainerStatus) -> int:
    return status.state.terminated.exit_code if status.state.terminated is not None else 0
