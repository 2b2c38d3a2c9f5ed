"""A container's share of the node: what its resources and its pod's quality of service say. Pure.

Called when a container is about to start. Source: kubelet's `generateLinuxContainerResources` and `qos.policy`
(`GetContainerOOMScoreAdjust`).
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.objects.core import Container, Pod
from bridgehead.objects.quantities import milli_value, whole_value

from .plan import is_sidecar
from .runtimes.runtime import Limits

Quantities = Mapping[str, str | int | float]

# What the kernel adds to a process's badness when memory is out: -1000 (never killed) to 1000 (killed first).
_GUARANTEED_OOM_SCORE_ADJ = -997
_BEST_EFFORT_OOM_SCORE_ADJ = 1000


def plan_limits(pod: Pod, container: Container, capacity: Quantities, max_pids: int | None) -> Limits:
    """`capacity` is the node's; `max_pids` how many processes and threads a container may have, None for any number."""
    limits, requests = container.resources.limits, container.resources.requests
    return Limits(
        memory=whole_value(limits.get("memory", 0)) or None,
        cpu_millis=milli_value(limits.get("cpu", 0)) or None,
        cpu_request_millis=milli_value(requests.get("cpu", limits.get("cpu", 0))),
        pids=max_pids,
        oom_score_adj=oom_score_adj(pod, container, whole_value(capacity.get("memory", 0))),
    )


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Guaranteed pods are killed last, those of best effort first, others the later the more memory they request."""
    if pod.spec.priority_class_name == "system-node-critical" or pod.status.qos_class == "Guaranteed":
        return _GUARANTEED_OOM_SCORE_ADJ
    if pod.status.qos_class == "BestEffort":
        return _BEST_EFFORT_OOM_SCORE_ADJ
    score = _burstable_score(container, memory_capacity)
    if is_sidecar(container):
        # No likelier to be killed than the likeliest of the containers it serves.
        score = min(score, max(_burstable_score(main, memory_capacity) for main in pod.spec.containers))
    return score


def _burstable_score(container: Container, memory_capacity: int) -> int:
    requested = whole_value(container.resources.requests.get("memory", container.resources.limits.get("memory", 0)))
    score = 1000 - 1000 * requested // max(memory_capacity, 1)
    return min(max(score, 1000 + _GUARANTEED_OOM_SCORE_ADJ), _BEST_EFFORT_OOM_SCORE_ADJ - 1)
