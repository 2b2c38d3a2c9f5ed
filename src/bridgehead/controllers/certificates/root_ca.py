"""Publishes the API server's CA certificate in a ConfigMap `kube-root-ca.crt` in every namespace.

Source: kube-controller-manager's root-ca-certificate-publisher-controller.
"""

from __future__ import annotations

import contextlib

from bridgehead.client import ApiClient, Done, EventRecorder, Informer, Outcome, WorkQueue
from bridgehead.client.errors import AlreadyExists, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import ConfigMap, Namespace
from bridgehead.objects.kinds import CONFIG_MAPS, NAMESPACES
from bridgehead.objects.meta import ObjectKey, ObjectMeta

NAME = "kube-root-ca.crt"
DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the "
    "internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes "
    "clusters."
)
_DESCRIPTION_ANNOTATION = "kubernetes.io/description"


class RootCAPublisher:
    """Writes the ConfigMaps. The keys of its queue are namespace names; `root_ca` is PEM, "" publishes nothing."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder, *, root_ca: str = "") -> None:
        self._client = client
        self._root_ca = root_ca
        self._namespaces = informers.get(NAMESPACES)
        # The informer selects these ConfigMaps only.
        self._config_maps = informers.add(Informer(client, CONFIG_MAPS, field_selector=f"metadata.name={NAME}"))
        self._queue: WorkQueue[str] = WorkQueue("root CA")
        self._namespaces.on_change(self._namespace_changed)
        self._config_maps.on_change(self._config_map_changed)

    async def run(self) -> None:
        await self._namespaces.wait_synced()
        await self._config_maps.wait_synced()
        await self._queue.run(self.reconcile)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None:
            self._queue.add(new.metadata.name)

    def _config_map_changed(self, old: ConfigMap | None, new: ConfigMap | None) -> None:
        changed = new or old
        if changed is not None:
            self._queue.add(changed.metadata.namespace)

    async def reconcile(self, name: str) -> Outcome:
        """Create the ConfigMap if it is missing, repair it if it was changed. Raises ClientError."""
        namespace = self._namespaces.get(ObjectKey("", name))
        if not self._root_ca or namespace is None or namespace.metadata.deletion_timestamp:
            return Done()
        data = {"ca.crt": self._root_ca}
        annotations = {_DESCRIPTION_ANNOTATION: DESCRIPTION}
        found = self._config_maps.get(ObjectKey(name, NAME))
        if found is None:
            metadata = ObjectMeta(name=NAME, namespace=name, annotations=annotations)
            with contextlib.suppress(AlreadyExists):
                await self._client.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data=data))
        elif found.data != data or found.metadata.annotations.get(_DESCRIPTION_ANNOTATION) != DESCRIPTION:
            surplus = dict.fromkeys(found.data.keys() - data.keys())
            patch = {"metadata": {"annotations": annotations}, "data": {**surplus, **data}}
            with contextlib.suppress(NotFound):  # it was deleted; the informer will report it
                await self._client.patch(CONFIG_MAPS, NAME, name, patch)
        return Done()
