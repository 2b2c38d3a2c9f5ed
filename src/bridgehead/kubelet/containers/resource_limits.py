"""A container's resource limits and OOM score, by its resources and its pod's QoS class.

Pure: no I/O, no clock, no randomness. Called when a container is about to start. Source: kubelet's
`generateLinuxContainerResources` and `qos.policy` (`GetContainerOOMScoreAdjust`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.kubelet.runtimes.runtime import Limits
from bridgehead.objects.core import Container, Pod
from bridgehead.objects.critical_pods import NODE_CRITICAL
from bridgehead.objects.quantities import milli_value, whole_value

Quantities = Mapping[str, str | int | float]

# oom_score_adj: the kernel adds it to a process's OOM badness; -1000 (never killed) to 1000 (killed first).
_GUARANTEED_OOM_SCORE_ADJ = -997
_BEST_EFFORT_OOM_SCORE_ADJ = 1000


def plan_limits(pod: Pod, container: Container, capacity: Quantities, max_pids: int | None) -> Limits:
    """Return the limits to set. `capacity` is the node's; `max_pids` bounds processes and threads, None: no bound.

    A limit of the pod as a whole bounds each container without its own, as there is no cgroup for a whole pod.
    """
    whole = pod.spec.resources.limits if pod.spec.resources is not None else {}
    limits, requests = {**whole, **container.resources.limits}, container.resources.requests
    return Limits(
        memory=whole_value(limits.get("memory", 0)) or None,
        cpu_millis=milli_value(limits.get("cpu", 0)) or None,
        cpu_request_millis=milli_value(requests.get("cpu", container.resources.limits.get("cpu", 0))),
        pids=max_pids,
        oom_score_adj=oom_score_adj(pod, container, whole_value(capacity.get("memory", 0))),
    )


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Return the OOM score adjustment: Guaranteed pods are killed last, BestEffort pods first, and Burstable pods the
    later the larger the share of the node's memory (bytes) that they request."""
    if pod.spec.priority_class_name == NODE_CRITICAL or pod.status.qos_class == "Guaranteed":
        return _GUARANTEED_OOM_SCORE_ADJ
    if pod.status.qos_class == "BestEffort":
        return _BEST_EFFORT_OOM_SCORE_ADJ
    score = _burstable_score(container, memory_capacity)
    if container.is_sidecar:
        # A sidecar is not killed before the main container that is killed first.
        score = min(score, max(_burstable_score(main, memory_capacity) for main in pod.spec.containers))
    return score


def _burstable_score(container: Container, memory_capacity: int) -> int:
    requested = whole_value(container.resources.requests.get("memory", container.resources.limits.get("memory", 0)))
    score = 1000 - 1000 * requested // max(memory_capacity, 1)
    return min(max(score, 1000 + _GUARANTEED_OOM_SCORE_ADJ), _BEST_EFFORT_OOM_SCORE_ADJ - 1)
