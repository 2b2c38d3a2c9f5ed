"""The scheduler's view of claims and volumes, and its writes: the node for a provisioner, or a volume's reference.

Called by `scheduler`. `volume_binding` decides. Source: Kubernetes `volumebinding/binder.go` (v1.36).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import PODS_BY_CLAIM, Informers, claims_of_pod
from bridgehead.objects.core import Node, Pod
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, PODS, STORAGE_CLASSES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.storage import SELECTED_NODE, PersistentVolume, PersistentVolumeClaim

from .filters import Refusal
from .volume_binding import Binding, PodClaims, is_bound, plan_bindings, refuse_node, sort_claims

_BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"


class ClaimBinder:
    """`changed(pod)` is called for the pods whose claims have changed, `freed()` when any volume or class has."""

    def __init__(
        self, client: ApiClient, informers: Informers, changed: Callable[[ObjectKey], None], freed: Callable[[], None]
    ) -> None:
        self._client = client
        self._changed = changed
        self._freed = freed
        self._claims = informers.get(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.get(PERSISTENT_VOLUMES)
        self._classes = informers.get(STORAGE_CLASSES)
        self._pods = informers.get(PODS)
        self._pods.add_index(PODS_BY_CLAIM, claims_of_pod)
        self._taken: dict[str, str] = {}  # volume -> uid of the claim, until the informer shows the volume's reference
        self._latest = Latest(self._claims)
        self._claims.on_change(self._claim_changed)
        self._volumes.on_change(self._volume_changed)
        self._classes.on_change(lambda old, new: self._freed())

    async def wait_synced(self) -> None:
        await self._claims.wait_synced()
        await self._volumes.wait_synced()
        await self._classes.wait_synced()

    def _claim_changed(self, old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None) -> None:
        if (claim := new or old) is not None:
            for pod in self._pods.by_index(PODS_BY_CLAIM, str(claim.key)):
                if not pod.spec.node_name:
                    self._changed(pod.key)

    def _volume_changed(self, old: PersistentVolume | None, new: PersistentVolume | None) -> None:
        if (volume := new or old) is not None:
            self._taken.pop(volume.metadata.name, None)
            self._freed()

    def claims_of(self, pod: Pod) -> PodClaims:
        """Return the pod's claims as they are now."""
        return sort_claims(
            pod, self._claims.get, self._volumes_by_name(), lambda name: self._classes.get(ObjectKey("", name))
        )

    def _volumes_by_name(self) -> dict[str, PersistentVolume]:
        return {volume.metadata.name: volume for volume in self._volumes.items()}

    def filter(self, claims: PodClaims) -> Callable[[Node], Refusal | None]:
        """Return the filter of nodes for a pod's claims."""
        volumes = self._volumes_by_name()
        return lambda node: refuse_node(claims, node, volumes, self._taken)

    def reserve(self, claims: PodClaims, node: Node) -> Sequence[Binding]:
        """Choose volumes for the delayed claims on a node that the filter allows. The choice counts at once."""
        bindings = plan_bindings(claims, node, self._volumes_by_name(), self._taken) or ()
        self._taken |= {one.volume.metadata.name: one.claim.metadata.uid for one in bindings if one.volume is not None}
        return bindings

    async def write(self, bindings: Sequence[Binding], node_name: str) -> None:
        """Write the choices; who binds and provisions continues. Raises ClientError."""
        try:
            await asyncio.gather(*(self._write(one, node_name) for one in bindings))
        except BaseException:
            for one in bindings:
                if one.volume is not None:
                    self._taken.pop(one.volume.metadata.name, None)
            raise

    async def _write(self, binding: Binding, node_name: str) -> None:
        claim, volume = binding.claim.metadata, binding.volume
        if volume is None:
            patch: dict[str, Any] = {"annotations": {SELECTED_NODE: node_name}, "uid": claim.uid}
            self._latest.remember(
                await self._client.patch(PERSISTENT_VOLUME_CLAIMS, claim.name, claim.namespace, {"metadata": patch})
            )
            return
        meta = volume.metadata
        reference = {
            "kind": PERSISTENT_VOLUME_CLAIMS.name,
            "apiVersion": PERSISTENT_VOLUME_CLAIMS.api_version,
            "namespace": claim.namespace,
            "name": claim.name,
            "uid": claim.uid,
            "resourceVersion": claim.resource_version,
        }
        guard = {"resourceVersion": meta.resource_version, "annotations": {_BOUND_BY_CONTROLLER: "yes"}}
        body = {"metadata": guard, "spec": {"claimRef": reference}}
        await self._client.patch(PERSISTENT_VOLUMES, meta.name, "", body)

    def progress(self, bindings: Sequence[Binding], node_name: str) -> bool | None:
        """Whether all claims are bound; None when the node is obsolete: a claim is gone, or has lost its node."""
        is_complete = True
        for binding in bindings:
            claim = self._latest.get(binding.claim.key)
            if claim is None or claim.metadata.deletion_timestamp is not None:
                return None
            if not is_bound(claim):
                is_complete = False
                if binding.volume is None and claim.metadata.annotations.get(SELECTED_NODE) != node_name:
                    return None
        return is_complete
