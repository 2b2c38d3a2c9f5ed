"""Waits of tests for Services: until a Service has ready endpoints, and every node's kernel has them."""

from __future__ import annotations

import asyncio
from typing import Final

from bridgehead.client import ApiClient
from bridgehead.insight import waiting
from bridgehead.insight.programmed import count_ready, why_not_proxied
from bridgehead.insight.waiting import NotProgrammed
from bridgehead.objects import progress
from bridgehead.objects.endpoint_slices import service_selector
from bridgehead.objects.kinds import ENDPOINT_SLICES, LEASES, SERVICES
from bridgehead.objects.meta import ObjectKey

_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.25
_LEAST_SECONDS: Final = 1.0  # for the second half of the wait


async def wait_programmed(client: ApiClient, key: ObjectKey, ready: int, seconds: float) -> str:
    """Wait until a Service has `ready` endpoints and is programmed on every node; return a line about it.

    In a cluster without proxies of Bridgehead, which publish what they have programmed, only the endpoints are waited
    for. Raises `NotProgrammed`, ClientError.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    service = await client.get(SERVICES, key.name, key.namespace)
    pause = _FIRST_PAUSE
    while True:
        slices = await client.list(ENDPOINT_SLICES, key.namespace, service_selector(key.name))
        found = count_ready(slices.items)
        if found >= ready or service.spec.type == "ExternalName":
            break
        if loop.time() > deadline:
            raise NotProgrammed(f"service/{key.name} has {found} ready endpoints after {seconds:g} s, not {ready}")
        await asyncio.sleep(pause)
        pause = min(1.5 * pause, _LONGEST_PAUSE)
    if why_not_proxied(service) or (await client.list(LEASES, progress.NAMESPACE, progress.SELECTOR)).items:
        rest = max(_LEAST_SECONDS, deadline - loop.time())
        return await waiting.wait_programmed(client, key, rest, lambda _missing: None)
    return f"service/{key.name} has {found} ready endpoints; the cluster's proxies publish nothing about their rules"
