"""Owners of a StatefulSet's claims, after its persistentVolumeClaimRetentionPolicy.

A claim that is to go with its StatefulSet, or with a pod beyond the replicas, has it as its controller, so that the
garbage collector deletes the claim. Pure: no I/O, no clock, no randomness.
Source: Kubernetes `updateClaimOwnerRefForSetAndPod` (v1.36).
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.controllers.adoption import controller_reference
from bridgehead.objects.apps import StatefulSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PODS, STATEFUL_SETS
from bridgehead.objects.meta import ObjectMeta, OwnerReference


def wanted_owners(
    stateful_set: StatefulSet, claim: ObjectMeta, pod_name: str, condemned: Pod | None
) -> Sequence[OwnerReference] | None:
    """Return the owner references that a claim should have; None when they are right, or another one controls it.

    `condemned`: the claim's pod if it is beyond the replicas.
    """
    others = [one for one in claim.owner_references if not _is_of_set(stateful_set, one, pod_name)]
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    wanted: list[OwnerReference] = []
    if condemned is not None and policy.when_scaled == "Delete":
        wanted = [controller_reference(PODS, condemned)]
    elif policy.when_deleted == "Delete":
        wanted = [controller_reference(STATEFUL_SETS, stateful_set)]
    if wanted and any(one.controller for one in others):
        return None
    owners = [*others, *wanted]
    return None if set(owners) == set(claim.owner_references) else owners


def is_contested(stateful_set: StatefulSet, claim: ObjectMeta, pod_name: str) -> bool:
    """Whether another controller has a claim that a policy would delete."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    return "Delete" in (policy.when_deleted, policy.when_scaled) and any(
        one.controller and not _is_of_set(stateful_set, one, pod_name) for one in claim.owner_references
    )


def is_stale(claim: ObjectMeta, pod_name: str) -> bool:
    """Whether a claim belongs to an earlier pod of the name, so that the garbage collector is about to delete it."""
    return any(one.kind == PODS.name and one.name == pod_name for one in claim.owner_references)


def _is_of_set(stateful_set: StatefulSet, owner: OwnerReference, pod_name: str) -> bool:
    if owner.kind == PODS.name and owner.api_version == PODS.api_version:
        return owner.name == pod_name
    return (
        owner.kind == STATEFUL_SETS.name
        and owner.api_version == STATEFUL_SETS.api_version
        and owner.name == stateful_set.metadata.name
    )
