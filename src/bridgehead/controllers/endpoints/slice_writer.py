"""Writes a `SlicePlan` to the API. Called by the EndpointSlice and the mirroring controller."""

from __future__ import annotations

import contextlib

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES

from .slice_cache import SliceCache
from .slice_plan import SlicePlan, to_json


class SliceWriter:
    """Creates, updates and deletes slices, and records each answer in `cache`."""

    def __init__(self, client: ApiClient, cache: SliceCache) -> None:
        self._client = client
        self._cache = cache

    async def apply(self, plan: SlicePlan) -> None:
        """Write the plan. Raises ClientError; earlier writes remain, and the next plan starts from them."""
        for item in plan.create:
            self._cache.record_write(await self._client.create(ENDPOINT_SLICES, to_json(item)))
        for item in plan.update:
            self._cache.record_write(await self._client.update(ENDPOINT_SLICES, to_json(item)))
        for item in plan.delete:
            await self._delete(item)

    async def _delete(self, item: EndpointSlice) -> None:
        meta = item.metadata
        with contextlib.suppress(NotFound):  # the garbage collector may have been quicker
            await self._client.delete(ENDPOINT_SLICES, meta.name, meta.namespace, uid=meta.uid)
        self._cache.record_deletion(item)
