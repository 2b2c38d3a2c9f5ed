"""When the change happened that a Service's endpoints are now written for: the trigger-time annotation's value. Pure.

Whoever measures how long the way from a ready pod to a programmed kernel takes reads it
(`endpoints.kubernetes.io/last-change-trigger-time`). Used by the endpoints and the endpoint slice controller.
Source: Kubernetes `k8s.io/endpointslice/util/trigger_time_tracker.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bridgehead.objects.core import Pod, Service
from bridgehead.objects.meta import ObjectKey

from ..conditions import find_condition


@dataclass
class _Seen:
    service: str | None
    pods: dict[str, str] = field(default_factory=dict)


class TriggerTimes:
    """Remembers, for each Service, the times that have been accounted for."""

    def __init__(self) -> None:
        self._seen: dict[ObjectKey, _Seen] = {}

    def advance(self, service: Service, pods: Iterable[Pod]) -> str:
        """The earliest trigger among what has changed since the last call, as an RFC 3339 time, or "" for none.

        A pod triggers when it becomes ready or stops being so, a Service when it is created.
        """
        now = {pod.metadata.uid: moment for pod in pods if (moment := _ready_changed(pod))}
        created = service.metadata.creation_timestamp
        seen = self._seen.get(service.key)
        self._seen[service.key] = _Seen(created, now)
        if seen is None or seen.service != created:
            # A new Service has no endpoints to be late with, but its pods may have been ready long before it.
            return created or ""
        return min((moment for uid, moment in now.items() if moment > seen.pods.get(uid, "")), default="")

    def forget(self, service: ObjectKey) -> None:
        self._seen.pop(service, None)


def _ready_changed(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "Ready")
    return (condition.last_transition_time or "") if condition is not None else ""
