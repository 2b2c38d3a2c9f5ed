"""Rejections of pods that this node does not fit, and the pods that end for a critical one.

The scheduler sends no pod to a node that does not fit; whoever sets `nodeName` may, and a node may change before the
pod arrives. Pure: no I/O, no clock, no randomness. Called by `pod_admission`. Source: kubelet's `generalFilter` and
`CriticalPodAdmissionHandler`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bridgehead.objects.core import Node, Pod
from bridgehead.objects.host_ports import NO_FREE_PORTS, host_ports, ports_conflict
from bridgehead.objects.node_fit import matches_node_affinity, untolerated
from bridgehead.objects.pod_resources import Quantities, amount, pod_requests

from .static_manifest import is_critical, is_static

_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")
_GUARANTEED, _BURSTABLE, _BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"


class Shortage(NamedTuple):
    """A resource of which the node has too little for a pod. CPU is in thousandths, memory and storage in bytes."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def lacking(self) -> int:
        return self.requested + self.used - self.capacity

    @property
    def refusal(self) -> tuple[str, str]:
        """The reason and the message of a rejection. Source: kubelet's `InsufficientResourceError`."""
        what = f"{self.resource}, requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        return f"OutOf{self.resource}", f"Node didn't have enough resource: {what}"


class NoVictims(Exception):
    """Not even the end of all other pods would make room for a critical pod."""


def find_shortages(pod: Pod, others: Iterable[Pod], allocatable: Quantities) -> list[Shortage]:
    """Return the resources that the pod needs and the running `others` do not leave it, of those that the node has."""
    wanted = _requests(pod)
    names = [name for name in _RESOURCES if name in allocatable and wanted[name]]
    others = list(others)
    used: Counter[str] = Counter(pods=len(others))
    if names != ["pods"]:  # most pods request nothing, and a node may have a hundred of them
        used.update(sum((pod_requests(other.spec) for other in others), Counter()))
    shortages = (Shortage(name, wanted[name], used[name], amount(name, allocatable[name])) for name in names)
    return [shortage for shortage in shortages if shortage.lacking > 0]


def _requests(pod: Pod) -> Counter[str]:
    return Counter({**pod_requests(pod.spec), "pods": 1})


def affinity_refusal(pod: Pod, node: Node) -> tuple[str, str] | None:
    """Return (reason, message) for a pod whose node selector or required affinity the node does not match."""
    if matches_node_affinity(pod.spec, node):
        return None
    return _predicate_failed("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")


def ports_refusal(pod: Pod, others: Iterable[Pod]) -> tuple[str, str] | None:
    """Return (reason, message) for a pod with a port of the node that one of the running `others` has."""
    wanted = host_ports(pod.spec)
    if wanted and ports_conflict(wanted, (port for other in others for port in host_ports(other.spec))):
        return _predicate_failed("NodePorts", NO_FREE_PORTS)
    return None


def taint_refusal(pod: Pod, node: Node) -> tuple[str, str] | None:
    """Return (reason, message) for a pod that would be evicted at once; static pods tolerate all taints."""
    if is_static(pod) or not untolerated(node.spec.taints, pod.spec.tolerations, ("NoExecute",)):
        return None
    return _predicate_failed("TaintToleration", "node(s) had taints that the pod didn't tolerate")


def _predicate_failed(name: str, why: str) -> tuple[str, str]:
    return name, f"Predicate {name} failed: {why}"


# --- Room for a critical pod -----------------------------------------------------------------------------


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
        freed.update(_requests(victim))
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
    requests = _requests(pod)
    distance = sum((max(0, want - requests[name]) / want) ** 2 for name, want in needed.items())
    return distance, requests["memory"], requests["cpu"]
