"""Informers that all controllers of a process share: one list, one watch and one copy for each kind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from bridgehead.client import Informer
from bridgehead.client.informer import Source
from bridgehead.objects.core import Pod
from bridgehead.objects.kinds import Kind
from bridgehead.objects.meta import Object

T = TypeVar("T", bound=Object)
Derived = TypeVar("Derived")

# Name of an index of the informer of pods, used by several controllers.
PODS_BY_NODE = "node"


def node_of_pod(pod: Pod) -> tuple[str, ...]:
    """Index function: the node to which a pod is bound."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


# Name of an index of the informer of pods by the claims of their volumes.
PODS_BY_CLAIM = "claim"


def claims_of_pod(pod: Pod) -> tuple[str, ...]:
    """Index function: the claims of a pod's volumes, as `NAMESPACE/NAME`."""
    names = (volume.claim_name(pod.metadata.name) for volume in pod.spec.volumes)
    return tuple(f"{pod.metadata.namespace}/{name}" for name in names if name)


class Informers:
    """Informers by kind, created at their first use, before or during `run`."""

    def __init__(self, client: Source) -> None:
        self._client = client
        self._informers: dict[Kind[Any], Informer[Any]] = {}
        self._others: list[Informer[Any]] = []
        self._derived: dict[Callable[[Informers], Any], Any] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: dict[Informer[Any], asyncio.Task[None]] = {}

    def get(self, kind: Kind[T]) -> Informer[T]:
        informer = self._informers.get(kind)
        if informer is None:
            informer = self._informers[kind] = Informer(self._client, kind)
            self._start(informer)
        return informer

    def has(self, kind: Kind[Any]) -> bool:
        """Whether there is an informer of all objects of this kind."""
        return kind in self._informers

    def add(self, informer: Informer[T]) -> Informer[T]:
        """Run an informer for a selection of objects along with the shared ones."""
        self._others.append(informer)
        self._start(informer)
        return informer

    def drop(self, kind: Kind[Any]) -> None:
        """Stop the informer of a kind that the API does not serve any more."""
        informer = self._informers.pop(kind, None)
        task = None if informer is None else self._running.pop(informer, None)
        if task is not None:
            task.cancel()

    def derived(self, make: Callable[[Informers], Derived]) -> Derived:
        """Return `make(self)`, called once and shared by all callers with the same `make`."""
        if make not in self._derived:
            self._derived[make] = make(self)
        found: Derived = self._derived[make]
        return found

    async def run(self) -> None:
        """Keep all informers up to date until cancelled."""
        async with asyncio.TaskGroup() as self._tasks:
            for informer in (*self._informers.values(), *self._others):
                self._start(informer)
            await asyncio.Event().wait()  # informers may be added later

    async def wait_synced(self) -> None:
        """Wait until all informers so far have their first list."""
        for informer in (*self._informers.values(), *self._others):
            await informer.wait_synced()

    def _start(self, informer: Informer[Any]) -> None:
        if self._tasks is not None:
            task = self._tasks.create_task(informer.run(), name=f"informer {informer.kind.plural}")
            self._running[informer] = task
