"""A node's rules: flushed as an administrator does by mistake, or written by a second proxy at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
from collections.abc import AsyncIterator

from ..faults import Fault
from ..lab import BRIDGEHEAD
from .target import NotPossible, Target, World, pick_node

_FLUSH_NFT = "nft flush ruleset"
_FLUSH_IPTABLES = "iptables -F; iptables -t nat -F; ip6tables -F; ip6tables -t nat -F"
_PODS = "10.244.0.0/16,fd00:10:244::/56"
_SERVICES = "10.96.0.0/12,fd00:10:96::/112"
_START = 2.0


@contextlib.asynccontextmanager
async def flush_rules(world: World, fault: Fault) -> AsyncIterator[Target]:
    node = pick_node(fault)
    target = Target(node)
    by_iptables = world.mode == "iptables" and fault.pick // 3 % 2
    await world.lab.inside("sh", "-c", _FLUSH_IPTABLES if by_iptables else _FLUSH_NFT, node=node)
    yield target


@contextlib.asynccontextmanager
async def second_proxy(world: World, fault: Fault) -> AsyncIterator[Target]:
    """One that is configured like the node's own."""
    node = pick_node(fault)
    options = (
        f"--node-name={node}",
        f"--proxy-mode={world.mode}",
        f"--cluster-cidr={_PODS}",
        f"--service-cidr={_SERVICES}",
    )
    target = Target(node)
    command = 'exec "$0" proxy --kubeconfig="$KUBECONFIG" "$@"'
    process = await asyncio.create_subprocess_exec(
        *world.lab.argv_inside("sh", "-c", command, str(BRIDGEHEAD), *options, node=node),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with contextlib.suppress(TimeoutError):
            code = await asyncio.wait_for(process.wait(), _START)
            raise NotPossible(f"the second proxy ended with exit code {code}")
        yield target
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
