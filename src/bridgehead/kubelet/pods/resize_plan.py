"""Decisions of the in-place resize of a pod: what the node can give, what takes a restart, what the status shows.

Called by `pod_resize`. Pure: no I/O, no clock, no randomness.
Source: kubelet's `allocation.Manager` (`canResizePod`), `computePodResizeAction`, KEP-1287.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridgehead.kubelet.runtimes.runtime import Limits
from bridgehead.objects.core import Container, Pod, ResourceRequirements
from bridgehead.objects.pod_resources import Quantities, amount, pod_requests

INFEASIBLE, DEFERRED = "Infeasible", "Deferred"

# Resources by the container's name; those of the pod as a whole, if it has any, by `WHOLE`.
Resources = Mapping[str, ResourceRequirements]
WHOLE: Final = ""
_QOS_ORDER: Final = {"Guaranteed": 0, "Burstable": 1, "BestEffort": 2}


def spec_resources(pod: Pod) -> dict[str, ResourceRequirements]:
    """Return what the spec wants."""
    whole = {WHOLE: pod.spec.resources} if pod.spec.resources is not None else {}
    return {one.name: one.resources for one in (*pod.spec.init_containers, *pod.spec.containers)} | whole


def known_resources(pod: Pod) -> dict[str, ResourceRequirements]:
    """Return what an earlier kubelet has given, and what the spec wants where none has."""
    status = pod.status
    known = {one.name: one.resources for one in (*status.init_container_statuses, *status.container_statuses)}
    known[WHOLE] = status.resources
    return {name: known.get(name) or wanted for name, wanted in spec_resources(pod).items()}


def effective_resources(resources: Resources, name: str) -> ResourceRequirements:
    """Return the resources of a container, with the limits of the whole pod where it has none of its own."""
    own, whole = resources[name], resources.get(WHOLE, ResourceRequirements())
    return msgspec.structs.replace(own, limits={**whole.limits, **own.limits})


def with_resources(pod: Pod, resources: Resources) -> Pod:
    """Return the pod with these resources in the place of those of its spec."""
    if spec_resources(pod) == resources:
        return pod
    init, main = (
        tuple(msgspec.structs.replace(one, resources=resources.get(one.name, one.resources)) for one in containers)
        for containers in (pod.spec.init_containers, pod.spec.containers)
    )
    spec = msgspec.structs.replace(pod.spec, init_containers=init, containers=main, resources=resources.get(WHOLE))
    return msgspec.structs.replace(pod, spec=spec)


def resize_refusal(pod: Pod, others: Iterable[Pod], allocatable: Quantities) -> tuple[str, str] | None:
    """Return reason and message if the node cannot give what a pod wants beside the running `others`, else None."""
    capacity = {name: amount(name, allocatable.get(name, 0)) for name in ("cpu", "memory")}
    wanted = pod_requests(pod.spec)
    for name in ("memory", "cpu"):
        if wanted[name] > capacity[name]:
            what = f"{name}, requested: {wanted[name]}, capacity: {capacity[name]}"
            return INFEASIBLE, f"Node didn't have enough capacity: {what}"
    used: Counter[str] = Counter()
    for other in others:
        used.update(pod_requests(other.spec))
    for name in ("cpu", "memory"):
        if wanted[name] + used[name] > capacity[name]:
            what = f"{name}, requested: {wanted[name]}, used: {used[name]}, capacity: {capacity[name]}"
            return DEFERRED, f"Node didn't have enough resource: {what}"
    return None


def earlier_resizes(pod: Pod, since: float, waiting: Iterable[tuple[Pod, float]]) -> list[Pod]:
    """Return those pods of `waiting`, with when they began to wait, that get room before a pod that waits `since` then,
    in this order: by priority, QoS class and time. Source: kubelet's `sortPendingResizes`."""

    def rank(one: Pod, since: float) -> tuple[int, int, float]:
        return -(one.spec.priority or 0), _QOS_ORDER.get(one.status.qos_class, 0), since

    others = [(rank(one, begun), one) for one, begun in waiting if one.metadata.uid != pod.metadata.uid]
    own = rank(pod, since)
    return [one for order, one in sorted(others, key=lambda pair: pair[0]) if order < own]


def with_resizes(others: Iterable[Pod], pod: Pod, earlier: Iterable[Pod], allocatable: Quantities) -> list[Pod]:
    """Return the running `others` of `pod` with what those of them that are `earlier` are about to get."""
    present = {one.metadata.uid: one for one in (*others, pod)}
    for wanted in earlier:
        uid = wanted.metadata.uid
        rest = [one for one in present.values() if one.metadata.uid != uid]
        if uid in present and resize_refusal(wanted, rest, allocatable) is None:
            present[uid] = wanted
    return [one for uid, one in present.items() if uid != pod.metadata.uid]


def resize_message(pod: Pod, what: str, error: str = "") -> str:
    """Return the message of an Event about a resize to the resources of `pod`: `what` becomes of it, and why not.

    Source: kubelet's `podResizeMessage`.
    """
    summary: dict[str, object] = {
        kind: [{"name": one.name, "resources": msgspec.to_builtins(one.resources)} for one in containers]
        for kind, containers in (("initContainers", pod.spec.init_containers), ("containers", pod.spec.containers))
        if containers
    }
    summary["generation"] = pod.metadata.generation
    if error:
        summary["error"] = error
    return f"Pod resize {what}: {msgspec.json.encode(summary).decode()}"


def widest(one: Limits, other: Limits) -> Limits:
    """Return limits that permit what either permits: those of a pod while its containers change one by one."""

    def larger(first: int | None, second: int | None) -> int | None:
        return None if first is None or second is None else max(first, second)

    return Limits(
        memory=larger(one.memory, other.memory),
        cpu_millis=larger(one.cpu_millis, other.cpu_millis),
        cpu_request_millis=max(one.cpu_request_millis, other.cpu_request_millis),
        pids=larger(one.pids, other.pids),
    )


def needs_restart(container: Container, old: ResourceRequirements, new: ResourceRequirements) -> bool:
    """Whether the change is of a resource for which the container's resize policy wants a restart."""
    changed = {
        name
        for name in ("cpu", "memory")
        if (old.limits.get(name), old.requests.get(name)) != (new.limits.get(name), new.requests.get(name))
    }
    return any(
        policy.resource_name in changed and policy.restart_policy == "RestartContainer"
        for policy in container.resize_policy
    )
