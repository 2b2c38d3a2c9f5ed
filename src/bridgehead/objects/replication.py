"""The core/v1 kind ReplicationController, which has the status of a ReplicaSet.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

import msgspec

from .apps import ReplicaSetStatus
from .meta import LabelSelector, Object, Part, PodTemplate


class ReplicationControllerSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    labels: dict[str, str] = msgspec.field(name="selector", default_factory=dict)
    template: PodTemplate = PodTemplate()

    @property
    def selector(self) -> LabelSelector:
        """The selector in the form of other workloads."""
        return LabelSelector(match_labels=self.labels)


class ReplicationController(Object, frozen=True, kw_only=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()
