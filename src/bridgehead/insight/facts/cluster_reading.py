"""Reads the objects of a cluster through its API, all kinds at once. A kind that cannot be read is unseen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, Forbidden, NotFound, Unauthorized, Unreachable
from bridgehead.insight.findings import Unseen, printable
from bridgehead.objects import progress
from bridgehead.objects.core import Service
from bridgehead.objects.kinds import (
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICE_CIDRS,
    SERVICES,
    Kind,
)
from bridgehead.objects.meta import Object, ObjectKey
from bridgehead.objects.progress import read_progress

from .cluster_state import OTHER_NAMESPACES, ClusterState, Json, by_key

T = TypeVar("T", bound=Object)
R = TypeVar("R")

SYSTEM = "kube-system"
SECONDS = 20.0  # for all requests together
_PAGE = 500  # objects of one answer, as kubectl has it

_WORKLOADS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
_POOLS = {
    "IPAddressPool": "/apis/metallb.io/v1beta1/ipaddresspools",
    "Eip": "/apis/network.kubesphere.io/v1alpha2/eips",
}


async def read_cluster(client: ApiClient, namespace: str = "", *, seconds: float = SECONDS) -> ClusterState:
    """Read the objects that Services need: of all namespaces or, faster, of `namespace` and kube-system.

    Raises Unreachable and Unauthorized: then nothing can be read. Everything else is unseen.
    """
    reading = _Reading(client, namespace)
    try:
        async with asyncio.timeout(seconds):
            found = await reading.read()
    except TimeoutError:
        raise Unreachable(f"the API server did not list the objects within {seconds:g} s") from None
    return ClusterState(now=time.time(), namespace=namespace, unseen=tuple(reading.unseen), **found)


class _Reading:
    def __init__(self, client: ApiClient, namespace: str) -> None:
        self._client = client
        # "" is all namespaces; kube-system has the DNS and the proxies.
        self._namespaces = sorted({namespace, SYSTEM}) if namespace else [""]
        self.unseen: list[Unseen] = []

    async def read(self) -> dict[str, Any]:
        reads: dict[str, Awaitable[Any]] = {
            "services": self._services(),
            "slices": self._typed(ENDPOINT_SLICES, self._namespaces, tuple),
            "endpoints": self._typed(ENDPOINTS, self._namespaces, by_key),
            "pods": self._typed(PODS, self._namespaces, by_key),
            "nodes": self._typed(NODES, [""], lambda nodes: {node.metadata.name: node for node in nodes}),
            "namespaces": self._typed(NAMESPACES, [""], lambda found: {each.metadata.name: each for each in found}),
            "events": self._typed(EVENTS, self._namespaces, tuple, field_selector="type=Warning"),
            "progress": self._typed(
                LEASES,
                [progress.NAMESPACE],
                lambda leases: {each.node: each for each in filter(None, map(read_progress, leases))},
                label_selector=progress.SELECTOR,
            ),
            "config_maps": self._typed(CONFIG_MAPS, [SYSTEM], by_key),
            "service_cidrs": self._typed(
                SERVICE_CIDRS, [""], lambda found: tuple(cidr for each in found for cidr in each.spec.cidrs)
            ),
            "network_policies": self._untyped(self._paths("networking.k8s.io/v1", "networkpolicies"), ""),
            "ingresses": self._untyped(self._paths("networking.k8s.io/v1", "ingresses"), ""),
            "ingress_classes": self._untyped({"": "/apis/networking.k8s.io/v1/ingressclasses"}, ""),
            "workloads": self._joined(
                # DaemonSets are few, and network plug-ins, which are DaemonSets, have namespaces of their own.
                self._untyped(
                    {"": f"/apis/apps/v1/{plural}"} if kind == "DaemonSet" else self._paths("apps/v1", plural), kind
                )
                for kind, plural in _WORKLOADS.items()
            ),
            "address_pools": self._joined(self._untyped({"": path}, kind) for kind, path in _POOLS.items()),
        }
        results = await asyncio.gather(*reads.values())
        return dict(zip(reads, results, strict=True))

    def _paths(self, group_version: str, plural: str) -> dict[str, str]:
        """Return the paths of a kind's lists by namespace."""
        return {
            name: f"/apis/{group_version}/{f'namespaces/{name}/' if name else ''}{plural}" for name in self._namespaces
        }

    async def _services(self) -> dict[ObjectKey, Service]:
        """Read the Services of all namespaces; without the right to do that, those of the namespaces of interest."""
        try:
            return by_key(await self._pages(SERVICES, "", {}))
        except Forbidden as error:
            if self._namespaces == [""]:
                self._see_not(SERVICES.plural, error)
                return {}
            self._see_not(f"{SERVICES.plural} of {OTHER_NAMESPACES}", error)
            return await self._typed(SERVICES, self._namespaces, by_key)
        except ClientError as error:
            self._see_not(SERVICES.plural, error)
            return {}

    async def _typed(
        self, kind: Kind[T], namespaces: Sequence[str], convert: Callable[[list[T]], R], **selectors: str
    ) -> R:
        objects: list[T] = []
        for namespace in namespaces:
            try:
                objects += await self._pages(kind, namespace, selectors)
            except ClientError as error:
                self._see_not(self._part(kind.plural, namespace) if len(namespaces) > 1 else kind.plural, error)
        return convert(objects)

    async def _pages(self, kind: Kind[T], namespace: str, selectors: Mapping[str, str]) -> list[T]:
        found: list[T] = []
        continue_ = ""
        while True:
            page = await self._client.list(kind, namespace, limit=_PAGE, continue_=continue_, **selectors)
            found += page.items
            continue_ = page.metadata.continue_
            if not continue_:
                return found

    async def _untyped(self, paths: Mapping[str, str], kind: str) -> tuple[Json, ...]:
        found: list[Json] = []
        for namespace, path in paths.items():
            try:
                items = (await self._client.request("GET", path)).get("items")
            except NotFound:
                continue  # an optional kind, which this cluster does not have
            except ClientError as error:
                self._see_not(self._part(path.rpartition("/")[2], namespace), error)
                continue
            found += [item for item in items if isinstance(item, dict)] if isinstance(items, list) else ()
        return tuple({"kind": kind, **item} if kind else item for item in found)

    async def _joined(self, reads: Any) -> tuple[Json, ...]:
        return tuple(item for found in await asyncio.gather(*reads) for item in found)

    def _part(self, plural: str, namespace: str) -> str:
        """Return the name of a part for `ClusterState.has_seen`: the system's part of a kind is one of its own."""
        return plural if namespace != SYSTEM or len(self._namespaces) == 1 else f"{plural} of {namespace}"

    def _see_not(self, plural: str, error: ClientError) -> None:
        if isinstance(error, Unreachable | Unauthorized):
            raise error
        unseen = Unseen(plural, printable(str(error)))
        if unseen not in self.unseen:
            self.unseen.append(unseen)
