"""One run: a lab, its users, the faults of a seed, and what was seen of it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .allocations import Allocations
from .faults import Fault, FaultKind, Occurrence
from .injectors import INJECTORS, NotPossible, World
from .lab import CommandFailed, Lab
from .ledger import Ledger
from .observations import wait_converged, watch_allocations
from .report import Observed
from .schedule import plan_faults
from .workload.churn import ServiceChurn, churn_pods, create_deployments
from .workload.clients import Clients
from .workload.servers import create_servers
from .workload.writers import read_written, write_config_maps

_DISK_MEBIBYTES = 512
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
    keep: bool = False


@dataclass
class _Injected:
    """What became of the faults."""

    occurrences: list[Occurrence] = field(default_factory=list)
    impossible: list[tuple[FaultKind, str]] = field(default_factory=list)


async def run_mode(options: Options, mode: str, report: Report) -> Observed:
    """Run the faults against a new lab in this mode of the proxy."""
    with _place() as (place, disk):
        lab = Lab(f"chaos-{os.getpid()}", place / "lab")
        report(f"{mode}: starting a lab in {lab.state_dir}")
        try:
            await lab.command("up", "--detach", "--ephemeral")
            await _configure(lab, mode)
            return await _run_in(World(lab, mode, disk), options, report)
        finally:
            if not options.keep:
                with contextlib.suppress(CommandFailed):  # it never started, or has ended: what failed is told already
                    await lab.command("down")


async def _run_in(world: World, options: Options, report: Report) -> Observed:
    lab, rng = world.lab, random.Random(options.seed)
    faults = plan_faults(options.seed, options.faults, options.seconds, options.kinds)
    ledger, allocations, injected = Ledger(), Allocations(), _Injected()
    clients = Clients(lab, await create_servers(lab), options.pause)
    async with lab.client() as client:
        churn = ServiceChurn(client, ledger, random.Random(rng.random()), options.services)
        await create_deployments(client, options.pods)
        await churn.fill()
        await clients.start()
        workers = [
            churn.run(pause=20 / max(1, options.services)),
            churn_pods(client, random.Random(rng.random()), options.pods, pause=2),
            watch_allocations(client, allocations),
            *(write_config_maps(client, ledger, random.Random(rng.random()), n, 0.3) for n in range(_WRITERS)),
        ]
        report(f"{world.mode}: {len(faults)} faults within {options.seconds:.0f} s")
        begun = time.monotonic()
        async with _working(workers):
            await _inject_all(world, faults, injected, report)
        ended = time.monotonic()
        report(f"{world.mode}: no more faults; waiting for everything to converge")
        converged_after, wrong = await wait_converged(lab, client, world.mode, ended, _CONVERGENCE_BOUND)
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
        converged_after=converged_after,
        not_converged=[*wrong, *unread],
    )


async def _inject_all(world: World, faults: list[Fault], injected: _Injected, report: Report) -> None:
    """Every fault at its time, beside those that still last; returns when the last is gone."""
    begun = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for fault in faults:
            await asyncio.sleep(max(0.0, begun + fault.at - time.monotonic()))
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
    """They work inside the block. One that fails ends it."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(worker) for worker in workers]
        yield
        for task in running:
            task.cancel()


async def _configure(lab: Lab, mode: str) -> None:
    """Switch the proxies as a user does: edit the ConfigMap, restart the DaemonSet, wait."""
    proxy = ("-n", "kube-system")
    config = json.loads(await lab.kubectl(*proxy, "get", "configmap", "kube-proxy", "-o", "json"))
    text = config["data"]["config.conf"]
    config["data"]["config.conf"] = re.sub(r"(?m)^mode: .*$", f"mode: {mode}", text)
    if config["data"]["config.conf"] == text:
        return
    await lab.kubectl("replace", "-f", "-", stdin=json.dumps(config))
    await lab.kubectl(*proxy, "rollout", "restart", "daemonset/kube-proxy")
    await lab.kubectl(*proxy, "rollout", "status", "daemonset/kube-proxy", "--timeout=120s")


@contextlib.contextmanager
def _place() -> Iterator[tuple[Path, Path | None]]:
    """A directory for the lab's state; the second is its file system, None for those who may not mount one."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        place = Path(directory)
        if os.getuid() != 0:
            yield place, None
            return
        mount = ("mount", "-t", "tmpfs", "-o", f"size={_DISK_MEBIBYTES}m,mode=700", "chaos", directory)
        subprocess.run(mount, check=True)
        try:
            yield place, place
        finally:
            subprocess.run(("umount", "--lazy", directory), check=True)
