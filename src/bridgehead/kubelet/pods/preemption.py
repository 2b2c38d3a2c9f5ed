"""Preemption: the pods that end so that a critical pod has room on this node.

Pure: no I/O, no clock, no randomness. Called by `pod_admission`. Source: kubelet's `CriticalPodAdmissionHandler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from bridgehead.objects.core import Pod

from .node_fit import Shortage, requests_of
from .static_manifest import is_critical

_GUARANTEED, _BURSTABLE, _BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"


class NoVictims(Exception):
    """Not even the end of all other pods would make room for a critical pod."""


def choose_victims(pod: Pod, others: Iterable[Pod], shortages: Sequence[Shortage]) -> list[Pod]:
    """Return the running pods that have to end for the critical `pod`, those without requests first.

    Guaranteed pods end only for what the end of all others would not free, and Burstable pods likewise.
    Raises `NoVictims`. Source: kubelet's `getPodsToPreempt`.
    """
    if not shortages:
        return []
    candidates: dict[str, list[Pod]] = {_BEST_EFFORT: [], _BURSTABLE: [], _GUARANTEED: []}
    for other in others:
        if _is_preemptable(pod, other):
            candidates[other.status.qos_class or _GUARANTEED].append(other)
    best_effort, burstable, guaranteed = candidates.values()
    needed = {shortage.resource: shortage.lacking for shortage in shortages}
    if missing := _left(needed, best_effort + burstable + guaranteed):
        listed = "".join(f"(res: {name}, q: {quantity}), " for name, quantity in missing.items())
        raise NoVictims(f"no set of running pods found to reclaim resources: [{listed}]")
    guaranteed = _nearest(guaranteed, _left(needed, best_effort + burstable))
    burstable = _nearest(burstable, _left(needed, best_effort + guaranteed))
    best_effort = _nearest(best_effort, _left(needed, burstable + guaranteed))
    return best_effort + burstable + guaranteed


def _is_preemptable(pod: Pod, other: Pod) -> bool:
    if not is_critical(other):
        return True
    own, others = pod.spec.priority, other.spec.priority
    return own is not None and others is not None and own > others


def _left(needed: Mapping[str, int], victims: Iterable[Pod]) -> dict[str, int]:
    """Return what is still needed of each resource once the victims have ended."""
    freed: Counter[str] = Counter()
    for victim in victims:
        freed.update(requests_of(victim))
    return {name: quantity - freed[name] for name, quantity in needed.items() if quantity > freed[name]}


def _nearest(pods: Sequence[Pod], needed: Mapping[str, int]) -> list[Pod]:
    """Return some of the pods, which together request at least `needed`: in each step the one that leaves least."""
    remaining, chosen = list(pods), []
    while needed:
        ranked = [(*_rank(pod, needed), index) for index, pod in enumerate(remaining)]
        nearest = remaining.pop(min(ranked)[-1])
        chosen.append(nearest)
        needed = _left(needed, [nearest])
    return chosen


def _rank(pod: Pod, needed: Mapping[str, int]) -> tuple[float, int, int]:
    """Return how far the end of the pod is from what is needed, and its requests, which should not be too large."""
    requests = requests_of(pod)
    distance = sum((max(0, want - requests[name]) / want) ** 2 for name, want in needed.items())
    return distance, requests["memory"], requests["cpu"]
