"""A node's link to the others: cut, lossy, slow. Injected in the lab's namespace, out of reach of flushes.

nft drops what comes from the node and what goes to it, in a table of netdev of its own for each fault. A slow link is
the token bucket of tc-tbf(8), since kernels need not have netem: packets wait, and are dropped when too many do.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from chaos.faults import Fault
from chaos.lab import CommandFailed

from .target import Injector, NotPossible, Target, World, pick_node

_SLOW = ("tbf", "rate", "2mbit", "burst", "20kb", "latency", "500ms")


def drop(verdict: str) -> Injector:
    """`verdict` is the nft statement for each packet."""

    @contextlib.asynccontextmanager
    async def inject(world: World, fault: Fault) -> AsyncIterator[Target]:
        node = pick_node(fault)
        table = f"chaos-{round(fault.at * 1000)}"
        chains = "".join(
            f'chain {hook} {{ type filter hook {hook} device "{node}" priority 0; {verdict}; }}\n'
            for hook in ("ingress", "egress")
        )
        target = Target(node)
        await world.lab.inside("nft", "-f", "-", stdin=f"table netdev {table} {{\n{chains}}}\n")
        try:
            yield target
        finally:
            await world.lab.inside("nft", "delete", "table", "netdev", table)

    return inject


@contextlib.asynccontextmanager
async def slow_link(world: World, fault: Fault) -> AsyncIterator[Target]:
    node = pick_node(fault)
    target = Target(node)
    try:
        await world.lab.inside("tc", "qdisc", "add", "dev", node, "root", *_SLOW)
    except CommandFailed as error:
        raise NotPossible(str(error)) from error
    try:
        yield target
    finally:
        await world.lab.inside("tc", "qdisc", "del", "dev", node, "root")
