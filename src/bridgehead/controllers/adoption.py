"""Ownership of pods and replica sets: adoption and release by selector and controller reference.

`adopters` and `sort_claims` decide; `Claimer` writes. Called by the workload controllers.
Source: Kubernetes "Garbage collection: owners", `pkg/controller/controller_ref_manager.go`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from bridgehead.client import ApiClient
from bridgehead.client.errors import Conflict, Invalid, NotFound
from bridgehead.objects.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from bridgehead.objects.batch import Job
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectKey, OwnerReference
from bridgehead.objects.replication import ReplicationController
from bridgehead.objects.selectors import Selector, compile_selector

Owner = TypeVar("Owner", bound=Object)
Owned = TypeVar("Owned", bound=Object)
Workload = Deployment | ReplicaSet | DaemonSet | StatefulSet | ReplicationController | Job


def controller_reference(kind: Kind[Owner], owner: Owner) -> OwnerReference:
    """Return the controller reference of an object that `owner` manages."""
    return OwnerReference(
        api_version=kind.api_version,
        kind=kind.name,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


@dataclass(frozen=True)
class Claims(Generic[Owned]):
    """Objects that the owner has (`owned`), that match and have no owner (`adopt`), that do not match (`release`)."""

    owned: tuple[Owned, ...] = ()
    adopt: tuple[Owned, ...] = ()
    release: tuple[Owned, ...] = ()


def sort_claims(owner: Object, selector: Selector, candidates: Iterable[Owned]) -> Claims[Owned]:
    """Sort `candidates`, which are of the owner's namespace, by owner reference and labels."""
    owned: list[Owned] = []
    adopt: list[Owned] = []
    release: list[Owned] = []
    leaving = owner.metadata.deletion_timestamp is not None
    for candidate in candidates:
        reference = candidate.metadata.controller
        matches = selector.matches(candidate.metadata.labels)
        if reference is not None:
            if reference.uid == owner.metadata.uid:
                if matches:
                    owned.append(candidate)
                elif not leaving:
                    release.append(candidate)
        elif matches and not leaving and candidate.metadata.deletion_timestamp is None:
            adopt.append(candidate)
    return Claims(tuple(owned), tuple(adopt), tuple(release))


def adopters(owners: Iterable[Workload], old: Object | None, new: Object | None) -> list[ObjectKey]:
    """Return the owners that may adopt an object that was created, lost its controller or changed its labels."""
    if new is None or new.metadata.controller is not None or new.metadata.deletion_timestamp is not None:
        return []
    if old is not None and old.metadata.controller is None and old.metadata.labels == new.metadata.labels:
        return []
    return [
        owner.key
        for owner in owners
        if owner.metadata.namespace == new.metadata.namespace
        and compile_selector(owner.spec.selector).matches(new.metadata.labels)
    ]


class Claimer(Generic[Owner, Owned]):
    """Adopts and releases objects of one kind for owners of another."""

    def __init__(self, client: ApiClient, owner_kind: Kind[Owner], owned_kind: Kind[Owned]) -> None:
        self._client = client
        self._owner_kind = owner_kind
        self._owned_kind = owned_kind

    async def claim(self, owner: Owner, selector: Selector, candidates: Iterable[Owned]) -> list[Owned]:
        """Adopt and release objects; return those that the owner has afterwards. Raises ClientError."""
        claims = sort_claims(owner, selector, candidates)
        for candidate in claims.release:
            await self._release(owner, candidate)
        if not claims.adopt or not await self._may_adopt(owner):
            return list(claims.owned)
        adopted = [await self._adopt(owner, candidate) for candidate in claims.adopt]
        return [*claims.owned, *(candidate for candidate in adopted if candidate is not None)]

    async def _may_adopt(self, owner: Owner) -> bool:
        """Read the owner from the API: an informer may not have seen yet that the owner is deleted with `orphan`."""
        try:
            fresh = await self._client.get(self._owner_kind, owner.metadata.name, owner.metadata.namespace)
        except NotFound:
            return False
        return fresh.metadata.uid == owner.metadata.uid and fresh.metadata.deletion_timestamp is None

    async def _adopt(self, owner: Owner, candidate: Owned) -> Owned | None:
        reference = msgspec.to_builtins(controller_reference(self._owner_kind, owner))
        return await self._patch(candidate, [reference])

    async def _release(self, owner: Owner, candidate: Owned) -> None:
        await self._patch(candidate, [{"$patch": "delete", "uid": owner.metadata.uid}])

    async def _patch(self, candidate: Owned, references: list[dict[str, Any]]) -> Owned | None:
        """Patch an object. Return None when it is gone or another object has its name."""
        patch = {"metadata": {"uid": candidate.metadata.uid, "ownerReferences": references}}
        try:
            return await self._client.patch(
                self._owned_kind, candidate.metadata.name, candidate.metadata.namespace, patch, type="strategic"
            )
        except (NotFound, Conflict, Invalid):
            # The uid in the patch is a precondition. Kubernetes answers 409 or 422 when another object has the name.
            return None
