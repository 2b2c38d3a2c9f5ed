"""One informer for each kind, shared by all controllers of a process: one list, one watch, one copy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from bridgehead.client import Informer
from bridgehead.client.informer import Source
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

T = TypeVar("T", bound=Object)


class Informers:
    """Informers by kind, created when they are first asked for, before or while `run` runs."""

    def __init__(self, client: Source) -> None:
        self._client = client
        self._informers: dict[Kind[Any], Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None

    def get(self, kind: Kind[T]) -> Informer[T]:
        informer = self._informers.get(kind)
        if informer is None:
            informer = self._informers[kind] = Informer(self._client, kind)
            if self._tasks is not None:
                self._tasks.create_task(informer.run(), name=f"informer {kind.plural}")
        return informer

    def add_index(self, kind: Kind[T], name: str, function: Callable[[T], Iterable[str]]) -> None:
        """Index a kind; see `Informer.by_index`. Names are shared: controllers that use one name mean one index."""
        self.get(kind).add_index(name, function)

    async def run(self) -> None:
        """Keep all of them up to date until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for kind, informer in self._informers.items():
                self._tasks.create_task(informer.run(), name=f"informer {kind.plural}")
            await asyncio.Event().wait()  # further ones may come

    async def wait_synced(self) -> None:
        """Wait until all informers asked for so far have their first list."""
        for informer in list(self._informers.values()):
            await informer.wait_synced()
