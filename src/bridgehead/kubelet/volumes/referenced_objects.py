"""The ConfigMaps and Secrets that this node's pods refer to, each watched once while a pod needs it.

The kubelet owns `ReferencedObjects`. A pod worker holds the objects that its pod refers to, reads them, and is notified
when one changes. Source: kubelet's ConfigMap and Secret managers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from bridgehead.client import ApiClient, Informer
from bridgehead.objects.core import ConfigMap, EnvFromSource, Pod, Secret, Volume
from bridgehead.objects.kinds import CONFIG_MAPS, SECRETS
from bridgehead.objects.meta import ObjectKey


class Reference(NamedTuple):
    kind: str  # "ConfigMap" or "Secret"
    namespace: str
    name: str


def references_of(pod: Pod) -> frozenset[Reference]:
    """Return every ConfigMap and Secret that the pod's volumes, environment and imagePullSecrets refer to."""
    names: set[tuple[str, str]] = set()
    for volume in pod.spec.volumes:
        names |= _named_by_volume(volume)
    for container in pod.spec.containers + pod.spec.init_containers + pod.spec.ephemeral_containers:
        for source in container.env_from:
            names |= _named_by_env_from(source)
        for variable in container.env:
            if variable.value_from is not None and (key := variable.value_from.config_map_key_ref) is not None:
                names.add(("ConfigMap", key.name))
            if variable.value_from is not None and (key := variable.value_from.secret_key_ref) is not None:
                names.add(("Secret", key.name))
    names |= {("Secret", secret.name) for secret in pod.spec.image_pull_secrets}
    return frozenset(Reference(kind, pod.metadata.namespace, name) for kind, name in names if name)


def _named_by_volume(volume: Volume) -> set[tuple[str, str]]:
    names: set[tuple[str, str]] = set()
    config_maps = [volume.config_map]
    secrets = [volume.secret]
    if volume.projected is not None:
        config_maps += [source.config_map for source in volume.projected.sources]
        secrets += [source.secret for source in volume.projected.sources]
    names |= {("ConfigMap", c.name) for c in config_maps if c is not None}
    names |= {("Secret", s.secret_name or s.name) for s in secrets if s is not None}
    return names


def _named_by_env_from(source: EnvFromSource) -> set[tuple[str, str]]:
    names = set()
    if source.config_map_ref is not None:
        names.add(("ConfigMap", source.config_map_ref.name))
    if source.secret_ref is not None:
        names.add(("Secret", source.secret_ref.name))
    return names


class _Watched:
    """A watched object: its informer, the task that runs it, and the pods (by uid) that hold it."""

    def __init__(self, informer: Informer[ConfigMap] | Informer[Secret], task: asyncio.Task[None]) -> None:
        self.informer = informer
        self.task = task
        self.holders: set[str] = set()


class ReferencedObjects:
    """An async context manager: its watches end with it."""

    def __init__(self, client: ApiClient, changed: Callable[[str], None]) -> None:
        """`changed(pod_uid)` is called when an object that this pod holds has changed."""
        self._client = client
        self._changed = changed
        self._watched: dict[Reference, _Watched] = {}
        self._tasks = asyncio.TaskGroup()

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for watched in self._watched.values():
            watched.task.cancel()
        await self._tasks.__aexit__(kind, error, trace)

    async def hold(self, pod_uid: str, references: frozenset[Reference]) -> None:
        """Watch `references` for this pod, and wait until each object has been read once."""
        for reference in references:
            watched = self._watched.get(reference)
            if watched is None:
                watched = self._watched[reference] = self._watch(reference)
            watched.holders.add(pod_uid)
        for reference in references:
            await self._watched[reference].informer.wait_synced()

    def release(self, pod_uid: str) -> None:
        """Drop all references of the pod; an object that no pod holds is watched no longer."""
        for reference, watched in list(self._watched.items()):
            watched.holders.discard(pod_uid)
            if not watched.holders:
                watched.task.cancel()
                del self._watched[reference]

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        found = self._get(Reference("ConfigMap", namespace, name))
        return found if isinstance(found, ConfigMap) else None

    def secret(self, namespace: str, name: str) -> Secret | None:
        found = self._get(Reference("Secret", namespace, name))
        return found if isinstance(found, Secret) else None

    def _get(self, reference: Reference) -> ConfigMap | Secret | None:
        watched = self._watched.get(reference)
        return watched.informer.get(ObjectKey(reference.namespace, reference.name)) if watched is not None else None

    def _watch(self, reference: Reference) -> _Watched:
        selector = f"metadata.name={reference.name}"
        informer: Informer[ConfigMap] | Informer[Secret]
        if reference.kind == "ConfigMap":
            informer = Informer(
                self._client, CONFIG_MAPS, namespace=reference.namespace, field_selector=selector, few=True
            )
        else:
            informer = Informer(self._client, SECRETS, namespace=reference.namespace, field_selector=selector, few=True)
        watched = _Watched(informer, self._tasks.create_task(informer.run()))

        def notify(old: object, new: object) -> None:
            for pod_uid in list(watched.holders):
                self._changed(pod_uid)

        informer.on_change(notify)
        return watched
