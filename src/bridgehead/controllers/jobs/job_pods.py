"""Pods of a Job: the template with the tracking finalizer and, for an indexed Job, the index; and which are too many.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/controller/job/indexed_job_utils.go`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from bridgehead.controllers.workloads.deletion_order import choose_victims
from bridgehead.objects.batch import Job
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import PodTemplate

from .failure_policy import match_failure
from .progress import FAILURE_COUNT, IGNORED_FAILURE_COUNT, INDEX, TRACKING_FINALIZER, failure_count, index_of

_VARIABLE: Final = "JOB_COMPLETION_INDEX"
_LONGEST_NAME: Final = 63
_LONGEST_PREFIX: Final = _LONGEST_NAME - 5  # of a generated name


def pod_template(job: Job, index: int | None = None, failures: list[Pod] | None = None) -> tuple[PodTemplate, str]:
    """Return the template of the next pod, and the begin of its name.

    `index`: the pod's completion index. `failures`: the failed pods of this index, where each has a limit.
    """
    template = job.spec.template
    metadata = template.metadata
    labels, annotations = dict(metadata.labels), dict(metadata.annotations)
    spec = dict(template.spec)
    prefix = f"{job.metadata.name}-"
    if index is not None:
        labels[INDEX] = annotations[INDEX] = str(index)
        for kind in ("initContainers", "containers"):
            if kind in spec:
                spec[kind] = [_with_index(container) for container in spec[kind]]
        host_name = f"{job.metadata.name}-{index}"
        if len(host_name) <= _LONGEST_NAME:
            spec["hostname"] = host_name
        suffix = f"-{index}-"
        prefix = job.metadata.name[: _LONGEST_PREFIX - len(suffix)] + suffix  # an index that is cut off would mislead
        if job.spec.backoff_limit_per_index is not None:
            counted, ignored = _failures(job, failures or [])
            annotations[FAILURE_COUNT] = str(counted)
            if ignored:
                annotations[IGNORED_FAILURE_COUNT] = str(ignored)
    made = msgspec.structs.replace(
        metadata,
        labels=labels,
        annotations=annotations,
        finalizers=(*(name for name in metadata.finalizers if name != TRACKING_FINALIZER), TRACKING_FINALIZER),
    )
    return PodTemplate(metadata=made, spec=spec), prefix


def choose_surplus(job: Job, active: Sequence[Pod], count: int, now: float) -> list[Pod]:
    """Return the active pods to delete: at least `count`, fewer only if there are fewer.

    An indexed Job loses all pods whose index is not one of its completions, and all but one of each index.
    """
    surplus: list[Pod] = []
    staying = list(active)
    if job.spec.is_indexed:
        by_index: dict[int | None, list[Pod]] = {}
        for pod in active:
            index = index_of(pod)
            is_needed = index is not None and index < (job.spec.completions or 0)
            by_index.setdefault(index if is_needed else None, []).append(pod)
        surplus = by_index.pop(None, [])
        for pods in by_index.values():
            surplus += choose_victims(pods, pods, len(pods) - 1, now)
        leaving = {pod.metadata.uid for pod in surplus}
        staying = [pod for pod in active if pod.metadata.uid not in leaving]
    return surplus + choose_victims(staying, staying, max(0, count - len(surplus)), now)


def _failures(job: Job, failures: list[Pod]) -> tuple[int, int]:
    """Return how many failures of the index count, and how many the policy ignores."""
    counted = ignored = 0
    for pod in failures:
        is_ignored = match_failure(job.spec.pod_failure_policy, pod).action == "Ignore"
        counted = max(counted, failure_count(pod) + (not is_ignored))
        ignored = max(ignored, failure_count(pod, IGNORED_FAILURE_COUNT) + is_ignored)
    return counted, ignored


def _with_index(container: dict[str, Any]) -> dict[str, Any]:
    if any(variable.get("name") == _VARIABLE for variable in container.get("env", ())):
        return container
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    return container | {"env": [*container.get("env", ()), {"name": _VARIABLE, "valueFrom": source}]}
