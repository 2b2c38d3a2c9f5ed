"""Looks at a lab from outside: lists of the API while it runs, and everything at the end until it has converged."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError
from bridgehead.objects.core import Service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES

from .allocations import Allocations
from .convergence import Cluster, Convergence, find_in_back_off, find_unsettled, find_wrong_rules
from .lab import NODES as NODE_NAMES
from .lab import CommandFailed, Lab
from .workload.clients import sweep
from .workload.servers import CLUSTER_DNS, NAMESPACE

_LOOK_EVERY = 5.0
_ASK_AGAIN = 0.5
_BACK_OFF_BOUND = 300.0  # the longest back-off of Kubernetes


async def watch_allocations(client: ApiClient, allocations: Allocations) -> None:
    """Watch allocations until cancelled."""
    while True:
        await asyncio.sleep(_LOOK_EVERY)
        try:
            async with asyncio.timeout(_LOOK_EVERY * 2):
                allocations.observe_services((await client.list(SERVICES)).items)
                allocations.observe_pods((await client.list(PODS)).items)
        except (ClientError, TimeoutError):
            continue


async def read_cluster(client: ApiClient) -> Cluster:
    return Cluster(
        (await client.list(NODES)).items,
        (await client.list(PODS)).items,
        (await client.list(SERVICES)).items,
        (await client.list(ENDPOINT_SLICES)).items,
    )


async def wait_converged(
    lab: Lab, client: ApiClient, mode: str, since: float, bound: float, report: Callable[[str], None]
) -> Convergence:
    """Look at the lab until it has converged, for `bound` seconds from `since` at most.

    The lists of the API and the rules are looked at until nothing is wrong with them; then every Service is used from
    every node, and every name is asked for. Pods in back-off may be ready `_BACK_OFF_BOUND` later. `report` gets a line
    for each look at which something is wrong.
    """
    converged = Convergence(None)
    while True:
        wrong: list[str] = []
        try:
            async with asyncio.timeout(bound):
                cluster = await read_cluster(client)
                # Rulesets of thousands of rules take seconds to list, longer while they change: they come second.
                wrong = list(find_unsettled(cluster)) or await _find_wrong_rules(lab, cluster, mode)
                reached = time.monotonic() - since
                wrong = wrong or await _use_everything(lab, cluster)
                if not wrong:
                    converged = converged if converged.after is not None else replace(converged, after=reached)
                    wrong = list(find_in_back_off(cluster))
                if not wrong:
                    return converged
        except (ClientError, TimeoutError, CommandFailed) as error:
            wrong = [f"cannot look: {type(error).__name__} {error}"]
        seconds = time.monotonic() - since
        report(f"{seconds:6.1f} s  {len(wrong)} not yet as they should be: {wrong[0]}")
        if converged.after is None:
            converged = replace(converged, last=wrong[0])
        if seconds > (bound if converged.after is None else bound + _BACK_OFF_BOUND):
            return replace(converged, wrong=wrong)
        await asyncio.sleep(_ASK_AGAIN)


async def _find_wrong_rules(lab: Lab, cluster: Cluster, mode: str) -> list[str]:
    texts = await asyncio.gather(*(lab.inside("nft", "list", "ruleset", node=node) for node in NODE_NAMES))
    return list(find_wrong_rules(cluster, dict(zip(NODE_NAMES, texts, strict=True)), mode))


async def _use_everything(lab: Lab, cluster: Cluster) -> list[str]:
    found = await asyncio.gather(*(sweep(lab, node, _targets(cluster, node)) for node in NODE_NAMES))
    return [line for lines in found for line in lines]


def _targets(cluster: Cluster, node: str) -> list[dict[str, Any]]:
    services = [service for service in cluster.services if service.metadata.namespace == NAMESPACE]
    own: Sequence[Service] = services[NODE_NAMES.index(node) :: len(NODE_NAMES)]
    names = [
        {
            "kind": "dns",
            "address": CLUSTER_DNS,
            "name": f"{service.metadata.name}.{NAMESPACE}.svc.cluster.local",
            "expected": service.spec.cluster_ip,
        }
        for service in own
    ]
    unknown = {**names[0], "name": f"nobody.{NAMESPACE}.svc.cluster.local", "expected": ""}
    ready = {
        slice_.service_name
        for slice_ in cluster.slices
        if slice_.metadata.namespace == NAMESPACE and any(endpoint.conditions.is_ready for endpoint in slice_.endpoints)
    }
    connections = [
        {
            "kind": "cluster-ip",
            "address": service.spec.cluster_ip,
            "port": service.spec.ports[0].port,
            "service": service.spec.selector["app"] if service.metadata.name in ready else "",
        }
        for service in services
    ]
    return [*names, unknown, *connections]
