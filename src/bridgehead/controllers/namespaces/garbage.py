"""Objects go when the last of their owners is gone; owners deleted in the foreground go after what depends on them.

The picture in `ownership` follows every kind that can be deleted and says what to look at. Before anything is
deleted, the object and the owners that seem to be missing are asked of the API server itself.
Source: kube-controller-manager's garbage-collector-controller.
"""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any, Literal

import msgspec

from bridgehead.client import ApiClient, Done, EventRecorder, Informer, Outcome, Retry, WorkQueue
from bridgehead.client.discovery import ServedKind, discover, metadata_kind
from bridgehead.client.errors import NotFound
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object, OwnerReference

from ..shared import Informers
from .ownership import FOREGROUND_FINALIZER, ORPHAN_FINALIZER, Item, Ownership, Verdict

WORKERS = 16
REMEMBERED_ABSENT = 500
_IGNORED = {("", "events"), ("events.k8s.io", "events")}  # they own nothing, nobody owns them, and they are many
_NEEDED = {"list", "watch", "delete"}

Policy = Literal["Background", "Foreground", "Orphan"]


class GarbageCollector:
    """Runs until cancelled. Its keys are uids."""

    def __init__(self, client: ApiClient, informers: Informers, recorder: EventRecorder) -> None:
        self._client = client
        self._informers = informers
        self._ownership = Ownership()
        self._kinds: dict[tuple[str, str], Kind[Any]] = {}  # (group, kind), as owner references name them
        self._followed: dict[tuple[str, str], Informer[Any]] = {}
        self._absent: OrderedDict[tuple[str, str], None] = OrderedDict()  # (namespace, uid) of owners that are gone
        self._queue: WorkQueue[str] = WorkQueue("garbage")

    async def run(self) -> None:
        """Raises ClientError when it can't even find out which kinds there are."""
        await self._informers.wait_synced()
        for one in await discover(self._client):
            self._follow(one)
        for informer in self._followed.values():
            await informer.wait_synced()
        await self._queue.run(self.reconcile, workers=WORKERS)

    def _follow(self, one: ServedKind) -> None:
        """Of kinds that somebody else follows the copy is shared, of others it has the metadata only."""
        kind: Kind[Any] = one.kind
        place = (kind.group, kind.plural)
        self._kinds[kind.group, kind.name] = kind
        if place in _IGNORED or place in self._followed or not one.verbs >= _NEEDED:
            return
        if not self._informers.has(kind):
            kind = metadata_kind(kind.group, kind.version, kind.plural, kind.name, kind.namespaced)
        informer = self._followed[place] = self._informers.get(kind)
        informer.on_change(functools.partial(self._object_changed, kind))

    def _object_changed(self, kind: Kind[Any], old: Object | None, new: Object | None) -> None:
        before = Item.from_object(kind, old) if old is not None else None
        after = Item.from_object(kind, new) if new is not None else None
        if before is not None and after is None:
            self._remember_absent(before.key.namespace, before.uid)
        for uid in self._ownership.change(before, after):
            self._queue.add(uid)

    async def reconcile(self, uid: str) -> Outcome:
        """Delete the object if none of its owners is left, or do its part of a foreground or orphaning deletion."""
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
                return await self._judge_and_act(item, obj)
        except NotFound:
            pass  # somebody was quicker
        return Done()

    def _is_surely_kept(self, item: Item) -> bool:
        """Whether there is nothing to do by our own picture; spares a request for each object at the start."""
        if item.is_deleting:
            return not (item.waits_for_dependents or item.orphans_dependents)
        owners = [self._ownership.get(owner.uid) for owner in item.owners]
        return all(owner is not None and not owner.waits_for_dependents for owner in owners)

    # --- Owners ------------------------------------------------------------------------------------------

    async def _judge_and_act(self, item: Item, obj: Object) -> Outcome:
        verdict = Verdict()
        for reference in item.owners:
            kind = self._kinds.get((_group_of(reference), reference.kind))
            if kind is None:
                return Retry(f"owner of unknown kind {reference.api_version} {reference.kind}")
            if kind.namespaced and not item.key.namespace:
                return Done()  # such a reference means nothing; Kubernetes leaves the object alone
            verdict = verdict.having(reference, await self._find_owner(item, reference, kind))
        if verdict.solid:
            if verdict.dangling or verdict.waiting:
                await self._write_owners(item, obj, verdict.solid)
            return Done()
        dependents = self._ownership.dependents(item.uid)
        policy: Policy = "Background"
        if verdict.waiting and dependents:
            if any(dependent.waits_for_dependents for dependent in dependents):
                # A circle: each would wait for the other.
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
        """The owner if it exists, by our picture or by the API server's word."""
        known = self._ownership.get(reference.uid)
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

    def _remember_absent(self, namespace: str, uid: str) -> None:
        """Uids are never used twice: who is gone stays gone."""
        self._absent[namespace, uid] = None
        if len(self._absent) > REMEMBERED_ABSENT:
            self._absent.popitem(last=False)

    # --- Dependents --------------------------------------------------------------------------------------

    async def _wait_for_dependents(self, item: Item, obj: Object) -> None:
        """Foreground: the owner goes when nothing is left that blocks it."""
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
        """Raises Conflict when the object has changed since it was read."""
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
