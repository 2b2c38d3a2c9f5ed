"""The number of pods that the owners of pods want: of informers, or of the subresource `scale` of other kinds.

Source: the finders of kube-controller-manager's disruption controller.
"""

from __future__ import annotations

from collections.abc import Iterable

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.controllers.served_kinds import find_kind
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import DEPLOYMENTS, REPLICA_SETS, REPLICATION_CONTROLLERS, STATEFUL_SETS
from bridgehead.objects.meta import ObjectKey, OwnerReference


class OwnerUnknown(Exception):
    """The number of pods that an owner wants cannot be found."""


class Owners:
    def __init__(self, client: ApiClient, informers: Informers) -> None:
        self._client = client
        self._deployments = informers.get(DEPLOYMENTS)
        self._replica_sets = informers.get(REPLICA_SETS)
        self._replication_controllers = informers.get(REPLICATION_CONTROLLERS)
        self._stateful_sets = informers.get(STATEFUL_SETS)

    async def wait_synced(self) -> None:
        for informer in (self._deployments, self._replica_sets, self._replication_controllers, self._stateful_sets):
            await informer.wait_synced()

    async def scale(self, pods: Iterable[Pod]) -> int:
        """Return how many pods all owners of `pods` want. A pod without owner does not count.

        Raises OwnerUnknown, and ClientError when the API server does not answer.
        """
        asked: set[str] = set()
        scales: dict[str, int] = {}
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None or owner.uid in asked:
                continue
            asked.add(owner.uid)
            found = await self._scale_of(owner, pod.metadata.namespace)
            if found is None:
                raise OwnerUnknown(f'found no controllers for pod "{pod.metadata.name}"')
            uid, replicas = found
            scales[uid] = replicas
        return sum(scales.values())

    async def _scale_of(self, owner: OwnerReference, namespace: str) -> tuple[str, int] | None:
        """Return the uid and the replicas of the controller: of a Deployment for its replica sets."""
        key, group = ObjectKey(namespace, owner.name), owner.api_version.rpartition("/")[0]
        if (owner.kind, group) == ("ReplicationController", ""):
            controller = self._replication_controllers.get(key)
            if controller is not None and controller.metadata.uid == owner.uid:
                return owner.uid, controller.spec.replicas
        if (owner.kind, group) == ("StatefulSet", "apps"):
            stateful_set = self._stateful_sets.get(key)
            if stateful_set is not None and stateful_set.metadata.uid == owner.uid:
                return owner.uid, stateful_set.spec.replicas
        if (owner.kind, group) == ("ReplicaSet", "apps"):
            replica_set = self._replica_sets.get(key)
            if replica_set is not None and replica_set.metadata.uid == owner.uid:
                above = replica_set.metadata.controller
                if above is None or above.kind != "Deployment":
                    return owner.uid, replica_set.spec.replicas
                deployment = self._deployments.get(ObjectKey(namespace, above.name))
                if deployment is not None and deployment.metadata.uid == above.uid:
                    return above.uid, deployment.spec.replicas
        return await self._ask(owner, namespace, group)

    async def _ask(self, owner: OwnerReference, namespace: str, group: str) -> tuple[str, int] | None:
        """Read the owner's subresource `scale`; None when there is no such owner."""
        kind = await find_kind(self._client, owner.api_version, owner.kind)
        if kind is None:
            raise OwnerUnknown(f'no matches for kind "{owner.kind}" in version "{owner.api_version}"')
        if not kind.has_scale:
            resource = f"{kind.plural}.{group}" if group else kind.plural
            raise OwnerUnknown(f"{resource} does not implement the scale subresource")
        try:
            scale = await self._client.request("GET", kind.scale_path(namespace, owner.name))
        except NotFound:
            return None
        if scale["metadata"].get("uid") != owner.uid:
            return None
        return owner.uid, scale.get("spec", {}).get("replicas", 0)
