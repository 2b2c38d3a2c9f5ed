"""The Deployment controller: a replica set for every revision of the template, scaled so that pods stay available.

Started by `manager`; watches Deployments, ReplicaSets and Pods. `rollout` decides the next step and `deployment_status`
the status; this module reads, writes and records Events.
Source: Kubernetes "Deployments", `pkg/controller/deployment` (v1.36).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from bridgehead.client import ApiClient, EventRecorder, WorkQueue
from bridgehead.client.errors import AlreadyExists, ClientError, NotFound
from bridgehead.client.workqueue import Done, Outcome, Requeue, Retry
from bridgehead.controllers.adoption import Claimer, adopters, controller_reference
from bridgehead.controllers.conditions import status_patch
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.apps import Deployment, DeploymentStatus, ReplicaSet
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import DEPLOYMENTS, PODS, REPLICA_SETS
from bridgehead.objects.meta import LabelSelector, ObjectKey, find_condition
from bridgehead.objects.selectors import compile_selector

from . import deployment_status
from .expectations import owner_of
from .hashes import template_hash
from .owned import OwnedIndex
from .pod_control import is_namespace_terminating
from .rollout import (
    HASH_LABEL,
    REVISION,
    Scale,
    active,
    by_creation,
    find_new,
    is_scaling_event,
    new_annotations,
    next_revision,
    plan_cleanup,
    plan_new,
    plan_rolling,
    plan_scaling,
    replicas_annotations,
    replicas_of_new,
    revision_of,
)

WORKERS: Final = 8


def new_replica_set(deployment: Deployment, olds: Sequence[ReplicaSet], hash: str) -> dict[str, Any]:
    """Return the replica set to create for the Deployment's template, named and labelled with the template's hash."""
    template = deployment.spec.template
    labels = {**template.metadata.labels, HASH_LABEL: hash}
    selector = msgspec.structs.replace(
        deployment.spec.selector, match_labels={**deployment.spec.selector.match_labels, HASH_LABEL: hash}
    )
    spec: dict[str, Any] = {
        "replicas": replicas_of_new(deployment, olds, 0),
        "selector": msgspec.to_builtins(selector),
        "template": {
            "metadata": msgspec.to_builtins(msgspec.structs.replace(template.metadata, labels=labels)),
            "spec": template.spec,
        },
    }
    if deployment.spec.min_ready_seconds:
        spec["minReadySeconds"] = deployment.spec.min_ready_seconds
    return {
        "metadata": {
            "name": f"{deployment.metadata.name}-{hash}",
            "namespace": deployment.metadata.namespace,
            "labels": labels,
            "annotations": new_annotations(deployment, None, next_revision(olds)),
            "ownerReferences": [msgspec.to_builtins(controller_reference(DEPLOYMENTS, deployment))],
        },
        "spec": spec,
    }


class DeploymentController:
    """Creates, scales and deletes replica sets. `clock` returns seconds since the epoch."""

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        recorder: EventRecorder,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._deployments = informers.get(DEPLOYMENTS)
        self._replica_sets = informers.get(REPLICA_SETS)
        self._pods = informers.get(PODS)
        self._claimer = Claimer(client, DEPLOYMENTS, REPLICA_SETS)
        self._queue: WorkQueue[ObjectKey] = WorkQueue("deployments")
        self._owned = OwnedIndex(self._replica_sets)
        self._owned_pods = OwnedIndex(self._pods)
        self._latest = Latest(self._deployments)
        self._latest_sets = Latest(self._replica_sets)
        self._deployments.on_change(self._deployment_changed)
        self._replica_sets.on_change(self._replica_set_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        for informer in (self._deployments, self._replica_sets, self._pods):
            await informer.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    # --- Handlers --------------------------------------------------------------------------------

    def _deployment_changed(self, old: Deployment | None, new: Deployment | None) -> None:
        if (changed := new or old) is not None:
            self._queue.add(changed.key)

    def _replica_set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        for replica_set in (old, new):
            if replica_set is not None and (owner := owner_of(DEPLOYMENTS, replica_set)) is not None:
                self._queue.add(owner)
        for adopter in adopters(self._deployments.items(), old, new):
            self._queue.add(adopter)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue a Deployment with strategy Recreate when its last old pod is gone."""
        if old is None or (new is not None and not (new.is_finished and not old.is_finished)):
            return
        parent = owner_of(REPLICA_SETS, old)
        replica_set = self._replica_sets.get(parent) if parent else None
        owner = owner_of(DEPLOYMENTS, replica_set) if replica_set else None
        deployment = self._deployments.get(owner) if owner else None
        if deployment is not None and deployment.spec.strategy.type == "Recreate":
            self._queue.add(deployment.key)

    # --- Reconciling ------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Take the next step of one Deployment and write its status. Raises ClientError."""
        deployment = self._latest.get(key)
        if deployment is None:
            return Done()
        if deployment.spec.selector == LabelSelector():
            message = "This deployment is selecting all pods. A non-empty selector is required."
            self._recorder.record(deployment, type="Warning", reason="SelectingAll", message=message)
            observed = msgspec.structs.replace(deployment.status, observed_generation=deployment.metadata.generation)
            await self._write_status(deployment, observed)
            return Done()
        selector = compile_selector(deployment.spec.selector)
        owned = await self._claimer.claim(deployment, selector, self._owned.candidates(deployment))
        every = sorted(map(self._latest_sets.of, owned), key=by_creation)
        new = find_new(deployment, every)
        if deployment.metadata.deletion_timestamp is not None:
            await self._write_status(
                deployment, deployment_status.compute_status(deployment, new, every, self._clock())
            )
            return Done()
        deployment = await self._record_pause(deployment)
        # Empty replica sets keep their revision. The new one is the one with the current template.
        if new is not None:
            new = await self._refresh_new(deployment, new, _others(every, new))
            deployment = await self._record_revision(
                deployment, revision_of(new), deployment_status.FOUND_NEW_REPLICA_SET, new
            )
        if deployment.spec.paused or is_scaling_event(deployment, every):
            return await self._resize(deployment, new, _others(every, new))
        if deployment.spec.strategy.type == "Recreate":
            return await self._recreate(deployment, new, _others(every, new))
        return await self._roll(deployment, new, _others(every, new))

    async def _resize(self, deployment: Deployment, new: ReplicaSet | None, olds: list[ReplicaSet]) -> Outcome:
        scales = plan_scaling(deployment, new, olds)
        new, olds = await self._scale(deployment, scales, new, olds)
        if deployment.spec.paused:
            olds = await self._clean_up(deployment, olds)
        every = [*olds, new] if new else olds
        await self._write_status(deployment, deployment_status.compute_status(deployment, new, every, self._clock()))
        return Done()

    async def _recreate(self, deployment: Deployment, new: ReplicaSet | None, olds: list[ReplicaSet]) -> Outcome:
        shrinking = active(olds)
        if shrinking:
            new, olds = await self._scale(deployment, [Scale(rs, 0) for rs in shrinking], new, olds)
            return await self._finish(deployment, new, olds)
        if self._has_running_pods(olds):
            return await self._finish(deployment, new, olds)
        deployment, new = await self._ensure_new(deployment, new, olds)
        if new is None:
            return Retry("another object has the new replica set's name")
        scale = plan_new(deployment, new, olds)
        new, olds = await self._scale(deployment, [scale] if scale else [], new, olds)
        return await self._finish(deployment, new, olds)

    def _has_running_pods(self, olds: Iterable[ReplicaSet]) -> bool:
        """Whether pods of old revisions still run. Recreate must wait for their end."""
        return any(not pod.is_finished for rs in olds for pod in self._owned_pods.of(rs.metadata.uid))

    async def _roll(self, deployment: Deployment, new: ReplicaSet | None, olds: list[ReplicaSet]) -> Outcome:
        deployment, new = await self._ensure_new(deployment, new, olds)
        if new is None:
            return Retry("another object has the new replica set's name")
        new, olds = await self._scale(deployment, plan_rolling(deployment, new, olds), new, olds)
        return await self._finish(deployment, new, olds)

    async def _finish(self, deployment: Deployment, new: ReplicaSet | None, olds: list[ReplicaSet]) -> Outcome:
        """Clean up after a complete rollout, write the status, and requeue for the deadline."""
        every = [*olds, new] if new else olds
        now = self._clock()
        status = deployment_status.rollout_status(deployment, new, every, now)
        if deployment_status.is_complete(deployment, status):
            await self._clean_up(deployment, olds)
        await self._write_status(deployment, status)
        due = deployment_status.deadline_in(deployment, status, now)
        # One second more, since times in the API are whole seconds.
        return Done() if not due else Requeue(due + 1)

    # --- The new replica set -----------------------------------------------------------------------------

    async def _refresh_new(self, deployment: Deployment, new: ReplicaSet, olds: Sequence[ReplicaSet]) -> ReplicaSet:
        """Update revision, annotations and minReadySeconds of an existing new replica set."""
        patch: dict[str, Any] = {}
        annotations = new_annotations(deployment, new, next_revision(olds))
        changed = {k: v for k, v in annotations.items() if new.metadata.annotations.get(k) != v}
        if changed:
            patch["metadata"] = {"annotations": changed}
        if new.spec.min_ready_seconds != deployment.spec.min_ready_seconds:
            patch["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds}
        return await self._patch_set(new, patch) if patch else new

    async def _ensure_new(
        self, deployment: Deployment, new: ReplicaSet | None, olds: Sequence[ReplicaSet]
    ) -> tuple[Deployment, ReplicaSet | None]:
        """Return the new replica set, created if missing; None when its name is taken and the hash must change."""
        if new is not None:
            return deployment, new
        revision_hash = template_hash(deployment.spec.template, deployment.status.collision_count)
        wanted = new_replica_set(deployment, olds, revision_hash)
        name, replicas = wanted["metadata"]["name"], wanted["spec"]["replicas"]
        try:
            new = self._latest_sets.remember(await self._client.create(REPLICA_SETS, wanted))
            created = True
        except AlreadyExists:
            new = await self._resolve_name_collision(deployment, name)
            created = False
        except ClientError as error:
            if not is_namespace_terminating(error):
                await self._report_failed_create(deployment, name, error)
            raise
        if new is None:
            return deployment, None
        if created and replicas:
            self._record_scaling(deployment, "up", name, 0, replicas)
        reason = deployment_status.NEW_REPLICA_SET_CREATED if created else deployment_status.FOUND_NEW_REPLICA_SET
        return await self._record_revision(deployment, revision_of(new), reason, new), new

    async def _resolve_name_collision(self, deployment: Deployment, name: str) -> ReplicaSet | None:
        """Return the replica set with this name if it is the new one; else increment the collision count."""
        try:
            found = await self._client.get(REPLICA_SETS, name, deployment.metadata.namespace)
        except NotFound:
            return None
        owner = found.metadata.controller
        if owner is not None and owner.uid == deployment.metadata.uid and find_new(deployment, [found]):
            return self._latest_sets.remember(found)
        count = (deployment.status.collision_count or 0) + 1
        await self._latest.patch_status(self._client, deployment, {"status": {"collisionCount": count}})
        return None

    async def _report_failed_create(self, deployment: Deployment, name: str, error: ClientError) -> None:
        message = f'Failed to create new replica set "{name}": {error}'
        self._recorder.record(
            deployment, type="Warning", reason=deployment_status.REPLICA_SET_CREATE_ERROR, message=message
        )
        conditions = deployment_status.with_progress(
            deployment, "False", deployment_status.REPLICA_SET_CREATE_ERROR, message, self._clock()
        )
        await self._write_status(deployment, msgspec.structs.replace(deployment.status, conditions=conditions))

    # --- Writing -----------------------------------------------------------------------------------------

    async def _scale(
        self,
        deployment: Deployment,
        scales: Iterable[Scale],
        new: ReplicaSet | None,
        olds: Sequence[ReplicaSet],
    ) -> tuple[ReplicaSet | None, list[ReplicaSet]]:
        """Scale replica sets, and return all of them as they are afterwards."""
        noted = replicas_annotations(deployment)
        written: dict[str, ReplicaSet] = {}
        for replica_set, size in ((scale.replica_set, scale.replicas) for scale in scales):
            patch: dict[str, Any] = {}
            before = replica_set.spec.replicas
            if before != size:
                patch["spec"] = {"replicas": size}
            if any(replica_set.metadata.annotations.get(k) != v for k, v in noted.items()):
                patch["metadata"] = {"annotations": noted}
            if not patch:
                continue
            written[replica_set.metadata.uid] = await self._patch_set(replica_set, patch)
            if before != size:
                direction = "up" if size > before else "down"
                self._record_scaling(deployment, direction, replica_set.metadata.name, before, size)
        after = [written.get(rs.metadata.uid, rs) for rs in olds]
        return (written.get(new.metadata.uid, new) if new else None), after

    def _record_scaling(self, deployment: Deployment, direction: str, name: str, before: int, size: int) -> None:
        message = f"Scaled {direction} replica set {name} from {before} to {size}"
        self._recorder.record(deployment, type="Normal", reason="ScalingReplicaSet", message=message)

    async def _clean_up(self, deployment: Deployment, olds: list[ReplicaSet]) -> list[ReplicaSet]:
        """Delete old revisions beyond the history limit, and return the others."""
        surplus = plan_cleanup(deployment, olds)
        for replica_set in surplus:
            metadata = replica_set.metadata
            try:
                await self._client.delete(REPLICA_SETS, metadata.name, metadata.namespace, uid=metadata.uid)
            except NotFound:
                continue
        return [rs for rs in olds if rs not in surplus]

    async def _patch_set(self, replica_set: ReplicaSet, patch: dict[str, Any]) -> ReplicaSet:
        """Patch a replica set, only in the version on which the decision is based. Raises Conflict."""
        metadata = replica_set.metadata
        versioned = {"resourceVersion": metadata.resource_version, **patch.get("metadata", {})}
        written = await self._client.patch(
            REPLICA_SETS, metadata.name, metadata.namespace, {**patch, "metadata": versioned}
        )
        return self._latest_sets.remember(written)

    async def _record_pause(self, deployment: Deployment) -> Deployment:
        conditions = deployment_status.paused_conditions(deployment, self._clock())
        status = msgspec.structs.replace(deployment.status, conditions=conditions)
        return await self._write_status(deployment, status)

    async def _record_revision(self, deployment: Deployment, revision: int, reason: str, new: ReplicaSet) -> Deployment:
        """Write the current revision to the Deployment, and once that its replica set was created or found."""
        patch: dict[str, Any] = {}
        if deployment.metadata.annotations.get(REVISION) != str(revision):
            patch["metadata"] = {"annotations": {REVISION: str(revision)}}
        is_known = find_condition(deployment.status.conditions, deployment_status.PROGRESSING) is not None
        if reason == deployment_status.NEW_REPLICA_SET_CREATED or not is_known:
            verb = "Created" if reason == deployment_status.NEW_REPLICA_SET_CREATED else "Found"
            message = f'{verb} new replica set "{new.metadata.name}"'
            conditions = deployment_status.with_progress(deployment, "True", reason, message, self._clock())
            wanted = msgspec.structs.replace(deployment.status, conditions=conditions)
            if status := status_patch(deployment.status, wanted):
                patch["status"] = status
        return await self._latest.patch_status(self._client, deployment, patch) if patch else deployment

    async def _write_status(self, deployment: Deployment, wanted: DeploymentStatus) -> Deployment:
        patch = status_patch(deployment.status, wanted)
        if patch is None:
            return deployment
        return await self._latest.patch_status(self._client, deployment, {"status": patch})


def _others(every: Iterable[ReplicaSet], new: ReplicaSet | None) -> list[ReplicaSet]:
    return [rs for rs in every if new is None or rs.metadata.uid != new.metadata.uid]
