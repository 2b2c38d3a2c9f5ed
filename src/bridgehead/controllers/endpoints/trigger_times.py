"""Value of the annotation `endpoints.kubernetes.io/last-change-trigger-time`: when the change happened.

Proxies and the DNS measure the latency from a ready pod to a programmed kernel with it. Used by the Endpoints and the
EndpointSlice controller. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `k8s.io/endpointslice/util/trigger_time_tracker.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bridgehead.objects.core import Pod, Service
from bridgehead.objects.meta import ObjectKey, find_condition


@dataclass
class _Seen:
    service: str | None
    pods: dict[str, str] = field(default_factory=dict)


class TriggerTimes:
    """The trigger times of each Service that earlier writes have covered."""

    def __init__(self) -> None:
        self._seen: dict[ObjectKey, _Seen] = {}

    def advance(self, service: Service, pods: Iterable[Pod]) -> str:
        """Return the earliest trigger since the last call in RFC 3339, "" without any.

        Triggers are changes of a pod's readiness and the creation of the Service.
        """
        now = {pod.metadata.uid: moment for pod in pods if (moment := _ready_changed(pod))}
        created = service.metadata.creation_timestamp
        seen = self._seen.get(service.key)
        self._seen[service.key] = _Seen(created, now)
        if seen is None or seen.service != created:
            # The time of a new Service is its creation: its pods may have been ready long before it.
            return created or ""
        return min((moment for uid, moment in now.items() if moment > seen.pods.get(uid, "")), default="")

    def forget(self, service: ObjectKey) -> None:
        self._seen.pop(service, None)


def _ready_changed(pod: Pod) -> str:
    condition = find_condition(pod.status.conditions, "Ready")
    return (condition.last_transition_time or "") if condition is not None else ""
