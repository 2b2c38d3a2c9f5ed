"""Creates, corrects and deletes the pods and claims of StatefulSets, with Events.

Called by `statefulset_controller`. Source: Kubernetes `pkg/controller/statefulset/stateful_pod_control.go` (v1.36).
"""

from __future__ import annotations

from typing import Any

import msgspec

from bridgehead.client import ApiClient, EventRecorder, Informer
from bridgehead.client.errors import AlreadyExists, ClientError, Conflict, NotFound
from bridgehead.controllers.workloads.pod_control import is_namespace_terminating
from bridgehead.objects.apps import ControllerRevision, StatefulSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PODS
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.storage import PersistentVolumeClaim

from .identity import claim_names, identity_labels, new_claims, new_pod
from .retention import is_contested, is_stale, wanted_owners


class ClaimBeingDeleted(Exception):
    """A pod cannot be created because its claim is being deleted. The text is that of Kubernetes' Event."""


class PodsAndClaims:
    def __init__(self, client: ApiClient, recorder: EventRecorder, claims: Informer[PersistentVolumeClaim]) -> None:
        self._client = client
        self._recorder = recorder
        self._claims = claims

    async def create(self, stateful_set: StatefulSet, revision: ControllerRevision, ordinal: int) -> bool:
        """Create a pod, its claims first. Return False while an old claim of its name is still to be deleted.

        Records Events, also for failures. Raises ClientError and ClaimBeingDeleted.
        """
        body = new_pod(stateful_set, revision, ordinal)
        name = body["metadata"]["name"]
        if any(is_stale(claim.metadata, name) for claim in self._claims_of(stateful_set, ordinal)):
            return False
        try:
            await self.complete(stateful_set, ordinal)
            for claim in self._claims_of(stateful_set, ordinal):
                if claim.metadata.deletion_timestamp is not None:
                    raise ClaimBeingDeleted(f"pvc {claim.metadata.name} is being deleted")
            await self._client.create(PODS, body, stateful_set.metadata.namespace)
        except AlreadyExists:
            return True  # the informer will show it
        except (ClientError, ClaimBeingDeleted) as error:
            if isinstance(error, ClaimBeingDeleted) or not is_namespace_terminating(error):
                self._record_pod(stateful_set, "create", name, error)
            raise
        self._record_pod(stateful_set, "create", name)
        return True

    async def complete(self, stateful_set: StatefulSet, ordinal: int) -> None:
        """Create the missing claims of a pod. Raises ClientError."""
        pod_name = f"{stateful_set.metadata.name}-{ordinal}"
        for body in new_claims(stateful_set, ordinal):
            name = body["metadata"]["name"]
            if self._claims.get(ObjectKey(stateful_set.metadata.namespace, name)) is not None:
                continue
            where = f"Pod {pod_name} in StatefulSet {stateful_set.metadata.name}"
            try:
                await self._client.create(PERSISTENT_VOLUME_CLAIMS, body)
            except AlreadyExists:
                continue
            except ClientError as error:
                message = f"create Claim {name} for {where} failed error: {error}"
                self._recorder.record(stateful_set, type="Warning", reason="FailedCreate", message=message)
                raise
            message = f"create Claim {name} {where} success"
            self._recorder.record(stateful_set, type="Normal", reason="SuccessfulCreate", message=message)

    async def delete(self, stateful_set: StatefulSet, pod: Pod) -> None:
        """Delete a pod. A missing one is no error. Raises ClientError."""
        meta = pod.metadata
        try:
            await self._client.delete(PODS, meta.name, meta.namespace, uid=meta.uid)
        except (NotFound, Conflict):
            return
        except ClientError as error:
            self._record_pod(stateful_set, "delete", meta.name, error)
            raise
        self._record_pod(stateful_set, "delete", meta.name)

    async def correct(self, stateful_set: StatefulSet, pod: Pod, ordinal: int) -> None:
        """Give a pod the labels of its identity, and its claims their owners. Raises ClientError."""
        meta = pod.metadata
        missing = {
            name: value
            for name, value in identity_labels(meta.name, ordinal).items()
            if meta.labels.get(name) != value and not pod.is_terminating
        }
        if missing:
            patch: dict[str, Any] = {"metadata": {"uid": meta.uid, "labels": missing}}
            try:
                await self._client.patch(PODS, meta.name, meta.namespace, patch)
            except (NotFound, Conflict):
                return
            except ClientError as error:
                self._record_pod(stateful_set, "update", meta.name, error)
                raise
            self._record_pod(stateful_set, "update", meta.name)
        await self.retain(stateful_set, pod, ordinal, is_condemned=False)

    async def retain(self, stateful_set: StatefulSet, pod: Pod, ordinal: int, *, is_condemned: bool) -> None:
        """Give the pod's claims the owners that the retention policy wants. Raises ClientError."""
        for claim in self._claims_of(stateful_set, ordinal):
            meta = claim.metadata
            if is_contested(stateful_set, meta, pod.metadata.name):
                message = (
                    f"PersistentVolumeClaim {meta.name} has a conflicting OwnerReference that acts as a managing "
                    "controller, the retention policy is ignored for this claim"
                )
                self._recorder.record(stateful_set, type="Warning", reason="ConflictingController", message=message)
            owners = wanted_owners(stateful_set, meta, pod.metadata.name, pod if is_condemned else None)
            if owners is not None:
                wanted = {"resourceVersion": meta.resource_version, "ownerReferences": msgspec.to_builtins(owners)}
                await self._client.patch(
                    PERSISTENT_VOLUME_CLAIMS, meta.name, meta.namespace, {"metadata": wanted}, type="merge"
                )

    def _claims_of(self, stateful_set: StatefulSet, ordinal: int) -> list[PersistentVolumeClaim]:
        """Return the existing claims of a pod."""
        names = claim_names(stateful_set, ordinal).values()
        found = (self._claims.get(ObjectKey(stateful_set.metadata.namespace, name)) for name in names)
        return [claim for claim in found if claim is not None]

    def _record_pod(self, stateful_set: StatefulSet, verb: str, name: str, error: Exception | None = None) -> None:
        what = f"{verb} Pod {name} in StatefulSet {stateful_set.metadata.name}"
        if error is None:
            reason, message = f"Successful{verb.title()}", f"{what} successful"
        else:
            reason, message = f"Failed{verb.title()}", f"{what} failed error: {error}"
        self._recorder.record(
            stateful_set, type="Normal" if error is None else "Warning", reason=reason, message=message
        )
