"""Reading, creating and deleting the ControllerRevisions of DaemonSets or StatefulSets. `history` decides.

Called by the controllers of both kinds. Source: Kubernetes `pkg/controller/history` (v1.36).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, NotFound
from bridgehead.controllers.adoption import Claimer
from bridgehead.controllers.read_your_writes import Latest
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.apps import ControllerRevision, DaemonSet, StatefulSet
from bridgehead.objects.kinds import CONTROLLER_REVISIONS, Kind
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import compile_selector

from .hashes import template_hash
from .history import History, new_revision, sort_history, surplus_revisions
from .owned import OwnedIndex

Owner = TypeVar("Owner", bound=DaemonSet | StatefulSet)


class Revisions(Generic[Owner]):
    """The revisions of all owners of one kind.

    `label`: the label of a revision with the hash of its template. `changed(key)` is called for the owner of a revision
    that was deleted or changed: an owner must have one for its template.
    """

    def __init__(
        self,
        client: ApiClient,
        informers: Informers,
        kind: Kind[Owner],
        label: str,
        latest: Latest[Owner],
        changed: Callable[[ObjectKey], None],
    ) -> None:
        self._client = client
        self._kind = kind
        self._label = label
        self._latest = latest
        self._changed = changed
        self._revisions = informers.get(CONTROLLER_REVISIONS)
        self._claimer = Claimer(client, kind, CONTROLLER_REVISIONS)
        self._owned = OwnedIndex(self._revisions)
        self._revisions.on_change(self._revision_changed)

    async def wait_synced(self) -> None:
        await self._revisions.wait_synced()

    def _revision_changed(self, old: ControllerRevision | None, new: ControllerRevision | None) -> None:
        owner = old.metadata.controller if old is not None else None
        if old is not None and owner is not None and owner.kind == self._kind.name:
            self._changed(ObjectKey(old.metadata.namespace, owner.name))

    async def read(self, owner: Owner) -> History:
        """Adopt orphans and return the owner's revisions. Raises ClientError."""
        selector = compile_selector(owner.spec.selector)
        return sort_history(owner, await self._claimer.claim(owner, selector, self._owned.candidates(owner)))

    async def ensure_current(self, owner: Owner, history: History) -> ControllerRevision | None:
        """Return the revision of the present template with the highest number; None when its hash must change.

        Raises ClientError.
        """
        current, meta = history.current, owner.metadata
        if current is None:
            revision_hash = template_hash(owner.spec.template, owner.status.collision_count)
            wanted = new_revision(self._kind, owner, history.number, self._label, revision_hash)
            try:
                return await self._client.create(CONTROLLER_REVISIONS, wanted)
            except AlreadyExists:
                return await self._resolve_name_collision(owner, wanted["metadata"]["name"])
        patch: dict[str, Any] = {}
        if current.revision < history.number:
            patch["revision"] = history.number
        if self._label not in current.metadata.labels:
            patch["metadata"] = {"labels": {self._label: current.metadata.name}}
        if not patch:
            return current
        return await self._client.patch(CONTROLLER_REVISIONS, current.metadata.name, meta.namespace, patch)

    async def _resolve_name_collision(self, owner: Owner, name: str) -> ControllerRevision | None:
        """Return the revision of this name if it has the present template; else increment the collision count."""
        try:
            found = await self._client.get(CONTROLLER_REVISIONS, name, owner.metadata.namespace)
        except NotFound:
            return None
        reference = found.metadata.controller
        if reference is not None and reference.uid == owner.metadata.uid and sort_history(owner, [found]).current:
            return found
        count = (owner.status.collision_count or 0) + 1
        await self._latest.patch_status(self._client, owner, {"status": {"collisionCount": count}})
        return None

    async def clean_up(
        self, owner: Owner, old: Sequence[ControllerRevision], is_live: Callable[[ControllerRevision], bool]
    ) -> None:
        """Delete old revisions beyond the history limit. Raises ClientError."""
        for revision in surplus_revisions(owner, old, is_live):
            meta = revision.metadata
            with contextlib.suppress(NotFound):
                await self._client.delete(CONTROLLER_REVISIONS, meta.name, meta.namespace, uid=meta.uid)
