"""The faults: one after the other, each injected and repaired while the clients go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from .processes import Cluster
from .recordings import Injected

# Time between the end of a process and its new start.
_DOWN_SECONDS = 3.0

Report = Callable[[str], None]


class FaultKind(StrEnum):
    KILL_SERVER = "server killed"
    KILL_LEADER = "etcd's leader killed"
    CUT_FOLLOWER = "follower cut off"
    CUT_LEADER = "leader cut off"


def full_plan(servers: int) -> Faults:
    """Return the faults of a whole run: one server after the other, then etcd's members."""
    members = (FaultKind.KILL_LEADER, FaultKind.CUT_FOLLOWER, FaultKind.CUT_LEADER)
    return Faults((*(FaultKind.KILL_SERVER,) * servers, *members))


@dataclass(frozen=True)
class Faults:
    """The faults in their order.

    `cut_seconds`: for how long a member is cut off. `pause_seconds`: time between two faults, in which clients recover.
    """

    kinds: Sequence[FaultKind]
    cut_seconds: float = 30.0
    pause_seconds: float = 4.0


async def inject_all(cluster: Cluster, faults: Faults, report: Report) -> list[Injected]:
    """Inject the faults, one after the other."""
    injected = []
    for number, kind in enumerate(faults.kinds):
        await asyncio.sleep(faults.pause_seconds)
        start = time.monotonic()
        report(kind)
        await _inject(cluster, kind, number % len(cluster.servers), faults.cut_seconds)
        injected.append(Injected(kind, start, time.monotonic()))
    await asyncio.sleep(faults.pause_seconds)
    return injected


async def _inject(cluster: Cluster, kind: FaultKind, server: int, cut_seconds: float) -> None:
    """Inject one fault; return when all processes are there again."""
    match kind:
        case FaultKind.KILL_SERVER:
            await cluster.kill_server(server)
            await asyncio.sleep(_DOWN_SECONDS)
            await cluster.start_server(server)
        case FaultKind.KILL_LEADER:
            leader = await cluster.leader()
            await asyncio.to_thread(leader.kill)
            await asyncio.sleep(_DOWN_SECONDS)
            await cluster.restart_member(leader)
        case FaultKind.CUT_FOLLOWER | FaultKind.CUT_LEADER:
            member = await (cluster.leader() if kind is FaultKind.CUT_LEADER else cluster.follower())
            await cluster.cut_off(member)
            await asyncio.sleep(cut_seconds)
            await cluster.reconnect(member)
