"""Removal of finalizers."""

from __future__ import annotations

import contextlib
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.client.errors import Conflict, NotFound
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

from .volumes_in_use import without_finalizer


async def release(client: ApiClient, kind: Kind[Any], obj: Object, finalizer: str) -> None:
    """Remove a finalizer from an object if it is still as it was. Raises ClientError."""
    meta = obj.metadata
    if finalizer not in meta.finalizers:
        return
    patch = {"metadata": {"resourceVersion": meta.resource_version, "finalizers": without_finalizer(meta, finalizer)}}
    with contextlib.suppress(NotFound, Conflict):  # a conflict means that the informer will show a change
        await client.patch(kind, meta.name, meta.namespace, patch)
