"""A complete API server in this process, called by ASGI, without sockets and TLS."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from bridgehead.apiserver.audit.auditor import Auditor
from bridgehead.apiserver.bootstrap import ensure_system_objects
from bridgehead.apiserver.build import ApiParts, ApiSettings, build_api
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.kubernetes_service import KubernetesService
from bridgehead.apiserver.registry import freshness
from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.server_leases import OnlyServer
from bridgehead.signing_keys import SigningKey
from bridgehead.storage import MemoryStore, Record, Store

# No test waits long for a revision that never comes.
freshness.BLOCK_SECONDS = 0.02

ADMIN = User("kubernetes-admin", ("system:masters", "system:authenticated"))
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@lru_cache(maxsize=1)
def signing_key() -> SigningKey:
    return SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048))


class Clock:
    def __init__(self) -> None:
        self.now = 1795232921.0  # 2026-11-21T03:48:41Z

    def __call__(self) -> float:
        return self.now


@dataclass
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> list[str]:
        return [value.decode() for key, value in self.headers if key == name.encode()]


class Reader:
    """A client's connection. Between `block` and `unblock` the client reads nothing."""

    unsent_bytes = 100_000

    def __init__(self) -> None:
        self.was_aborted = False
        self._writable = asyncio.Event()
        self._writable.set()

    @property
    def is_full(self) -> bool:
        return not self._writable.is_set()

    def limit_buffer(self) -> None: ...

    async def drain(self) -> None:
        await self._writable.wait()

    def block(self) -> None:
        self._writable.clear()

    def unblock(self) -> None:
        self._writable.set()

    def abort(self) -> None:
        self.was_aborted = True
        self.unblock()


class Watching:
    """An open watch. `next` waits for one event; `leave` disconnects the client."""

    def __init__(self, world: World, scope: dict[str, Any]) -> None:
        self._buffer = b""
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._left = asyncio.Event()
        self.piece_sizes: list[int] = []
        self.started = asyncio.Event()
        self.answer: Answer | None = None
        self.connection: Reader = scope["state"]["connection"]
        self._task = asyncio.create_task(world.parts.application(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.answer = Answer(message["status"], message["headers"], b"")
            self.started.set()
            return
        self.piece_sizes.append(len(message["body"]))
        self._pieces.put_nowait(message["body"])
        if not message.get("more_body"):
            self._pieces.put_nowait(None)

    async def next(self) -> dict[str, Any] | None:
        """Return the next event, None at the end of the stream."""
        async with asyncio.timeout(40):
            while b"\n" not in self._buffer:
                piece = await self._pieces.get()
                if piece is None:
                    return None
                self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        event: dict[str, Any] = json.loads(line)
        return event

    async def next_frame(self) -> bytes | None:
        """Return the next event of a watch in protobuf, without its length; None at the end of the stream."""
        async with asyncio.timeout(40):
            while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
                piece = await self._pieces.get()
                if piece is None:
                    return None
                self._buffer += piece
        size = 4 + int.from_bytes(self._buffer[:4], "big")
        frame, self._buffer = self._buffer[4:size], self._buffer[size:]
        return frame

    async def names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(e["type"], e["object"]["metadata"]["name"]) for e in events if e is not None]

    async def leave(self) -> None:
        self._left.set()
        async with asyncio.timeout(40):
            await self._task

    async def end(self) -> None:
        """Wait for the server to end it."""
        async with asyncio.timeout(40):
            await self._task


class World:
    def __init__(self, parts: ApiParts, store: Store, clock: Clock) -> None:
        self.parts = parts
        self.store = store
        self.clock = clock

    def scope(self, method: str, url: str, headers: Mapping[str, str], user: User | None) -> dict[str, Any]:
        path, _, query = url.partition("?")
        return {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            "state": {"peer": user, "connection": Reader()},
        }

    async def call(
        self,
        method: str,
        url: str,
        body: Any = None,
        *,
        user: User | None = ADMIN,
        headers: Mapping[str, str] | None = None,
        pieces: list[bytes] | None = None,
    ) -> Answer:
        """`pieces` are sent as a chunked body."""
        raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        given = {"content-type": "application/json"} if raw and headers is None else dict(headers or {})
        if raw:
            given["content-length"] = str(len(raw))
        waiting = list(pieces) if pieces is not None else [raw]
        sent: list[Mapping[str, Any]] = []

        async def receive() -> dict[str, Any]:
            piece = waiting.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(waiting)}

        async def send(message: Mapping[str, Any]) -> None:
            sent.append(message)

        await self.parts.application(self.scope(method, url, given, user), receive, send)
        whole = b"".join(message.get("body", b"") for message in sent[1:])
        return Answer(sent[0]["status"], sent[0]["headers"], whole)

    async def get(self, url: str, **options: Any) -> Any:
        return (await self.call("GET", url, **options)).json

    async def create(self, url: str, obj: Mapping[str, Any]) -> Any:
        answer = await self.call("POST", url, obj)
        assert answer.status == 201, answer.body
        return answer.json

    async def patch(self, url: str, patch: Any, kind: str = "merge-patch") -> Answer:
        return await self.call("PATCH", url, patch, headers={"content-type": f"application/{kind}+json"})

    async def watch(self, url: str, *, headers: Mapping[str, str] | None = None) -> Watching:
        query = "&" if "?" in url else "?"
        watching = Watching(self, self.scope("GET", f"{url}{query}watch=true", headers or {}, ADMIN))
        async with asyncio.timeout(40):
            await watching.started.wait()
        return watching


class _StoreAfterStart(MemoryStore):
    """A store with the system objects of an earlier one: to create some two hundred takes longer than most tests."""

    _kept: tuple[list[Record], int] = [], 0

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._state.load(*self._kept)

    def keep(self, table: Iterable[Resource]) -> None:
        """Begin later stores with the objects of this one."""
        resources = {resource.stored.id for resource in table}
        _StoreAfterStart._kept = [record for resource in resources for record in self.list(resource)], self.revision


@asynccontextmanager
async def open_world(
    *,
    resources: tuple[Resource, ...] = (),
    auditor: Auditor | None = None,
    admission_plugins: frozenset[str] = frozenset(),
    **settings: Any,
) -> AsyncIterator[World]:
    """A server with the whole table and further `resources`; `settings` are those of its store."""
    clock = Clock()
    store = _StoreAfterStart(**settings)
    table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767)) + resources
    users = {"token-of-bob": User("bob", ("system:authenticated",))}
    api_settings = ApiSettings(
        signing_key(), users=users, clock=clock, auditor=auditor, admission_plugins=admission_plugins
    )
    parts = build_api(table, store, api_settings)
    if not store.revision:
        await ensure_system_objects(
            parts.registry, KubernetesService(parts.registry, "10.96.0.1", ("10.0.0.1", 6443), OnlyServer())
        )
        store.keep(table)
    world = World(parts, store, clock)
    following = asyncio.create_task(parts.definitions.run())
    try:
        yield world
    finally:
        following.cancel()
        parts.watches.close()
        await parts.close()
        await store.close()
