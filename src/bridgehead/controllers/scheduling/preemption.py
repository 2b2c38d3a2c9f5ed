"""Preemption: the pods of lower priority that have to go so that a pod fits, and the node on which they are.

Called by `scheduler` for a pod that fits nowhere. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Pod Priority and Preemption", `pkg/scheduler/framework/plugins/defaultpreemption` (v1.36).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bridgehead.objects.core import Pod
from bridgehead.objects.meta import find_condition
from bridgehead.objects.policy import PodDisruptionBudget
from bridgehead.objects.selectors import compile_selector

from .cluster_state import NodeState, PodFacts
from .filters import Reason
from .node_filters import priority_of
from .refusal_texts import count_reasons

# The reason of the condition DisruptionTarget of a victim, and its message.
BY_SCHEDULER: Final = "PreemptionByScheduler"
DISRUPTION_MESSAGE: Final = "default-scheduler: preempting to accommodate a higher priority pod"

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NO_VICTIMS: Final = "No preemption victims found for incoming pod"
_NEVER: Final = "not eligible due to preemptionPolicy=Never."
_WAITS: Final = "not eligible due to a terminating pod on the nominated node."
# Nodes on which victims are searched, as many as kube-scheduler tries at least.
_MOST_CANDIDATES: Final = 100

# Returns why a pod does not fit a node in a changed state: name and state of the node.
Refusals = Callable[[str, NodeState], Sequence[Reason]]


@dataclass(frozen=True)
class Victims:
    """The pods to preempt on a node, the most important first. `violations`: how many a budget would keep."""

    pods: tuple[PodFacts, ...]
    violations: int = 0


@dataclass(frozen=True)
class Preemption:
    """The result: a node and its victims, or "" and a message why there is none.

    `is_eligible`: the pod may preempt others; otherwise an earlier result remains.
    """

    node_name: str = ""
    victims: tuple[PodFacts, ...] = ()
    message: str = ""
    is_eligible: bool = True


def plan_preemption(
    facts: PodFacts,
    nodes: Mapping[str, NodeState],
    refused: Mapping[str, Sequence[Reason]],
    budgets: Sequence[PodDisruptionBudget],
    refusals: Refusals,
    nominated: str = "",
) -> Preemption:
    """Choose a node and its victims. `refused`: why the pod fits none of the nodes as they are. `nominated`: the node
    that an earlier preemption chose, "" without one."""
    if why := _ineligibility(facts.pod, nominated, nodes, refused):
        return Preemption(message=why, is_eligible=False)
    messages: list[str] = []
    candidates: dict[str, Victims] = {}
    for name, reasons in refused.items():
        if any(reason.is_permanent for reason in reasons):
            messages.append(NOT_HELPFUL)
        elif len(candidates) < _MOST_CANDIDATES:
            found = find_victims(facts, name, nodes[name], budgets, refusals)
            if isinstance(found, Victims):
                candidates[name] = found
            else:
                messages.extend(found)
    if not candidates:
        return Preemption(message=count_reasons(len(refused), messages))
    chosen = choose_candidate(candidates)
    return Preemption(chosen, candidates[chosen].pods)


def _ineligibility(
    pod: Pod, nominated: str, nodes: Mapping[str, NodeState], refused: Mapping[str, Sequence[Reason]]
) -> str:
    """Return why the pod may not preempt others, "" if it may. A pod whose victims still terminate waits for them."""
    if pod.spec.preemption_policy == "Never":
        return _NEVER
    if nominated not in nodes or any(reason.is_permanent for reason in refused.get(nominated, ())):
        return ""
    waits = any(
        priority_of(other.pod) < priority_of(pod) and _is_victim(other.pod) for other in nodes[nominated].pods.values()
    )
    return _WAITS if waits else ""


def _is_victim(pod: Pod) -> bool:
    condition = find_condition(pod.status.conditions, "DisruptionTarget")
    return pod.is_terminating and condition is not None and condition.reason == BY_SCHEDULER


def find_victims(
    facts: PodFacts, name: str, state: NodeState, budgets: Sequence[PodDisruptionBudget], refusals: Refusals
) -> Victims | list[str]:
    """Return the fewest important pods of a node without which the pod fits, or why there are none.

    All pods of lower priority are taken off first. Then as many as possible stay: first those that a budget protects,
    the more important ones earlier.
    """
    lower = [other for other in state.pods.values() if priority_of(other.pod) < priority_of(facts.pod)]
    if not lower:
        return [NO_VICTIMS]
    left = state.copy()
    for other in lower:
        left.remove(other.pod.metadata.uid)
    if reasons := refusals(name, left):
        return [str(reason) for reason in reasons]
    victims: list[PodFacts] = []
    violations = 0
    protected, others = split_by_budgets(sorted(lower, key=_importance), budgets)
    for is_protected, pods in ((True, protected), (False, others)):
        for other in pods:
            left.add(other)
            if refusals(name, left):
                left.remove(other.pod.metadata.uid)
                victims.append(other)
                violations += is_protected
    return Victims(tuple(sorted(victims, key=_importance)), violations)


def _importance(facts: PodFacts) -> tuple[int, str]:
    """Sort key: pods of higher priority first, then those that run longer."""
    return -priority_of(facts.pod), facts.pod.status.start_time or "~"


def split_by_budgets(
    pods: Sequence[PodFacts], budgets: Sequence[PodDisruptionBudget]
) -> tuple[list[PodFacts], list[PodFacts]]:
    """Return the pods whose preemption a budget does not allow any more, and the others, each in the given order."""
    compiled = [(budget, compile_selector(budget.spec.selector)) for budget in budgets]
    selectors = [(budget, selector) for budget, selector in compiled if not selector.selects_everything]
    allowed = [budget.status.disruptions_allowed for budget, _ in selectors]
    protected: list[PodFacts] = []
    others: list[PodFacts] = []
    for facts in pods:
        meta = facts.pod.metadata
        is_protected = False
        for index, (budget, selector) in enumerate(selectors):
            if (
                meta.labels  # no budget protects a pod without labels
                and budget.metadata.namespace == meta.namespace
                and selector.matches(meta.labels)
                and meta.name not in budget.status.disrupted_pods
            ):
                allowed[index] -= 1
                is_protected = is_protected or allowed[index] < 0
        (protected if is_protected else others).append(facts)
    return protected, others


def choose_candidate(candidates: Mapping[str, Victims]) -> str:
    """Return the node whose victims matter least: budgets, highest priority, sum of priorities, number of pods, and the
    latest start of those with the highest priority."""
    costs = {name: _cost(victims) for name, victims in candidates.items()}
    least = min(costs.values())
    best = [name for name, cost in costs.items() if cost == least]
    return max(best, key=lambda name: _earliest_start(candidates[name].pods))


def _cost(victims: Victims) -> tuple[int, int, int, int]:
    priorities = [priority_of(facts.pod) for facts in victims.pods]
    # Each pod counts at least 1, so that few pods of negative priority are better than many.
    total = sum(priority + (1 << 31) for priority in priorities)
    return victims.violations, max(priorities, default=0), total, len(priorities)


def _earliest_start(pods: Iterable[PodFacts]) -> str:
    ordered = sorted(pods, key=_importance)
    return ordered[0].pod.status.start_time or "~" if ordered else "~"
