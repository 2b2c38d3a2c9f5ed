"""The parts of a live cluster and of an inspector that the application uses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bridgehead.insight.live.updates import Status, Table, Update
from bridgehead.objects.meta import ObjectKey


class Updates(AbstractContextManager["Updates"], Protocol):
    """A subscription: `live.Feed`."""

    def __aiter__(self) -> Updates: ...

    async def __anext__(self) -> Update: ...


class Cluster(Protocol):
    """The part of `LiveCluster` that the application uses."""

    @property
    def status(self) -> Status: ...

    def subscribe(self, tables: Iterable[Table]) -> Any: ...

    def pods_of(self, service: ObjectKey) -> Collection[str]: ...

    def pods_on(self, node: str) -> Collection[str]: ...


class ObjectReader(Protocol):
    """The part of `Inspector` that the application uses."""

    async def read_object(self, kind: str, key: ObjectKey) -> Mapping[str, Any]: ...

    def follow_log(
        self, pod: ObjectKey, container: str, *, is_previous: bool = False
    ) -> AsyncGenerator[bytes, None]: ...

    def run(self, arguments: Sequence[str]) -> AsyncGenerator[bytes, None]: ...
