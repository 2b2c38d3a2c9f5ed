"""Rollout of a Deployment: the sizes of its replica sets.

Called by `deployment_controller`, which scales the replica sets and calls again when the cluster has followed. Every
function plans one step only, so that a step is safe whatever became of the previous one.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/controller/deployment` (v1.36), and "Deployments" in its documentation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from bridgehead.objects.apps import Deployment, ReplicaSet
from bridgehead.objects.integers import parse_integer
from bridgehead.objects.meta import PodTemplate

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
REVISION_HISTORY = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS = "deployment.kubernetes.io/max-replicas"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OWN_ANNOTATIONS = frozenset(
    [
        LAST_APPLIED,
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        "deprecated.deployment.rollback.revision",
    ]
)
# Limit of a replica set's annotation with its earlier revisions, in characters.
_MAX_HISTORY = 2000
UNLIMITED_HISTORY = 2**31 - 1
# The largest number of replicas in the API, which a replica set cannot exceed with the surge of its Deployment.
MAX_REPLICA_COUNT = 2**31 - 1


@dataclass(frozen=True)
class Scale:
    """The wanted number of replicas of a replica set."""

    replica_set: ReplicaSet
    replicas: int


# --- Limits ----------------------------------------------------------------------------------------------


def scaled_value(value: int | str | None, total: int, *, round_up: bool, default: int | str) -> int:
    """Return a number for a number or a percentage of `total`. Raises ValueError for anything else."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    percent = parse_integer(value.removesuffix("%"))
    if not value.endswith("%") or percent is None or not value[0].isdigit():
        raise ValueError(f"invalid value for IntOrString: invalid type: {value!r} is neither int nor percentage")
    # Integer arithmetic: 0.29 * 100 is less than 29 in floating point.
    product = percent * total
    return -(-product // 100) if round_up else product // 100


def resolve_fenceposts(max_surge: int | str | None, max_unavailable: int | str | None, desired: int) -> tuple[int, int]:
    """Return surge (rounded up) and unavailable (rounded down), not both 0, with which no rollout would progress."""
    surge = min(scaled_value(max_surge, desired, round_up=True, default="25%"), MAX_REPLICA_COUNT - desired)
    unavailable = scaled_value(max_unavailable, desired, round_up=False, default="25%")
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def limits(deployment: Deployment) -> tuple[int, int]:
    """Return max surge and max unavailable as numbers of pods; 0 for other strategies than RollingUpdate."""
    if not is_rolling(deployment):
        return 0, 0
    rolling = deployment.spec.strategy.rolling_update
    desired = deployment.spec.replicas
    surge, unavailable = resolve_fenceposts(
        rolling.max_surge if rolling else None, rolling.max_unavailable if rolling else None, desired
    )
    return surge, min(unavailable, desired)


# --- Which replica set is which --------------------------------------------------------------------------


def without_hash(template: PodTemplate) -> PodTemplate:
    labels = {key: value for key, value in template.metadata.labels.items() if key != HASH_LABEL}
    return msgspec.structs.replace(template, metadata=msgspec.structs.replace(template.metadata, labels=labels))


def same_template(one: PodTemplate, other: PodTemplate) -> bool:
    """Whether two templates are equal, except for the label with the hash of the template."""
    return without_hash(one) == without_hash(other)


def by_creation(replica_set: ReplicaSet) -> tuple[str, str]:
    """Sort key: oldest first, then by name."""
    return replica_set.metadata.creation_timestamp or "", replica_set.metadata.name


def find_new(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Return the replica set with the Deployment's template; the oldest of several."""
    same = (rs for rs in replica_sets if same_template(rs.spec.template, deployment.spec.template))
    return min(same, key=by_creation, default=None)


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return the replica sets that want pods."""
    return [rs for rs in replica_sets if rs.spec.replicas > 0]


def revision_of(replica_set: ReplicaSet) -> int:
    """Return the revision in a replica set's annotation; 0 without a valid one."""
    return parse_integer(replica_set.metadata.annotations.get(REVISION, "")) or 0


def next_revision(olds: Iterable[ReplicaSet]) -> int:
    return max((revision_of(rs) for rs in olds), default=0) + 1


# --- Annotations -----------------------------------------------------------------------------------------


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    """Return the annotations with the Deployment's size, by which a later change of the size is detected."""
    desired = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(desired + limits(deployment)[0])}


def new_annotations(deployment: Deployment, existing: ReplicaSet | None, revision: int) -> dict[str, str]:
    """Return all annotations of the new replica set: those of its Deployment, and its revisions."""
    current: Mapping[str, str] = existing.metadata.annotations if existing else {}
    inherited = {k: v for k, v in deployment.metadata.annotations.items() if k not in _OWN_ANNOTATIONS}
    wanted = {**current, **inherited}
    if existing is None:
        return wanted | {REVISION: str(revision)} | replicas_annotations(deployment)
    # The next revision may be smaller after the deletion of a later replica set; revisions never decrease.
    old_revision = revision_of(existing)
    if old_revision < revision:
        wanted[REVISION] = str(revision)
        if old_revision:
            history = [*filter(None, current.get(REVISION_HISTORY, "").split(",")), str(old_revision)]
            while len(",".join(history)) > _MAX_HISTORY:
                history.pop(0)
            wanted[REVISION_HISTORY] = ",".join(history)
    return wanted


# --- Steps -----------------------------------------------------------------------------------------------


def total_replicas(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(rs.spec.replicas for rs in replica_sets)


def total_available(replica_sets: Iterable[ReplicaSet]) -> int:
    return sum(rs.status.available_replicas for rs in replica_sets)


def replicas_of_new(deployment: Deployment, replica_sets: Iterable[ReplicaSet], current: int) -> int:
    """Return the number of replicas that the new replica set, which wants `current`, may have now.

    `replica_sets`: all of the Deployment, with the new one if it exists.
    """
    desired = deployment.spec.replicas
    if not is_rolling(deployment):
        return desired
    room = desired + limits(deployment)[0] - total_replicas(replica_sets)
    if room <= 0:
        return current
    return current + min(room, desired - current)


def is_saturated(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Whether the new replica set wants, has, and has available all replicas of the Deployment."""
    if new is None:
        return False
    desired = deployment.spec.replicas
    return (
        new.spec.replicas == desired
        and new.metadata.annotations.get(DESIRED_REPLICAS) == str(desired)
        and new.status.available_replicas == desired
    )


def is_scaling_event(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> bool:
    """Whether the Deployment's size has changed since its active replica sets were last scaled."""
    noted = (rs.metadata.annotations.get(DESIRED_REPLICAS) for rs in active(replica_sets))
    return any(desired is not None and desired != str(deployment.spec.replicas) for desired in noted)


def plan_scaling(deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> list[Scale]:
    """Plan proportional sizes after the Deployment was scaled or while it is paused, without progress of a rollout.

    The result contains every replica set that needs a new size annotation, even if its own size stays.
    """
    every = [*olds, new] if new else list(olds)
    wanting = active(every)
    if len(wanting) <= 1:
        only = wanting[0] if wanting else new or max(olds, key=by_creation, default=None)
        return [Scale(only, deployment.spec.replicas)] if only else []
    if is_saturated(deployment, new):
        return [Scale(rs, 0) for rs in active(olds)]
    if not is_rolling(deployment):
        return []
    return _plan_proportional(deployment, wanting)


def _plan_proportional(deployment: Deployment, wanting: list[ReplicaSet]) -> list[Scale]:
    desired = deployment.spec.replicas
    allowed = desired + limits(deployment)[0] if desired else 0
    to_add = allowed - total_replicas(wanting)
    # Largest first; of equal ones the newest grows first and the oldest shrinks first.
    ordered = sorted(wanting, key=by_creation, reverse=to_add > 0)
    ordered.sort(key=lambda rs: rs.spec.replicas, reverse=True)
    sizes: list[int] = []
    added = 0
    for rs in ordered:
        share = _proportion(deployment, rs, allowed, to_add, added) if to_add else 0
        sizes.append(rs.spec.replicas + share)
        added += share
    if to_add:
        sizes[0] = max(0, sizes[0] + to_add - added)
    return [Scale(rs, size) for rs, size in zip(ordered, sizes, strict=True)]


def _proportion(deployment: Deployment, rs: ReplicaSet, allowed: int, to_add: int, added: int) -> int:
    """Return this replica set's part of `to_add` replicas (negative: to remove), of which `added` are assigned."""
    if to_add == added:
        return 0
    if not deployment.spec.replicas:
        fraction = -rs.spec.replicas
    else:
        noted = parse_integer(rs.metadata.annotations.get(MAX_REPLICAS, ""), bits=32)
        before = deployment.status.replicas if noted is None else noted
        grown = rs.spec.replicas * allowed / before if before else float(rs.spec.replicas)
        fraction = math.floor(grown + 0.5) - rs.spec.replicas
    remaining = to_add - added
    return min(fraction, remaining) if to_add > 0 else max(fraction, remaining)


def plan_new(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> Scale | None:
    """Return the next size of the new replica set, or None when it stays."""
    desired = deployment.spec.replicas
    if new.spec.replicas == desired:
        return None
    if new.spec.replicas > desired:
        return Scale(new, desired)
    size = replicas_of_new(deployment, [*olds, new], new.spec.replicas)
    return Scale(new, size) if size != new.spec.replicas else None


def plan_olds(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> list[Scale]:
    """Plan the sizes of old replica sets that are scaled down now in a rolling update.

    Unavailable replicas go first: their removal has no cost, and they may be what blocks the rollout.
    """
    shrinking = sorted(active(olds), key=by_creation)
    if not shrinking:
        return []
    min_available = deployment.spec.replicas - limits(deployment)[1]
    new_unavailable = new.spec.replicas - new.status.available_replicas
    may_go = total_replicas([*shrinking, new]) - min_available - new_unavailable
    if may_go <= 0:
        return []
    sizes = {rs.metadata.uid: rs.spec.replicas for rs in shrinking}
    cleaned = 0
    for rs in shrinking:
        unavailable = max(0, rs.spec.replicas - rs.status.available_replicas)
        step = min(unavailable, may_go - cleaned)
        sizes[rs.metadata.uid] -= step
        cleaned += step
    # The status of a replica set that was just scaled down still counts pods that it is about to delete. They do not
    # count here. (Kubernetes counts them, and can fall below the minimum when a status is written late.)
    spare = sum(min(rs.status.available_replicas, rs.spec.replicas) for rs in (*shrinking, new)) - min_available
    for rs in shrinking:
        step = max(0, min(sizes[rs.metadata.uid], spare))
        sizes[rs.metadata.uid] -= step
        spare -= step
    return [Scale(rs, sizes[rs.metadata.uid]) for rs in shrinking if sizes[rs.metadata.uid] != rs.spec.replicas]


def plan_rolling(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> list[Scale]:
    """Plan the next step of a rolling update: the new replica set grows, else the old ones shrink, else nothing."""
    grow = plan_new(deployment, new, olds)
    return [grow] if grow else plan_olds(deployment, new, olds)


def plan_cleanup(deployment: Deployment, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Return empty old replica sets beyond `revisionHistoryLimit`, lowest revision first."""
    if deployment.spec.revision_history_limit == UNLIMITED_HISTORY:
        return []
    kept = [rs for rs in olds if rs.metadata.deletion_timestamp is None]
    surplus = len(kept) - deployment.spec.revision_history_limit
    oldest = sorted(kept, key=lambda rs: (revision_of(rs), by_creation(rs)))[: max(0, surplus)]
    return [
        rs
        for rs in oldest
        if not rs.status.replicas and not rs.spec.replicas and rs.metadata.generation <= rs.status.observed_generation
    ]
