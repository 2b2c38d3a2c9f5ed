"""A node's rules: flushed as an administrator does by mistake, or written by a second proxy at the same time."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

from chaos.faults import Fault

from .target import NotPossible, Target, World, pick_node

_FLUSH_NFT = "nft flush ruleset"
_FLUSH_IPTABLES = "iptables -F; iptables -t nat -F; ip6tables -F; ip6tables -t nat -F"
_SYSTEM = ("-n", "kube-system")
_SOON = "--request-timeout=70s"
_AGAIN = 1.0
_TRIES = 60


@contextlib.asynccontextmanager
async def flush_rules(world: World, fault: Fault) -> AsyncIterator[Target]:
    node = pick_node(fault)
    target = Target(node)
    by_iptables = world.mode == "iptables" and fault.pick // 3 % 2
    await world.lab.inside("sh", "-c", _FLUSH_IPTABLES if by_iptables else _FLUSH_NFT, node=node)
    yield target


@contextlib.asynccontextmanager
async def second_proxy(world: World, fault: Fault) -> AsyncIterator[Target]:
    """A pod like that of the DaemonSet on a node, beside it, without probes: the node's ports for them are taken."""
    node, name = pick_node(fault), f"second-proxy-{round(fault.at * 1000)}"
    found = await world.lab.try_kubectl(*_SYSTEM, "get", "daemonset", "kube-proxy", "-o", "json", _SOON)
    if found.code:
        raise NotPossible(found.stderr.strip())
    spec = json.loads(found.stdout)["spec"]["template"]["spec"] | {"nodeName": node}
    for container in spec["containers"]:
        container.pop("startupProbe", None)
        container.pop("livenessProbe", None)
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    target = Target(node)
    try:
        created = await world.lab.try_kubectl(*_SYSTEM, "create", "-f", "-", _SOON, stdin=json.dumps(pod))
        if created.code:
            raise NotPossible(created.stderr.strip())
        yield target
    finally:
        await _delete(world, name)


async def _delete(world: World, pod: str) -> None:
    """Delete the pod; retry while other faults keep the API server away."""
    for _ in range(_TRIES):
        result = await world.lab.try_kubectl(
            *_SYSTEM, "delete", "pod", pod, "--ignore-not-found", "--timeout=60s", _SOON
        )
        if not result.code:
            return
        await asyncio.sleep(_AGAIN)
