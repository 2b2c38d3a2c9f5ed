"""The real API server on a loopback socket, for tests of its clients."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import rsa

from bridgehead.apiserver.bootstrap import ensure_system_objects
from bridgehead.apiserver.build import ApiParts, ApiSettings, build_api
from bridgehead.apiserver.http.server import ApiServer, open_listeners
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.kubernetes_service import KubernetesService
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.server_leases import OnlyServer
from bridgehead.client import ClientConfig, Informer
from bridgehead.signing_keys import SigningKey
from bridgehead.storage.memory import MemoryStore
from tests.kubeconfigs import write_kubeconfig

DEADLINE = 100.0
# All servers of this process share one key: to make one takes a tenth of a second.
SIGNING_KEY = SigningKey(rsa.generate_private_key(public_exponent=65537, key_size=2048))


class ApiWorld:
    """An API server that can be stopped and started again with the same store and port.

    `context` is for TLS, `settings` are further ones of `ApiSettings`. `address`: of the server.
    """

    def __init__(self, context: ssl.SSLContext | None = None, *, address: str = "127.0.0.1", **settings: Any) -> None:
        self.address = address
        self._context = context
        self._settings = settings
        self._store = MemoryStore()
        self._held = hold_port()
        self._port = self._held.getsockname()[1]
        self._server: ApiServer | None = None
        self._serving: asyncio.Task[None] | None = None
        self._following: asyncio.Future[Any] | None = None
        self._listener: Any = None
        self._parts: Any = None

    @property
    def parts(self) -> ApiParts:
        parts: ApiParts = self._parts
        return parts

    @property
    def config(self) -> ClientConfig:
        scheme = "http" if self._context is None else "https"
        server = f"{scheme}://{self.address}:{self._port}"
        return ClientConfig(server=server, token="admin", insecure=self._context is not None)

    def write_kubeconfig(self, path: Path) -> Path:
        """Make the file of a client, which sends no token without TLS."""
        if self._context is None:
            raise ValueError("the API server has no certificate")
        return write_kubeconfig(path, self.config.server, token="admin")

    async def start(self) -> None:
        table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
        users = {"admin": User("kubernetes-admin", ("system:masters",))}
        parts = build_api(table, self._store, ApiSettings(SIGNING_KEY, users=users, **self._settings))
        (self._listener,) = open_listeners([f"{self.address}:{self._port}"], [])
        await ensure_system_objects(
            parts.registry, KubernetesService(parts.registry, "10.96.0.1", ("10.0.0.1", self._port), OnlyServer())
        )
        self._parts = parts
        self._server = ApiServer(parts.application, self._context, parts.watches.close)
        self._following = asyncio.gather(parts.definitions.run(), parts.quota_usage.run())
        self._serving = asyncio.create_task(self._server.serve([self._listener]))

    async def stop(self) -> None:
        if self._server is not None and self._serving is not None and self._following is not None:
            self._server.stop()
            await self._serving
            self._following.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._following
            self._listener.close()
            await self._parts.close()
            self._server = self._serving = None

    async def close(self) -> None:
        self._held.close()
        await self.stop()
        await self._store.close()


@contextlib.asynccontextmanager
async def api_world(context: ssl.SSLContext | None = None) -> AsyncIterator[ApiWorld]:
    world = ApiWorld(context)
    await world.start()
    try:
        yield world
    finally:
        await world.close()


def hold_port() -> socket.socket:
    """Reserve a port on loopback. Connections are refused while no server listens on it.

    Without the reservation, the kernel may give a free port to any client, even to the one that connects to it.
    """
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
    except OSError:
        held.close()
        raise
    return held


def free_ports(count: int) -> list[int]:
    """Return consecutive free ports below the range from which the kernel gives ports to clients."""
    while True:
        first = random.randrange(20_000, 29_000)
        ports = list(range(first, first + count))
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return ports


@contextlib.asynccontextmanager
async def running(*runs: Awaitable[Any]) -> AsyncIterator[None]:
    """Run tasks during the block and cancel them at its end; an exception of a task ends the block."""
    async with asyncio.TaskGroup() as tasks:
        started = [tasks.create_task(run) for run in runs]  # type: ignore[arg-type]
        yield
        for task in started:
            task.cancel()


async def until(what: Callable[[], Awaitable[Any]], deadline: float = DEADLINE) -> Any:
    """Return the first true result of `what()`."""
    async with asyncio.timeout(deadline):
        pause = 0.01
        while True:
            value = await what()
            if value:
                return value
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, 0.1)  # looks take processor time from what they wait for


async def until_seen(what: Callable[[], Any], *informers: Informer[Any]) -> Any:
    """Return the first true value of `what()`, evaluated again at each event of the informers."""
    changed = asyncio.Event()
    for informer in informers:
        informer.on_change(lambda _old, _new: changed.set())
    async with asyncio.timeout(DEADLINE):
        while not (value := what()):
            changed.clear()
            await changed.wait()
    return value
