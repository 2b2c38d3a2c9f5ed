"""How a Deployment's replica sets are to be sized. Pure: observed Deployment and ReplicaSets -> `Scale`s.

Called by `deployments`, which carries out what is decided here, and looks again when the cluster has followed. Every
function looks one step ahead only, so that a step is safe whatever became of the one before.
Source: Kubernetes `pkg/controller/deployment` (v1.36), and "Deployments" in its documentation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from bridgehead.objects.apps import Deployment, ReplicaSet
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
# A replica set remembers this many characters of the revisions it once was.
_MAX_HISTORY = 2000
UNLIMITED_HISTORY = 2**31 - 1


@dataclass(frozen=True)
class Scale:
    """`replica_set` is to have `replicas` replicas."""

    replica_set: ReplicaSet
    replicas: int


# --- Limits ----------------------------------------------------------------------------------------------


def scaled_value(value: int | str | None, total: int, *, round_up: bool, default: int | str) -> int:
    """An absolute number or a percentage of `total` as a number. Raises ValueError for anything else."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    digits = value.removesuffix("%")
    if not value.endswith("%") or not digits.isdigit():
        raise ValueError(f"invalid value for IntOrString: invalid type: {value!r} is neither int nor percentage")
    # Integer arithmetic: 0.29 * 100 is less than 29 in floating point.
    product = int(digits) * total
    return -(-product // 100) if round_up else product // 100


def resolve_fenceposts(max_surge: int | str | None, max_unavailable: int | str | None, desired: int) -> tuple[int, int]:
    """(surge, unavailable) as numbers: surge rounds up, unavailable rounds down, both zero would stand still."""
    surge = scaled_value(max_surge, desired, round_up=True, default="25%")
    unavailable = scaled_value(max_unavailable, desired, round_up=False, default="25%")
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, unavailable


def is_rolling(deployment: Deployment) -> bool:
    return deployment.spec.strategy.type == "RollingUpdate"


def limits(deployment: Deployment) -> tuple[int, int]:
    """(max surge, max unavailable) of `deployment` as numbers of pods; no strategy but RollingUpdate has any."""
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
    """Whether two templates make the same pods, not counting the label that names the template itself."""
    return without_hash(one) == without_hash(other)


def by_creation(replica_set: ReplicaSet) -> tuple[str, str]:
    """Sort key: oldest first, by name within a second."""
    return replica_set.metadata.creation_timestamp or "", replica_set.metadata.name


def find_new(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """The replica set that has the Deployment's template: the oldest, should there be several."""
    same = (rs for rs in replica_sets if same_template(rs.spec.template, deployment.spec.template))
    return min(same, key=by_creation, default=None)


def active(replica_sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Those that want pods."""
    return [rs for rs in replica_sets if rs.spec.replicas > 0]


def revision_of(replica_set: ReplicaSet) -> int:
    """The revision a replica set says it is; 0 when it doesn't say."""
    text = replica_set.metadata.annotations.get(REVISION, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def next_revision(olds: Iterable[ReplicaSet]) -> int:
    return max((revision_of(rs) for rs in olds), default=0) + 1


# --- Annotations -----------------------------------------------------------------------------------------


def replicas_annotations(deployment: Deployment) -> dict[str, str]:
    """What a replica set notes about its Deployment when it is scaled, so that a later change of size is noticed."""
    desired = deployment.spec.replicas
    return {DESIRED_REPLICAS: str(desired), MAX_REPLICAS: str(desired + limits(deployment)[0])}


def new_annotations(deployment: Deployment, existing: ReplicaSet | None, revision: int) -> dict[str, str]:
    """All annotations of the new replica set: its Deployment's own, and its place in the history."""
    current: Mapping[str, str] = existing.metadata.annotations if existing else {}
    inherited = {k: v for k, v in deployment.metadata.annotations.items() if k not in _OWN_ANNOTATIONS}
    wanted = {**current, **inherited}
    if existing is None:
        return wanted | {REVISION: str(revision)} | replicas_annotations(deployment)
    # After a later replica set was deleted, the next revision may be a smaller one: revisions never go down.
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
    """How many replicas the new replica set, which wants `current`, may want now.

    `replica_sets` are all of the Deployment's, the new one included if it exists already.
    """
    desired = deployment.spec.replicas
    if not is_rolling(deployment):
        return desired
    room = desired + limits(deployment)[0] - total_replicas(replica_sets)
    if room <= 0:
        return current
    return current + min(room, desired - current)


def is_saturated(deployment: Deployment, new: ReplicaSet | None) -> bool:
    """Whether the new replica set was told to have, has, and keeps available all replicas of the Deployment."""
    if new is None:
        return False
    desired = deployment.spec.replicas
    return (
        new.spec.replicas == desired
        and new.metadata.annotations.get(DESIRED_REPLICAS) == str(desired)
        and new.status.available_replicas == desired
    )


def is_scaling_event(deployment: Deployment, replica_sets: Iterable[ReplicaSet]) -> bool:
    """Whether the Deployment's size changed since its active replica sets were last scaled."""
    noted = (rs.metadata.annotations.get(DESIRED_REPLICAS) for rs in active(replica_sets))
    return any(desired is not None and desired != str(deployment.spec.replicas) for desired in noted)


def plan_scaling(deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]) -> list[Scale]:
    """Sizes after the Deployment was resized or while it is paused: proportional, so that a rollout isn't hastened.

    Contains every replica set that has to note the Deployment's size, also those whose own size stays.
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
    # Largest first; among equals the newest grows and the oldest shrinks.
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
    """How many of `to_add` replicas (negative to remove) this replica set gets, when `added` are given out already."""
    if to_add == added:
        return 0
    if not deployment.spec.replicas:
        fraction = -rs.spec.replicas
    else:
        noted = rs.metadata.annotations.get(MAX_REPLICAS, "")
        before = int(noted) if noted.isascii() and noted.isdigit() else deployment.status.replicas
        grown = rs.spec.replicas * allowed / before if before else float(rs.spec.replicas)
        fraction = math.floor(grown + 0.5) - rs.spec.replicas
    remaining = to_add - added
    return min(fraction, remaining) if to_add > 0 else max(fraction, remaining)


def plan_new(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> Scale | None:
    """The next size of the new replica set, or None when it stays."""
    desired = deployment.spec.replicas
    if new.spec.replicas == desired:
        return None
    if new.spec.replicas > desired:
        return Scale(new, desired)
    size = replicas_of_new(deployment, [*olds, new], new.spec.replicas)
    return Scale(new, size) if size != new.spec.replicas else None


def plan_olds(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> list[Scale]:
    """Which old replica sets shrink now in a rolling update, and to what.

    Replicas that aren't available anyway go first: they cost nothing, and they may be what holds the rollout up.
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
    # A replica set that was just told to shrink still reports pods it is about to delete: those can't be counted on.
    # (Kubernetes counts them, and can go below the minimum when one status is written later than another.)
    spare = sum(min(rs.status.available_replicas, rs.spec.replicas) for rs in (*shrinking, new)) - min_available
    for rs in shrinking:
        step = max(0, min(sizes[rs.metadata.uid], spare))
        sizes[rs.metadata.uid] -= step
        spare -= step
    return [Scale(rs, sizes[rs.metadata.uid]) for rs in shrinking if sizes[rs.metadata.uid] != rs.spec.replicas]


def plan_rolling(deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> list[Scale]:
    """The next step of a rolling update: the new one grows, or else the old ones shrink, or else nothing."""
    grow = plan_new(deployment, new, olds)
    return [grow] if grow else plan_olds(deployment, new, olds)


def plan_cleanup(deployment: Deployment, olds: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    """Old replica sets beyond `revisionHistoryLimit` that are empty and known to be: lowest revision first."""
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
