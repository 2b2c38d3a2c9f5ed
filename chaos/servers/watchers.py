"""Watchers: each follows one resource at one server, or moves between servers, and goes on where it was."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

from bridgehead.client.http_library import aiohttp

from .answers import Body, revision_of, state_of
from .clients import LIMITED, SERVICES, SHARED, claims_of
from .connections import Connections
from .watches import Event, Sight

_RETRY_SECONDS = 0.1
_GONE = 410


@dataclass
class Watcher:
    """Records the events of the run's namespaces in `sight`. `stay` returns for how long a watch lasts, in seconds.

    A watcher that moves uses the next server after each watch, the others only the one that they have.
    """

    connections: Connections
    sight: Sight
    revision: int
    stay: Callable[[], float] | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                async with asyncio.timeout(self.stay() if self.stay else None):
                    await self._watch()
            if self.stay:
                self.connections.leave()
            else:
                await asyncio.sleep(_RETRY_SECONDS)

    def has_seen(self, revision: int) -> bool:
        return self.revision >= revision

    async def _watch(self) -> None:
        query = f"watch=1&allowWatchBookmarks=true&resourceVersion={self.revision}"
        async with self.connections.stream(f"/api/v1/{self.sight.resource}?{query}") as response:
            if response.status == _GONE:
                self.sight.too_old += 1
            if response.status != 200:
                await asyncio.sleep(_RETRY_SECONDS)
                return
            async for line in response.content:
                self._take(json.loads(line))

    def _take(self, message: Body) -> None:
        obj = message["object"]
        if message["type"] == "ERROR":
            self.sight.too_old += obj.get("code") == _GONE
            return
        self.revision = max(self.revision, revision_of(obj))
        if message["type"] != "BOOKMARK" and obj["metadata"].get("namespace") in (SHARED, LIMITED):
            self.sight.events.append(_event(self.sight.resource, message["type"], obj))


def _event(resource: str, type: str, obj: Body) -> Event:
    meta = obj["metadata"]
    state = " ".join(claims_of(obj)) if resource == SERVICES else state_of(obj)
    return Event(revision_of(obj), type, f"{meta['namespace']}/{meta['name']}", meta["uid"], state)


def moving(rng: random.Random) -> Callable[[], float]:
    """Return the durations of a moving watcher's watches."""
    return lambda: rng.uniform(0.3, 3.0)
