"""A run: a lab, its users, the faults of a seed, and the observations."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from .allocations import Allocations
from .faults import Fault, FaultKind, Occurrence
from .injectors import INJECTORS, NotPossible, World
from .lab import CommandFailed
from .ledger import Ledger
from .observations import wait_converged, watch_allocations
from .report import Observed
from .running import running_lab
from .schedule import plan_faults
from .workload.churn import ServiceChurn, churn_pods, create_deployments, plan_deployments
from .workload.clients import Clients
from .workload.servers import create_servers
from .workload.writers import read_written, write_config_maps

_WRITERS = 4
_CONVERGENCE_BOUND = 120.0

Report = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """`services` and `pods` are how many come and go, `pause` the seconds between two connections of a client."""

    seed: int
    faults: int
    seconds: float
    kinds: frozenset[FaultKind] = frozenset(FaultKind)
    services: int = 500
    pods: int = 200
    pause: float = 0.5


@dataclass
class _Injected:
    """Results of the faults."""

    occurrences: list[Occurrence] = field(default_factory=list)
    impossible: list[tuple[FaultKind, str]] = field(default_factory=list)


async def run_mode(options: Options, mode: str, stopping: asyncio.Event, report: Report) -> Observed:
    """Run the faults against a new lab in this mode of the proxy. `stopping` ends them early."""
    report(f"{mode}: starting a lab")
    async with running_lab(mode) as (lab, disk):
        return await _run_in(World(lab, mode, disk), options, stopping, report)


async def _run_in(world: World, options: Options, stopping: asyncio.Event, report: Report) -> Observed:
    lab, rng = world.lab, random.Random(options.seed)
    faults = plan_faults(options.seed, options.faults, options.seconds, options.kinds)
    ledger, allocations, injected = Ledger(), Allocations(), _Injected()
    clients = Clients(lab, await create_servers(lab), options.pause)
    async with lab.client() as client:
        deployments = plan_deployments(options.pods)
        churn = ServiceChurn(client, ledger, random.Random(rng.random()), options.services, deployments)
        await create_deployments(client, deployments)
        await churn.fill()
        await clients.start()
        workers = [
            churn.run(),
            churn_pods(client, random.Random(rng.random()), deployments),
            watch_allocations(client, allocations),
            *(write_config_maps(client, ledger, random.Random(rng.random()), n, 0.3) for n in range(_WRITERS)),
        ]
        report(f"{world.mode}: {len(faults)} faults within {options.seconds:.0f} s")
        begun = time.monotonic()
        async with _working(workers):
            await _inject_all(world, faults, injected, stopping, report)
        ended = time.monotonic()
        report(f"{world.mode}: no more faults; waiting for everything to converge")
        convergence = await wait_converged(lab, client, world.mode, ended, _CONVERGENCE_BOUND, report)
        made, failed, unread = await clients.stop()
        lost = ledger.find_lost(await read_written(client))
    return Observed(
        mode=world.mode,
        begun=begun,
        used=clients.uses(),
        seconds=ended - begun,
        occurrences=injected.occurrences,
        impossible=injected.impossible,
        made=made,
        failed=failed,
        acknowledged=ledger.acknowledged,
        lost=lost,
        given_twice=sorted(allocations.given_twice | allocations.changed),
        convergence=convergence,
        unread=unread,
    )


async def _inject_all(
    world: World, faults: list[Fault], injected: _Injected, stopping: asyncio.Event, report: Report
) -> None:
    """Every fault at its time, beside those that still last, until `stopping`; returns when the last is gone."""
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for fault in faults:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, begun + fault.at - time.monotonic())):
                    await stopping.wait()
                    report("stopping: no more faults")
                    return
            tasks.create_task(_inject(world, fault, injected, report))


async def _inject(world: World, fault: Fault, injected: _Injected, report: Report) -> None:
    try:
        async with INJECTORS[fault.kind](world, fault) as target:
            report(f"{fault.at:6.1f} s  {fault.kind} {target.node} {target.service} {fault.seconds:.1f} s")
            await asyncio.sleep(fault.seconds)
    except (NotPossible, CommandFailed) as error:
        report(f"{fault.at:6.1f} s  {fault.kind}: {error}")
        injected.impossible.append((fault.kind, str(error)))
    else:
        injected.occurrences.append(Occurrence(fault.kind, target.since, time.monotonic(), target.node, target.service))


@contextlib.asynccontextmanager
async def _working(workers: list[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Run tasks while the block runs. A task that fails ends the block."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(worker) for worker in workers]
        yield
        for task in running:
            task.cancel()
