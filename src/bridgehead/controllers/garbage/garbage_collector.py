"""The garbage collector: deletes objects without remaining owners, and foreground-deleted owners after dependents.

The graph in `owner_graph` follows every kind that can be deleted and decides which objects to check. Before a deletion,
the object and its seemingly missing owners are read from the API server. A kind without objects, as most of a cluster's
kinds are, has no watch: a short list asks for its first object now and then.
Source: kube-controller-manager's garbage-collector-controller.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections import OrderedDict
from typing import Any, Literal

import msgspec

from bridgehead.client import ApiClient, Done, EventRecorder, Informer, Outcome, Retry, WorkQueue
from bridgehead.client.discovery import ServedKind, discover, metadata_kind
from bridgehead.client.errors import ApiError, ClientError, NotFound
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, ObjectReference, OwnerReference

from .owner_graph import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Item, Ownership, OwnerStates

log = logging.getLogger(__name__)

WORKERS = 16
REMEMBERED_ABSENT = 500
_IGNORED = {("", "events"), ("events.k8s.io", "events")}  # many objects, which own nothing and have no owners
_NEEDED = {"list", "watch", "delete"}
# The addresses of Services, which are removed with them. Other IPAddress objects may have owners.
_SELECTIONS = {("networking.k8s.io", "ipaddresses"): "ipaddress.kubernetes.io/managed-by!=ipallocator.k8s.io"}
# Time between two looks at the kinds that had no object.
UNUSED_SECONDS = 15.0
# Time in which further changes of CustomResourceDefinitions are waited for, before the kinds are discovered again.
SETTLING_SECONDS = 0.5
_DEFINITIONS = metadata_kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", False
)

Policy = Literal["Background", "Foreground", "Orphan"]


class GarbageCollector:
    """Deletes objects by their owner references. The keys of its queue are uids."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._ownership = Ownership()
        self._kinds: dict[tuple[str, str], Kind[Any]] = {}  # by group and kind, as in owner references
        self._followed: dict[tuple[str, str], Informer[Any]] = {}
        self._unused: dict[tuple[str, str], Kind[Any]] = {}  # by group and plural: kinds without objects
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()  # namespace and uid of missing owners
        self._queue: WorkQueue[str] = WorkQueue("garbage")
        self._unknown: frozenset[str] = frozenset()
        self._definitions_changed = asyncio.Event()
        informers.get(_DEFINITIONS).on_change(lambda old, new: self._definitions_changed.set())

    async def run(self) -> None:
        """Run until cancelled. Raises ClientError when discovery fails."""
        await self._informers.wait_synced()
        self._definitions_changed.clear()
        for one in await self._discover_kinds():
            self._register(one)
        await self._follow_used()
        for informer in self._followed.values():
            await informer.wait_synced()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_at_unused())
            tasks.create_task(self._follow_definitions())
            await self._queue.run(self.reconcile, workers=WORKERS)

    def _register(self, one: ServedKind) -> None:
        """Follow a kind with the shared informer if there is one; else regard it as unused."""
        kind: Kind[Any] = one.kind
        resource = (kind.group, kind.plural)
        self._kinds[kind.group, kind.name] = kind
        if resource in _IGNORED or not one.verbs >= _NEEDED:
            return
        if self._informers.has(kind):
            self._follow(kind)
        else:
            self._unused[resource] = metadata_kind(kind.group, kind.version, kind.plural, kind.name, kind.namespaced)

    def _follow(self, kind: Kind[Any]) -> None:
        resource = (kind.group, kind.plural)
        self._unused.pop(resource, None)
        if resource in self._followed:
            return
        if selection := _SELECTIONS.get(resource):
            informer = self._informers.add(Informer(self._client, kind, label_selector=selection))
        else:
            informer = self._informers.get(kind)
        self._followed[resource] = informer
        informer.on_change(functools.partial(self._object_changed, kind))

    async def _follow_used(self) -> None:
        """Follow the kinds that have objects by now. Raises ClientError."""
        for resource, kind in list(self._unused.items()):
            try:
                found = await self._client.list(kind, label_selector=_SELECTIONS.get(resource, ""), limit=1)
            except ApiError as error:
                # The server of an aggregated API does not answer; the others do.
                log.debug("cannot look for objects of %s: %s", kind.plural, error)
                continue
            if found.items:
                self._follow(kind)

    async def _look_at_unused(self) -> None:
        while True:
            await asyncio.sleep(UNUSED_SECONDS)
            try:
                await self._follow_used()
            except ClientError as error:
                log.debug("cannot look for objects of unused kinds: %s", error)

    async def _follow_definitions(self) -> None:
        """Discover the kinds again when a CustomResourceDefinition changes."""
        while True:
            await self._definitions_changed.wait()
            await asyncio.sleep(SETTLING_SECONDS)
            self._definitions_changed.clear()
            try:
                await self._rediscover()
            except ClientError as error:
                log.warning("cannot discover the kinds of custom resources: %s", error)
                await asyncio.sleep(UNUSED_SECONDS)
                self._definitions_changed.set()

    async def _discover_kinds(self) -> list[ServedKind]:
        """Return the kinds that are known; `_unknown` are the groups and versions that do not answer."""
        discovered = await discover(self._client)
        self._unknown = frozenset(discovered.failures)
        for group, error in discovered.failures.items():
            log.warning("cannot discover the kinds of %s: %s", group, error)
        return discovered.kinds

    async def _rediscover(self) -> None:
        served = {(one.kind.group, one.kind.name): one for one in await self._discover_kinds()}
        for name, kind in list(self._kinds.items()):
            if f"{kind.group}/{kind.version}" in self._unknown:
                continue
            if name not in served or served[name].kind != kind:
                self._forget(kind)
        new = [one for name, one in served.items() if name not in self._kinds]
        for one in new:
            self._register(one)
        if new:
            await self._follow_used()

    def _forget(self, kind: Kind[Any]) -> None:
        """Stop following a kind that is not served any more."""
        resource = (kind.group, kind.plural)
        self._kinds.pop((kind.group, kind.name), None)
        self._unused.pop(resource, None)
        informer = self._followed.pop(resource, None)
        if informer is not None:
            self._informers.drop(informer.kind)
            for obj in list(informer.items()):
                self._object_changed(kind, obj, None)

    def _object_changed(self, kind: Kind[Any], old: Object | None, new: Object | None) -> None:
        before = Item.from_object(kind, old) if old is not None else None
        after = Item.from_object(kind, new) if new is not None else None
        if before is not None and after is None:
            self._remember_absent(before.key.namespace, before.uid)
        for uid in self._ownership.change(before, after):
            self._queue.add(uid)
        for reference in after.owners if after is not None and self._unused else ():
            # The owner's deletion is news for this object, however soon it comes.
            owner = self._kinds.get((_group_of(reference), reference.kind))
            if owner is not None and (unused := self._unused.get((owner.group, owner.plural))) is not None:
                self._follow(unused)

    async def reconcile(self, uid: str) -> Outcome:
        """Delete the object if it has no owner left, or do its part of a foreground or orphaning deletion."""
        item = self._ownership.get(uid)
        if item is None or self._is_surely_kept(item):
            return Done()
        try:
            obj = await self._client.get(item.kind, item.key.name, item.key.namespace)
        except NotFound:
            return Done()
        if obj.metadata.uid != uid:
            return Done()
        item = Item.from_object(item.kind, obj)
        try:
            if item.orphans_dependents:
                await self._orphan_dependents(item, obj)
            elif item.waits_for_dependents:
                await self._wait_for_dependents(item, obj)
            elif item.owners and not item.is_deleting:
                return await self._act_on_owners(item, obj)
        except NotFound:
            pass  # another client was quicker
        return Done()

    def _is_surely_kept(self, item: Item) -> bool:
        """Whether the graph alone shows that nothing is to be done. Saves a request for each object at the start."""
        if item.is_deleting:
            return not (item.waits_for_dependents or item.orphans_dependents)
        owners = [self._ownership.owner(item, reference) for reference in item.owners]
        return all(owner is not None and not owner.waits_for_dependents for owner in owners)

    # --- Owners ------------------------------------------------------------------------------------------

    async def _act_on_owners(self, item: Item, obj: Object) -> Outcome:
        owners = OwnerStates()
        for reference in item.owners:
            kind = self._kinds.get((_group_of(reference), reference.kind))
            if kind is None:
                return Retry(f"owner of unknown kind {reference.api_version} {reference.kind}")
            known = self._ownership.get(reference.uid)
            if known is not None and known.key.namespace not in ("", item.key.namespace):
                self._report_namespace(item, reference)
            if kind.namespaced and not item.key.namespace:
                return Done()  # an invalid reference: Kubernetes keeps the object
            owners = owners.with_owner(reference, await self._find_owner(item, reference, kind))
        if owners.present:
            if owners.missing or owners.waiting:
                await self._write_owners(item, obj, owners.present)
            return Done()
        dependents = self._ownership.dependents(item.uid)
        policy: Policy = "Background"
        if owners.waiting and dependents:
            if any(dependent.waits_for_dependents for dependent in dependents):
                # A cycle: each object would wait for the other.
                unblocked = tuple(msgspec.structs.replace(o, block_owner_deletion=False) for o in item.owners)
                obj = await self._write_owners(item, obj, unblocked)
            policy = "Foreground"
        elif ORPHAN_FINALIZER in obj.metadata.finalizers:
            policy = "Orphan"
        elif FOREGROUND_FINALIZER in obj.metadata.finalizers:
            policy = "Foreground"
        await self._client.delete(
            item.kind,
            item.key.name,
            item.key.namespace,
            uid=item.uid,
            resource_version=obj.metadata.resource_version,
            propagation_policy=policy,
        )
        return Done()

    async def _find_owner(self, item: Item, reference: OwnerReference, kind: Kind[Any]) -> Item | None:
        """Return the owner if it exists in the graph or in the API server."""
        known = self._ownership.owner(item, reference)
        if known is not None:
            return known
        namespace = item.key.namespace if kind.namespaced else ""
        if (namespace, reference.uid) in self._absent:
            return None
        try:
            owner = await self._client.get(kind, reference.name, namespace)
        except NotFound:
            owner = None
        if owner is None or owner.metadata.uid != reference.uid:
            self._remember_absent(namespace, reference.uid)
            return None
        return Item.from_object(kind, owner)

    def _report_namespace(self, item: Item, reference: OwnerReference) -> None:
        """Warn of a reference to an object of another namespace, which is no owner."""
        kind, key = item.kind, item.key
        about = ObjectReference(
            api_version=kind.api_version, kind=kind.name, namespace=key.namespace, name=key.name, uid=item.uid
        )
        named = f"{reference.api_version}/{reference.kind}, namespace: {key.namespace}, name: {reference.name}"
        message = f'ownerRef [{named}, uid: {reference.uid}] does not exist in namespace "{key.namespace}"'
        self._recorder.record(about, type="Warning", reason="OwnerRefInvalidNamespace", message=message)

    def _remember_absent(self, namespace: str, uid: str) -> None:
        """Remember a missing owner: uids are never reused."""
        self._absent[namespace, uid] = None
        if len(self._absent) > REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    # --- Dependents --------------------------------------------------------------------------------------

    async def _wait_for_dependents(self, item: Item, obj: Object) -> None:
        """Foreground deletion: delete the dependents that block the owner, then remove its finalizer."""
        blocking = [d for d in self._ownership.dependents(item.uid) if d.is_blocked_by(item.uid)]
        if not blocking:
            await self._remove_finalizer(item, obj, FOREGROUND_FINALIZER)
            return
        for dependent in blocking:
            if not dependent.is_deleting:
                self._queue.add(dependent.uid)

    async def _orphan_dependents(self, item: Item, obj: Object) -> None:
        for dependent in self._ownership.dependents(item.uid):
            try:
                latest = await self._client.get(dependent.kind, dependent.key.name, dependent.key.namespace)
                if latest.metadata.uid == dependent.uid:
                    kept = tuple(o for o in latest.metadata.owner_references if o.uid != item.uid)
                    await self._write_owners(dependent, latest, kept)
            except NotFound:
                continue
        await self._remove_finalizer(item, obj, ORPHAN_FINALIZER)

    async def _write_owners(self, item: Item, obj: Object, owners: tuple[OwnerReference, ...]) -> Object:
        """Write owner references. Raises Conflict when the object has changed since it was read."""
        if owners == obj.metadata.owner_references:
            return obj
        return await self._patch(item, obj, {"ownerReferences": msgspec.to_builtins(owners) if owners else None})

    async def _remove_finalizer(self, item: Item, obj: Object, finalizer: str) -> None:
        kept = [one for one in obj.metadata.finalizers if one != finalizer]
        await self._patch(item, obj, {"finalizers": kept or None})

    async def _patch(self, item: Item, obj: Object, metadata: dict[str, Any]) -> Object:
        guarded = {"uid": item.uid, "resourceVersion": obj.metadata.resource_version, **metadata}
        changed: Object = await self._client.patch(item.kind, item.key.name, item.key.namespace, {"metadata": guarded})
        return changed


def _group_of(reference: OwnerReference) -> str:
    group, slash, _ = reference.api_version.rpartition("/")
    return group if slash else ""
