"""Rejections of pods that this node does not fit.

The scheduler sends no pod to a node that does not fit; whoever sets `nodeName` may, and a node may change before the
pod arrives. Pure: no I/O, no clock, no randomness. Called by `pod_admission`. Source: kubelet's `generalFilter`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from bridgehead.objects.core import Node, Pod
from bridgehead.objects.host_ports import NO_FREE_PORTS, host_ports, ports_conflict
from bridgehead.objects.node_fit import matches_node_affinity, untolerated
from bridgehead.objects.pod_resources import Quantities, amount, pod_requests

from .static_manifest import is_static

_RESOURCES = ("pods", "cpu", "memory", "ephemeral-storage")


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


def find_shortages(pod: Pod, others: Iterable[Pod], allocatable: Quantities) -> list[Shortage]:
    """Return the resources that the pod needs and the running `others` do not leave it, of those that the node has."""
    wanted = requests_of(pod)
    names = [name for name in _RESOURCES if name in allocatable and wanted[name]]
    others = list(others)
    used: Counter[str] = Counter(pods=len(others))
    if names != ["pods"]:  # most pods request nothing, and a node may have a hundred of them
        used.update(sum((pod_requests(other.spec) for other in others), Counter()))
    shortages = (Shortage(name, wanted[name], used[name], amount(name, allocatable[name])) for name in names)
    return [shortage for shortage in shortages if shortage.lacking > 0]


def requests_of(pod: Pod) -> Counter[str]:
    """Return the amounts that a pod takes of the node, itself included."""
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
