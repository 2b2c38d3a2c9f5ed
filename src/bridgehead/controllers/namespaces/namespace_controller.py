"""The namespace controller: deletes the content of a deleted namespace, then finalizes it.

The API server's discovery lists the kinds, so that unknown kinds are deleted too. Pods are deleted first: while they
terminate, they may still need their ConfigMaps and Services.
Source: kube-controller-manager's namespace-controller (`pkg/controller/namespace/deletion`, KEP-5080).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from time import time

from bridgehead.client import ApiClient, Done, EventRecorder, Outcome, Requeue, WorkQueue
from bridgehead.client.discovery import ServedKind, discover
from bridgehead.client.errors import ApiError, Conflict, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.core import Namespace, Pod
from bridgehead.objects.kinds import NAMESPACES, PODS
from bridgehead.objects.meta import Object, ObjectKey
from bridgehead.objects.times import format_time

from .namespace_conditions import Remains, merge_conditions, plan_conditions

FINALIZER = "kubernetes"
_INDEX = "namespace"
CHECK_SECONDS = 2.0  # between checks of objects with finalizers; pods are watched


class NamespaceController:
    """Deletes the content of namespaces. The keys of its queue are namespace names."""

    def __init__(
        self, client: ApiClient, informers: Informers, recorder: EventRecorder, *, now: Callable[[], float] = time
    ) -> None:
        self._client = client
        self._now = now
        self._namespaces = informers.get(NAMESPACES)
        self._pods = informers.get(PODS)
        self._pods.add_index(_INDEX, lambda pod: (pod.metadata.namespace,))
        self._queue: WorkQueue[str] = WorkQueue("namespaces")
        self._namespaces.on_change(self._namespace_changed)
        self._pods.on_change(self._pod_changed)

    async def run(self) -> None:
        await self._namespaces.wait_synced()
        await self._queue.run(self.reconcile)

    def _namespace_changed(self, old: Namespace | None, new: Namespace | None) -> None:
        if new is not None and new.metadata.deletion_timestamp is not None:
            self._queue.add(new.metadata.name)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """Queue a terminating namespace when its last pod is gone."""
        if old is not None and new is None and not self._pods.by_index(_INDEX, old.metadata.namespace):
            namespace = self._namespaces.get(ObjectKey("", old.metadata.namespace))
            if namespace is not None and namespace.metadata.deletion_timestamp is not None:
                self._queue.add(namespace.metadata.name)

    async def reconcile(self, name: str) -> Outcome:
        """Delete what can be deleted now in one namespace, and finalize an empty one. Raises ClientError."""
        cached = self._namespaces.get(ObjectKey("", name))
        if cached is None or cached.metadata.deletion_timestamp is None:
            return Done()
        try:
            namespace = await self._client.get(NAMESPACES, name)
        except NotFound:
            return Done()
        if namespace.metadata.uid != cached.metadata.uid or FINALIZER not in namespace.spec.finalizers:
            return Done()
        remains = await self._empty(name)
        await self._write_conditions(namespace, remains)
        if remains.is_empty:
            return await self._finalize(name, namespace.metadata.uid)
        return Requeue(CHECK_SECONDS)

    async def _empty(self, name: str) -> Remains:
        remains = Remains()
        try:
            discovered = await discover(self._client)
        except ApiError as error:
            remains.discovery_failure = str(error)
            return remains
        if discovered.failures:
            groups = ", ".join(f"{group}: {error}" for group, error in discovered.failures.items())
            remains.discovery_failure = f"unable to retrieve the complete list of server APIs: {groups}"
        emptied = [one for one in discovered.kinds if one.kind.namespaced and "delete" in one.verbs]
        emptied.sort(key=lambda one: one.kind is not PODS)
        for one in emptied:
            try:
                left = await self._empty_of(one, name)
            except ApiError as error:
                remains.failures.append(f"{one.kind.plural}: {error}")
                continue
            remains.add(one.kind.group, one.kind.plural, [obj.metadata.finalizers for obj in left])
            if one.kind is PODS and left:
                break
        return remains

    async def _empty_of(self, one: ServedKind, namespace: str) -> list[Object]:
        """Delete all objects of a kind; return those that are still there."""
        left = (await self._client.list(one.kind, namespace)).items
        if not left:
            return left
        if "deletecollection" in one.verbs:
            await self._client.request("DELETE", one.kind.path(namespace), params={"propagationPolicy": "Background"})
        else:
            for obj in left:
                with contextlib.suppress(NotFound, Conflict):
                    await self._client.delete(
                        one.kind, obj.metadata.name, namespace, obj.metadata.uid, propagation_policy="Background"
                    )
        return (await self._client.list(one.kind, namespace)).items

    async def _write_conditions(self, namespace: Namespace, remains: Remains) -> None:
        wanted = merge_conditions(namespace.status.conditions, plan_conditions(remains), format_time(self._now()))
        if wanted is None:
            return
        with contextlib.suppress(NotFound):
            await self._client.patch(
                NAMESPACES, namespace.metadata.name, "", {"status": {"conditions": wanted}}, subresource="status"
            )

    async def _finalize(self, name: str, uid: str) -> Outcome:
        """Remove our finalizer. The API server deletes the namespace when it has none left."""
        path = NAMESPACES.path(name=name)
        document = await self._client.request("GET", path)
        if document.get("metadata", {}).get("uid") != uid:
            return Done()
        spec = document.setdefault("spec", {})
        spec["finalizers"] = [finalizer for finalizer in spec.get("finalizers", ()) if finalizer != FINALIZER]
        with contextlib.suppress(NotFound):
            await self._client.request("PUT", f"{path}/finalize", json=document)
        return Done()
