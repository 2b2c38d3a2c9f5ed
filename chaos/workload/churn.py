"""Services that come and go by the hundred, and pods behind them."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.objects.kinds import DEPLOYMENTS, SERVICES
from bridgehead.objects.meta import Object

from ..ledger import Ledger
from .servers import NAMESPACE, deployment, server_container
from .writers import Writer

DEPLOYMENT_NAMES = ("churn-a", "churn-b", "churn-c", "churn-d")
_PORT = 8090
_CREATE_AT_ONCE = 4


async def create_deployments(client: ApiClient, pods: int) -> None:
    for name in DEPLOYMENT_NAMES:
        spec = {"containers": [server_container(_PORT)]}
        await client.create(DEPLOYMENTS, deployment(name, pods // len(DEPLOYMENT_NAMES), spec))


async def churn_pods(client: ApiClient, rng: random.Random, pods: int, pause: float) -> None:
    """Scale the Deployments up and down, until cancelled."""
    most = max(1, pods // len(DEPLOYMENT_NAMES))
    while True:
        await asyncio.sleep(rng.uniform(0, 2 * pause))
        replicas = {"spec": {"replicas": rng.randrange(most // 2, most + 1)}}
        try:
            async with asyncio.timeout(15):
                await client.patch(DEPLOYMENTS, rng.choice(DEPLOYMENT_NAMES), NAMESPACE, replicas)
        except (ClientError, TimeoutError):
            continue


class ServiceChurn:
    """Keeps about `count` Services: creates, changes and deletes them."""

    def __init__(self, client: ApiClient, ledger: Ledger, rng: random.Random, count: int) -> None:
        self._rng, self._count, self._number = rng, count, 0
        self._writer = Writer(client, SERVICES, ledger, self._spec)
        self._alive: list[Object] = []

    async def fill(self) -> None:
        """Create all."""

        async def create() -> None:
            while self._number < self._count:
                await self._create()

        await asyncio.gather(*(create() for _ in range(_CREATE_AT_ONCE)))

    async def run(self, pause: float) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._rng.uniform(0, 2 * pause))
            chance = self._rng.random()
            if not self._alive or chance < 0.35 + 0.1 * (len(self._alive) < self._count):
                await self._create()
                continue
            service = self._alive.pop(self._rng.randrange(len(self._alive)))
            if chance < 0.65:
                changed = await self._writer.change(service)
                if changed is not None:
                    self._alive.append(changed)
            else:
                await self._writer.delete(service)

    async def _create(self) -> None:
        self._number += 1
        created = await self._writer.create(f"churn-{self._number}")
        if created is not None:
            self._alive.append(created)

    def _spec(self, name: str) -> dict[str, Any]:
        kind = "NodePort" if self._rng.random() < 0.25 else "ClusterIP"
        selector = {"app": self._rng.choice(DEPLOYMENT_NAMES)}
        return {"spec": {"type": kind, "selector": selector, "ports": [{"port": 80, "targetPort": _PORT}]}}
