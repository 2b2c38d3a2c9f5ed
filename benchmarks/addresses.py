"""Load-balancer addresses: how soon Services have them. API server, controller and client are separate processes."""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from tests.integration.balancer_process import BalancerProcess

from bridgehead.client import ApiClient, Informer, load_config
from bridgehead.objects.core import Service
from bridgehead.objects.kinds import SERVICES
from bridgehead.objects.metallb import IP_ADDRESS_POOLS

SERVICES_AT_ONCE = 1000
MORE = 50
_CONNECTIONS = 20
_DEADLINE_SECONDS = 120.0


def run() -> list[tuple[str, str]]:
    with (
        tempfile.TemporaryDirectory() as directory,
        contextlib.closing(BalancerProcess(Path(directory))) as world,
    ):
        world.start()
        return asyncio.run(_measure(world))


async def _measure(world: BalancerProcess) -> list[tuple[str, str]]:
    async with ApiClient(load_config(world.server.directory / "kubeconfig")) as client, _following(client) as services:
        pool = {"metadata": {"name": "pool", "namespace": "metallb-system"}, "spec": {"addresses": ["10.200.0.0/16"]}}
        await client.create(IP_ADDRESS_POOLS, pool)
        begun = time.monotonic()
        names = [f"many{number}" for number in range(SERVICES_AT_ONCE)]
        for first in range(0, SERVICES_AT_ONCE, _CONNECTIONS):
            await asyncio.gather(*(_create(client, name) for name in names[first : first + _CONNECTIONS]))
        created = time.monotonic() - begun
        await services.until(names)
        assigned = time.monotonic() - begun
        delays = []
        for number in range(MORE):
            name = f"more{number}"
            begun = time.monotonic()
            await _create(client, name)
            await services.until([name])
            delays.append(1000 * (time.monotonic() - begun))
    return [
        (f"{SERVICES_AT_ONCE} Services created", f"{created:.1f} s"),
        ("all of them have addresses, from the first creation", f"{assigned:.1f} s"),
        (
            f"one more, from its creation to the client's watch: median, longest of {MORE}",
            f"{statistics.median(delays):.0f} ms, {max(delays):.0f} ms",
        ),
    ]


async def _create(client: ApiClient, name: str) -> None:
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}], "selector": {"app": name}}
    await client.create(SERVICES, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})


class _Addresses:
    """The Services that have an address, by the client's watch."""

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._changed = asyncio.Event()

    def on_change(self, _old: Service | None, new: Service | None) -> None:
        if new is not None and new.status.load_balancer.ingress:
            self._names.add(new.metadata.name)
            self._changed.set()

    async def until(self, names: list[str]) -> None:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            while not self._names.issuperset(names):
                self._changed.clear()
                await self._changed.wait()


@contextlib.asynccontextmanager
async def _following(client: ApiClient) -> AsyncIterator[_Addresses]:
    informer, addresses = Informer(client, SERVICES), _Addresses()
    informer.on_change(addresses.on_change)
    watching = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced()
        yield addresses
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
