"""The apps/v1 kinds: Deployment, ReplicaSet, DaemonSet, StatefulSet, ControllerRevision.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from typing import Any

from .meta import Condition, LabelSelector, Object, ObjectMeta, Part, PodTemplate


class RollingUpdate(Part, frozen=True, kw_only=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class Strategy(Part, frozen=True, kw_only=True):
    """A Deployment's `strategy` or a DaemonSet's `updateStrategy`."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate | None = None


class DeploymentSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()
    strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10
    progress_deadline_seconds: int = 600
    paused: bool = False


class DeploymentStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: tuple[Condition, ...] = ()
    collision_count: int | None = None
    terminating_replicas: int | None = None


class Deployment(Object, frozen=True, kw_only=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(Part, frozen=True, kw_only=True):
    replicas: int = 1
    min_ready_seconds: int = 0
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()


class ReplicaSetStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    fully_labeled_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    terminating_replicas: int | None = None
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(Object, frozen=True, kw_only=True):
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class DaemonSetSpec(Part, frozen=True, kw_only=True):
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()
    update_strategy: Strategy = Strategy()
    min_ready_seconds: int = 0
    revision_history_limit: int = 10


class DaemonSetStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    current_number_scheduled: int = 0
    number_misscheduled: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0
    updated_number_scheduled: int = 0
    number_available: int = 0
    number_unavailable: int = 0
    collision_count: int | None = None


class DaemonSet(Object, frozen=True, kw_only=True):
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class StatefulSetRollingUpdate(Part, frozen=True, kw_only=True):
    """`partition`: the number of pods, from the first ordinal, that keep the old revision."""

    partition: int = 0
    max_unavailable: int | str | None = None


class StatefulSetStrategy(Part, frozen=True, kw_only=True):
    type: str = "RollingUpdate"
    rolling_update: StatefulSetRollingUpdate | None = None


class ClaimRetentionPolicy(Part, frozen=True, kw_only=True):
    """Retain or Delete: for the claims of a deleted StatefulSet, and for those of pods beyond `replicas`."""

    when_deleted: str = "Retain"
    when_scaled: str = "Retain"


class Ordinals(Part, frozen=True, kw_only=True):
    start: int = 0


class ClaimTemplate(Part, frozen=True, kw_only=True):
    """A template of claims. `spec` is untyped so that no field is lost."""

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}


class StatefulSetSpec(Part, frozen=True, kw_only=True):
    """`pod_management_policy`: OrderedReady or Parallel."""

    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    template: PodTemplate = PodTemplate()
    volume_claim_templates: tuple[ClaimTemplate, ...] = ()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    update_strategy: StatefulSetStrategy = StatefulSetStrategy()
    revision_history_limit: int = 10
    min_ready_seconds: int = 0
    persistent_volume_claim_retention_policy: ClaimRetentionPolicy = ClaimRetentionPolicy()
    ordinals: Ordinals = Ordinals()


class StatefulSetStatus(Part, frozen=True, kw_only=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    current_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""
    collision_count: int | None = None
    available_replicas: int = 0


class StatefulSet(Object, frozen=True, kw_only=True):
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()


class ControllerRevision(Object, frozen=True, kw_only=True):
    """`data` is the patch that gives the owner its state of this revision."""

    data: dict[str, Any] = {}
    revision: int = 0
