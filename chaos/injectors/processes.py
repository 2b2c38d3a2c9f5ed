"""Processes that are killed, or stopped and continued: the lab's parts, proxies, DNS servers, pods of Services."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from chaos.faults import Fault
from chaos.lab import NODES, CommandFailed, Lab, Process
from chaos.workload.servers import NAMESPACE, SERVER_PORTS

from .target import Injector, NotPossible, Target, World, pick_node

# Seconds after which a killed container runs again; then its pod is replaced.
_RESTART = 3.0

# Finds the process that a fault is about.
Find = Callable[[Lab, Fault], Awaitable[tuple[int, Target]]]


def kill(find: Find) -> Injector:
    @contextlib.asynccontextmanager
    async def inject(world: World, fault: Fault) -> AsyncIterator[Target]:
        pid, target = await find(world.lab, fault)
        await _signal(world.lab, "KILL", pid)
        yield target

    return inject


def stop(find: Find) -> Injector:
    @contextlib.asynccontextmanager
    async def inject(world: World, fault: Fault) -> AsyncIterator[Target]:
        pid, target = await find(world.lab, fault)
        await _signal(world.lab, "STOP", pid)
        try:
            yield target
        finally:
            with contextlib.suppress(NotPossible):  # killed meanwhile, by another fault
                await _signal(world.lab, "CONT", pid)

    return inject


@contextlib.asynccontextmanager
async def kill_backend(world: World, fault: Fault) -> AsyncIterator[Target]:
    """Kill the server in a pod of a Service, and replace the pod: one that is killed often is restarted ever later."""
    service = sorted(SERVER_PORTS)[fault.pick % len(SERVER_PORTS)]
    argument = f"--http-port={SERVER_PORTS[service]}"
    processes = await world.lab.processes()
    found = [process for process in processes if argument in process.argv.split()]
    if not found:
        raise NotPossible(f"no pod of {service} runs")
    victim = found[fault.pick // len(SERVER_PORTS) % len(found)]
    pod = (await world.lab.inside("nsenter", "-t", str(victim.pid), "-u", "hostname")).strip()
    target = Target(node_of(world.lab, victim, processes), service)
    await _signal(world.lab, "KILL", victim.pid)
    yield target
    await asyncio.sleep(_RESTART)
    await world.lab.try_kubectl("-n", NAMESPACE, "delete", "pod", pod, "--timeout=60s")


def part(name: str) -> Find:
    """A part of the lab that there is once."""

    async def find(lab: Lab, fault: Fault) -> tuple[int, Target]:
        return _part_pid(lab, name), Target()

    return find


def part_of_node(name: str) -> Find:
    async def find(lab: Lab, fault: Fault) -> tuple[int, Target]:
        node = pick_node(fault)
        return _part_pid(lab, f"{name}-{node}"), Target(node)

    return find


async def find_proxy(lab: Lab, fault: Fault) -> tuple[int, Target]:
    """A proxy in a pod of a node: as a rule there is one."""
    node = pick_node(fault)
    processes = await lab.processes()
    found = [process.pid for process in find_proxies(processes) if node_of(lab, process, processes) == node]
    if not found:
        raise NotPossible(f"no proxy runs on {node}")
    return found[0], Target(node)


def find_proxies(processes: Sequence[Process]) -> list[Process]:
    return [process for process in processes if process.argv.startswith("bridgehead proxy")]


async def find_dns(lab: Lab, fault: Fault) -> tuple[int, Target]:
    processes = await lab.processes()
    found = find_dns_servers(processes)
    if not found:
        raise NotPossible("no DNS server runs")
    victim = found[fault.pick % len(found)]
    return victim.pid, Target(node_of(lab, victim, processes))


def find_dns_servers(processes: Sequence[Process]) -> list[Process]:
    return [process for process in processes if process.argv.startswith("bridgehead dns")]


def node_of(lab: Lab, process: Process, processes: Sequence[Process]) -> str:
    """The node whose runtime is an ancestor of the process; "" when that has ended."""
    parents = {other.pid: other.parent for other in processes}
    runtimes = {lab.part_pid(f"runtime-{node}"): node for node in NODES}
    pid = process.pid
    while pid in parents and pid not in runtimes:
        pid = parents[pid]
    return runtimes.get(pid, "")


def _part_pid(lab: Lab, name: str) -> int:
    pid = lab.part_pid(name)
    if not pid:
        raise NotPossible(f"{name} does not run")
    return pid


async def _signal(lab: Lab, name: str, pid: int) -> None:
    try:
        await lab.inside("kill", f"-{name}", str(pid))
    except CommandFailed as error:
        raise NotPossible(f"process {pid}: {error}") from error
