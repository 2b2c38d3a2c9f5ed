"""Services that come and go by the hundred, and pods behind them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Collection, Mapping
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.objects.kinds import DEPLOYMENTS, SERVICES
from bridgehead.objects.meta import Object
from chaos.ledger import Ledger

from .servers import NAMESPACE, deployment, server_container
from .writers import Writer

_PODS_OF_A_DEPLOYMENT = 5
_SCALED_EVERY = 20.0  # seconds; each Deployment, on average
_PORT = 8090
_CREATE_AT_ONCE = 4


def plan_deployments(pods: int) -> dict[str, int]:
    """Return the maximum number of pods of each Deployment, by its name: many small Deployments, as clusters have."""
    count = max(1, pods // _PODS_OF_A_DEPLOYMENT)
    return {f"backend-{number}": pods // count + (number < pods % count) for number in range(count)}


async def create_deployments(client: ApiClient, deployments: Mapping[str, int]) -> None:
    for name, pods in deployments.items():
        await client.create(DEPLOYMENTS, deployment(name, pods, {"containers": [server_container(_PORT)]}))


async def churn_pods(client: ApiClient, rng: random.Random, deployments: Mapping[str, int]) -> None:
    """Scale the Deployments down to half of their pods, and up again, until cancelled."""
    names = list(deployments)
    while True:
        await asyncio.sleep(rng.uniform(0, 2 * _SCALED_EVERY / len(names)))
        name = rng.choice(names)
        most = deployments[name]
        replicas = {"spec": {"replicas": rng.randint((most + 1) // 2, most)}}
        try:
            async with asyncio.timeout(15):
                await client.patch(DEPLOYMENTS, name, NAMESPACE, replicas)
        except (ClientError, TimeoutError):
            continue


class ServiceChurn:
    """Keeps about `count` Services, each of one of the Deployments: creates, changes and deletes them."""

    def __init__(
        self, client: ApiClient, ledger: Ledger, rng: random.Random, count: int, deployments: Collection[str]
    ) -> None:
        self._rng, self._count, self._number = rng, count, 0
        self._deployments = list(deployments)
        self._writer = Writer(client, SERVICES, ledger, self._spec)
        self._alive: list[Object] = []

    async def fill(self) -> None:
        """Create or delete Services until there are `count`."""
        lacking = iter(range(self._count - len(self._alive)))

        async def create() -> None:
            for _ in lacking:
                await self._create()

        await asyncio.gather(*(create() for _ in range(_CREATE_AT_ONCE)))
        for service in self._alive[self._count :]:
            await self._writer.delete(service)
        del self._alive[self._count :]

    async def run(self) -> None:
        """Change each Service about once a minute, until cancelled."""
        pause = 60 / max(1, self._count)
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
        selector = {"app": self._rng.choice(self._deployments)}
        return {"spec": {"type": kind, "selector": selector, "ports": [{"port": 80, "targetPort": _PORT}]}}
