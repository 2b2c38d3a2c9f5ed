"""The binder with an outdated view of claims."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest

from bridgehead.client.errors import NotFound
from bridgehead.controllers.volumes.binder import PersistentVolumeBinder, _Item
from bridgehead.objects.kinds import PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, Kind
from bridgehead.objects.meta import Object, ObjectKey
from bridgehead.objects.storage import PersistentVolumeClaim

from .sample_volumes import claim, reference, volume

BOUND = volume(phase="Bound", claimRef=reference(), persistentVolumeReclaimPolicy="Retain")
CLAIM = claim(phase="Bound", volumeName="pv")
EARLIER = msgspec.structs.replace(CLAIM, metadata=msgspec.structs.replace(CLAIM.metadata, uid="uid-of-earlier"))


class View:
    """An informer that shows these objects."""

    def __init__(self, kind: Kind[Any], *objects: Object) -> None:
        self.kind = kind
        self._objects = {each.key: each for each in objects}

    def get(self, key: ObjectKey) -> Object | None:
        return self._objects.get(key)

    def on_change(self, handler: object) -> None: ...

    def add_index(self, name: str, index: object) -> None: ...


class Server:
    """An API server with one claim or none. `patches` are those of volumes."""

    def __init__(self, claim: PersistentVolumeClaim | None) -> None:
        self._claim = claim
        self.patches: list[Any] = []

    async def get(self, kind: Kind[Any], name: str, namespace: str) -> PersistentVolumeClaim:
        if self._claim is None:
            raise NotFound(404, "NotFound", "no such claim")
        return self._claim

    async def patch(self, kind: Kind[Any], name: str, namespace: str, patch: Any, **more: Any) -> Object:
        self.patches.append(patch)
        return BOUND


class Views:
    def __init__(self, seen: PersistentVolumeClaim | None) -> None:
        claims = [seen] if seen is not None else []
        self._objects = {PERSISTENT_VOLUME_CLAIMS: claims, PERSISTENT_VOLUMES: [BOUND]}

    def get(self, kind: Kind[Any]) -> View:
        return View(kind, *self._objects.get(kind, ()))


@pytest.mark.parametrize(
    ("seen", "stored", "phases"),
    [
        (CLAIM, None, []),
        (None, CLAIM, []),
        (EARLIER, CLAIM, []),
        (EARLIER, EARLIER, ["Released"]),
        (None, None, ["Released"]),
    ],
    ids=["as seen", "not seen yet", "only an earlier one seen", "created anew", "deleted"],
)
async def test_a_volume_is_released_only_if_the_server_has_no_such_claim(
    seen: PersistentVolumeClaim | None, stored: PersistentVolumeClaim | None, phases: list[str]
) -> None:
    server = Server(stored)
    binder = PersistentVolumeBinder(cast(Any, server), cast(Any, Views(seen)), cast(Any, None))
    await binder.reconcile(_Item(False, BOUND.key))
    assert [patch["status"]["phase"] for patch in server.patches] == phases
