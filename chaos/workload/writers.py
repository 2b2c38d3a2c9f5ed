"""Writers: objects created, changed and deleted through the API, every answer recorded in the ledger."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.client.errors import AlreadyExists, ApiError, ClientError, Conflict, NotFound
from bridgehead.objects.kinds import CONFIG_MAPS, SERVICES, Kind
from bridgehead.objects.meta import Object
from chaos.ledger import Answer, Ledger, Stored

from .servers import NAMESPACE

_STATE = "chaos.example.com/state"
_LABEL = "chaos.example.com/written"
_PATIENCE = 15.0
_PAUSE = 0.3

Spec = Callable[[str], dict[str, Any]]


class Writer:
    """Writes objects of one kind. `make` gives what a new object of that name has besides metadata."""

    def __init__(self, client: ApiClient, kind: Kind[Any], ledger: Ledger, make: Spec) -> None:
        self._client, self._kind, self._ledger, self._make = client, kind, ledger, make
        self._writes = 0

    async def create(self, name: str) -> Object | None:
        """Create an object; return it, None when the API server does not have it."""
        state = self._next_state(name)
        metadata = {
            "name": name,
            "namespace": NAMESPACE,
            "labels": {_LABEL: "yes"},
            "annotations": {_STATE: state},
        }
        manifest = {
            "apiVersion": self._kind.api_version,
            "kind": self._kind.name,
            "metadata": metadata,
            **self._make(name),
        }
        return await self._write(name, state, lambda: self._client.create(self._kind, manifest))

    async def change(self, found: Object) -> Object | None:
        """Change an object that nobody else changes; the resourceVersion keeps a late request from undoing another."""
        name = found.metadata.name
        state = self._next_state(name)
        patch = {
            "metadata": {"resourceVersion": found.metadata.resource_version, "annotations": {_STATE: state}},
        }
        return await self._write(name, state, lambda: self._client.patch(self._kind, name, NAMESPACE, patch))

    async def delete(self, found: Object) -> Object | None:
        name, uid = found.metadata.name, found.metadata.uid

        async def request() -> None:
            await self._client.delete(self._kind, name, NAMESPACE, uid=uid)

        return await self._write(name, None, request)

    async def _write(self, name: str, state: str | None, request: Callable[[], Awaitable[Any]]) -> Object | None:
        key = f"{self._kind.plural}/{name}"
        try:
            async with asyncio.timeout(_PATIENCE):
                written: Object | None = await request()
        except ApiError as error:
            # The client's retry may have met its own first attempt, and a 5xx leaves the outcome unknown.
            is_open = isinstance(error, (AlreadyExists, Conflict, NotFound)) or error.status >= 500
            self._ledger.record(key, state, Answer.UNKNOWN if is_open else Answer.REFUSED)
        except (ClientError, TimeoutError):
            self._ledger.record(key, state, Answer.UNKNOWN)
        except asyncio.CancelledError:  # the request may be on its way
            self._ledger.record(key, state, Answer.UNKNOWN)
            raise
        else:
            uid = written.metadata.uid if written is not None else ""
            self._ledger.record(key, state, Answer.ACKNOWLEDGED, uid)
            return written
        await asyncio.sleep(_PAUSE)
        return await self._read(name)

    async def _read(self, name: str) -> Object | None:
        """The object as it is, however long it takes to get an answer."""
        while True:
            try:
                async with asyncio.timeout(_PATIENCE):
                    found: Object = await self._client.get(self._kind, name, NAMESPACE)
                    return found
            except NotFound:
                return None
            except (ClientError, TimeoutError):
                await asyncio.sleep(_PAUSE)

    def _next_state(self, name: str) -> str:
        self._writes += 1
        return f"{name}-{self._writes}"


async def write_config_maps(client: ApiClient, ledger: Ledger, rng: random.Random, number: int, pause: float) -> None:
    """Create, change and delete ConfigMaps one after the other, until cancelled."""
    writer = Writer(client, CONFIG_MAPS, ledger, lambda name: {"data": {"filling": "x" * rng.randrange(2000)}})
    life = 0
    while True:
        life += 1
        found = await writer.create(f"writer-{number}-{life}")
        for _ in range(rng.randrange(6)):
            await asyncio.sleep(rng.uniform(0, 2 * pause))
            if found is None:
                break
            found = await writer.change(found)
        if found is not None and rng.random() < 0.7:
            await writer.delete(found)


async def read_written(client: ApiClient) -> dict[str, Stored]:
    """All that writers wrote, by the names that the ledger has."""
    written: dict[str, Stored] = {}
    kinds: tuple[Kind[Any], ...] = (CONFIG_MAPS, SERVICES)
    for kind in kinds:
        for found in (await client.list(kind, NAMESPACE, label_selector=_LABEL)).items:
            meta = found.metadata
            written[f"{kind.plural}/{meta.name}"] = Stored(meta.uid, meta.annotations[_STATE])
    return written
