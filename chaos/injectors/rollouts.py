"""A rolling update of a Service's pods, by kubectl."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from chaos.faults import Fault
from chaos.workload.servers import NAMESPACE, SERVER_PORTS

from .target import NotPossible, Target, World


@contextlib.asynccontextmanager
async def replace_pods(world: World, fault: Fault) -> AsyncIterator[Target]:
    service = sorted(SERVER_PORTS)[fault.pick % len(SERVER_PORTS)]
    target = Target("", service)
    rollout = ("-n", NAMESPACE, "rollout")
    result = await world.lab.try_kubectl(*rollout, "restart", f"deployment/{service}", "--request-timeout=20s")
    if result.code:
        raise NotPossible(result.stderr.strip())
    yield target
    await world.lab.try_kubectl(*rollout, "status", f"deployment/{service}", "--timeout=90s")
