"""Resource limits of a pod and of its containers, and OOM scores, by their resources and the pod's QoS class.

Pure: no I/O, no clock, no randomness. Called when a sandbox or a container is about to start. Source: kubelet's
`generateLinuxContainerResources` and `qos.policy` (`GetContainerOOMScoreAdjust`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.kubelet.runtimes.runtime import Limits
from bridgehead.objects.core import Container, Pod
from bridgehead.objects.critical_pods import NODE_CRITICAL
from bridgehead.objects.pod_resources import pod_ceiling, pod_requests
from bridgehead.objects.quantities import milli_value, whole_value

Quantities = Mapping[str, str | int | float]

# oom_score_adj: the kernel adds it to a process's OOM badness; -1000 (never killed) to 1000 (killed first).
_GUARANTEED_OOM_SCORE_ADJ = -997
_BEST_EFFORT_OOM_SCORE_ADJ = 1000


def plan_pod_limits(pod: Pod, max_pids: int | None) -> Limits:
    """Return the limits of all containers together. `max_pids` bounds processes and threads, None: no bound."""
    return Limits(
        memory=pod_ceiling(pod.spec, "memory"),
        cpu_millis=pod_ceiling(pod.spec, "cpu"),
        cpu_request_millis=pod_requests(pod.spec)["cpu"],
        pids=max_pids,
    )


def plan_limits(pod: Pod, container: Container, capacity: Quantities) -> Limits:
    """Return the limits of a container. `capacity` is the node's.

    A container without a limit has that of the pod as a whole: alone it can use no more, and programs can read it.
    """
    whole = pod.spec.resources.limits if pod.spec.resources is not None else {}
    limits, requests = {**whole, **container.resources.limits}, container.resources.requests
    return Limits(
        memory=whole_value(limits.get("memory", 0)) or None,
        cpu_millis=milli_value(limits.get("cpu", 0)) or None,
        cpu_request_millis=milli_value(requests.get("cpu", container.resources.limits.get("cpu", 0))),
        oom_score_adj=oom_score_adj(pod, container, whole_value(capacity.get("memory", 0))),
    )


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Return the OOM score adjustment: Guaranteed pods are killed last, BestEffort pods first, and Burstable pods the
    later the larger the share of the node's memory (bytes) that they request."""
    if pod.spec.priority_class_name == NODE_CRITICAL or pod.status.qos_class == "Guaranteed":
        return _GUARANTEED_OOM_SCORE_ADJ
    if pod.status.qos_class == "BestEffort":
        return _BEST_EFFORT_OOM_SCORE_ADJ
    share = _unassigned_request(pod)
    score = _burstable_score(container, share, memory_capacity)
    if container.is_sidecar:
        # A sidecar is not killed before the main container that is killed first.
        score = min(score, max(_burstable_score(main, share, memory_capacity) for main in pod.spec.containers))
    return score


def _unassigned_request(pod: Pod) -> int:
    """Return the memory (bytes) that the pod as a whole requests beyond its containers, divided among these."""
    if pod.spec.resources is None or "memory" not in pod.spec.resources.requests:
        return 0
    running = [*pod.spec.containers, *(one for one in pod.spec.init_containers if one.is_sidecar)]
    assigned = sum(whole_value(one.resources.requests.get("memory", 0)) for one in running)
    return max(whole_value(pod.spec.resources.requests["memory"]) - assigned, 0) // len(running)


def _burstable_score(container: Container, share: int, memory_capacity: int) -> int:
    own = whole_value(container.resources.requests.get("memory", container.resources.limits.get("memory", 0)))
    requested = own + share
    score = 1000 - 1000 * requested // max(memory_capacity, 1)
    return min(max(score, 1000 + _GUARANTEED_OOM_SCORE_ADJ), _BEST_EFFORT_OOM_SCORE_ADJ - 1)
