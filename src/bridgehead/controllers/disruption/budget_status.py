"""The status of a PodDisruptionBudget. Called by `budgets`.

Pure: no I/O, no clock, no randomness. Times are in seconds since the epoch.
Source: kube-controller-manager's disruption controller, `component-helpers/apps/poddisruptionbudget`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bridgehead.controllers.conditions import without_condition
from bridgehead.controllers.workloads.rollout import scaled_value
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import Condition, LabelSelector, find_condition
from bridgehead.objects.policy import PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus
from bridgehead.objects.selectors import shown_selector
from bridgehead.objects.times import format_time, parse_time

# An evicted pod that is not being deleted after this time counts again.
DELETION_TIMEOUT: Final = 120.0
DISRUPTION_ALLOWED: Final = "DisruptionAllowed"


def needs_scale(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether the budget depends on the number of pods that the pods' owners want."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def expectation(spec: PodDisruptionBudgetSpec, pods: int, scale: int) -> tuple[int, int]:
    """Return how many pods are expected, and how many must be healthy.

    `pods` is the number of selected ones, `scale` that which their owners want. Raises ValueError for a wrong amount.
    """
    if spec.max_unavailable is not None:
        return scale, max(0, scale - scaled_value(spec.max_unavailable, scale, round_up=True, default=0))
    if isinstance(spec.min_available, str):
        return scale, scaled_value(spec.min_available, scale, round_up=True, default=0)
    return (0, 0) if spec.min_available is None else (pods, spec.min_available)


def describe_unmanaged_pods(selector: LabelSelector | None) -> str:
    """Return the text of an Event about pods without a controller, which no percentage can be of."""
    return (
        f"Pods selected by this PodDisruptionBudget (selector: {shown_selector(selector)}) were found to be "
        "unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined "
        'behavior. To account for these pods please set ".spec.minAvailable" field of the PDB to an integer value.'
    )


def pending_disruptions(budget: PodDisruptionBudget, pods: Sequence[Pod], now: float) -> dict[str, str]:
    """Return those entries of `disruptedPods` whose pods may still be deleted."""
    return {
        name: since
        for pod in pods
        if not pod.is_terminating
        and (since := budget.status.disrupted_pods.get(name := pod.metadata.name)) is not None
        and parse_time(since) + DELETION_TIMEOUT >= now
    }


def compute_status(
    budget: PodDisruptionBudget, pods: Sequence[Pod], expected: int, desired: int, now: float
) -> PodDisruptionBudgetStatus:
    """Compute the status from the selected `pods` and their `expectation`."""
    disrupted = pending_disruptions(budget, pods, now)
    healthy = sum(pod.is_ready and not pod.is_terminating and pod.metadata.name not in disrupted for pod in pods)
    # A budget without pods allows nothing, because its first pods may come before its next status.
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget.metadata.generation
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status="True" if allowed else "False",
        reason="SufficientPods" if allowed else "InsufficientPods",
        last_transition_time=format_time(now),
        observed_generation=generation,
    )
    return PodDisruptionBudgetStatus(
        observed_generation=generation,
        disrupted_pods=disrupted,
        disruptions_allowed=allowed,
        current_healthy=healthy,
        desired_healthy=desired,
        expected_pods=expected,
        conditions=_with(budget.status.conditions, condition),
    )


def failed_status(budget: PodDisruptionBudget, why: str, now: float) -> PodDisruptionBudgetStatus:
    """Return the status of a budget whose pods cannot be counted: it allows no disruption."""
    condition = Condition(
        type=DISRUPTION_ALLOWED,
        status="False",
        reason="SyncFailed",
        message=why,
        last_transition_time=format_time(now),
        observed_generation=budget.status.observed_generation,
    )
    conditions = _with(budget.status.conditions, condition)
    return msgspec.structs.replace(budget.status, disruptions_allowed=0, conditions=conditions)


def _with(conditions: Sequence[Condition], wanted: Condition) -> tuple[Condition, ...]:
    """Return `conditions` with `wanted`, whose time changes only with its status."""
    current = find_condition(conditions, wanted.type)
    if current is not None and current.status == wanted.status:
        wanted = msgspec.structs.replace(wanted, last_transition_time=current.last_transition_time)
    return (*without_condition(conditions, wanted.type), wanted)


def patch_of(budget: PodDisruptionBudget, wanted: PodDisruptionBudgetStatus) -> dict[str, Any] | None:
    """Return the merge patch that gives the budget its `wanted` status; None when it has it.

    The patch fails if the budget has changed meanwhile, as the API server may have allowed an eviction.
    """
    if budget.status == wanted:
        return None
    status: dict[str, Any] = {
        "observedGeneration": wanted.observed_generation,
        "disruptionsAllowed": wanted.disruptions_allowed,
        "currentHealthy": wanted.current_healthy,
        "desiredHealthy": wanted.desired_healthy,
        "expectedPods": wanted.expected_pods,
        "conditions": [{"reason": "", "message": ""} | msgspec.to_builtins(one) for one in wanted.conditions],
        "disruptedPods": None,
    }
    if wanted.disrupted_pods:
        status["disruptedPods"] = dict.fromkeys(budget.status.disrupted_pods) | wanted.disrupted_pods
    return {"metadata": {"resourceVersion": budget.metadata.resource_version}, "status": status}
