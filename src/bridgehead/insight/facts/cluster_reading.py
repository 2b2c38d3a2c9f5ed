"""Reads the objects of a cluster through its API, all kinds at once. A kind that cannot be read is unseen."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from bridgehead.client import ApiClient
from bridgehead.client.errors import (
    ApiError,
    BadAnswer,
    ClientError,
    Forbidden,
    NotFound,
    Unauthorized,
    Unreachable,
)
from bridgehead.insight.findings import Unseen, printable
from bridgehead.objects import progress
from bridgehead.objects.core import Endpoints, Pod, Service
from bridgehead.objects.endpoint_slices import SERVICE_NAME_LABEL, EndpointSlice
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

from . import old_slices
from .cluster_state import OTHER_NAMESPACES, ClusterState, Json, by_key
from .served_groups import is_served
from .system_object_names import SYSTEM

T = TypeVar("T", bound=Object)
R = TypeVar("R")

SECONDS = 20.0  # for all requests together
_KIND_SECONDS = 10.0  # for one request of one kind, so that one that hangs leaves the others
_PAGE = 500  # objects of one answer, as kubectl has it
_MOST_NAMED = 5  # Services whose objects are read alone

_WORKLOADS = {"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"}
_POOLS = {
    "IPAddressPool": "/apis/metallb.io/v1beta1/ipaddresspools",
    "Eip": "/apis/network.kubesphere.io/v1alpha2/eips",
}


async def read_cluster(
    client: ApiClient, namespace: str = "", services: Collection[str] = (), *, seconds: float = SECONDS
) -> ClusterState:
    """Read the objects that Services need: of all namespaces or, faster, of `namespace` and kube-system.

    With the names of `services`, EndpointSlices and Endpoints of `namespace` are only theirs. If it has many pods, only
    some of them are read beside those that the Services select; the others are unseen.
    Raises Unreachable and Unauthorized: then nothing can be read. Everything else is unseen, also a kind for which no
    answer comes.
    """
    reading = _Reading(client, namespace, services if len(services) <= _MOST_NAMED else (), seconds)
    found = await reading.read()
    return ClusterState(
        now=time.time(), namespace=namespace, names=reading.names, unseen=tuple(reading.unseen), **found
    )


class _Reading:
    def __init__(self, client: ApiClient, namespace: str, names: Collection[str], seconds: float) -> None:
        self._client = client
        self.names = frozenset(names)
        self._end = asyncio.get_running_loop().time() + seconds
        self._kind_seconds = min(_KIND_SECONDS, seconds)
        self._has_answer = False
        self._failure: Unreachable | None = None
        # "" is all namespaces; kube-system has the DNS and the proxies.
        self._namespaces = sorted({namespace, SYSTEM}) if namespace else [""]
        self.unseen: list[Unseen] = []

    async def read(self) -> dict[str, Any]:
        services = asyncio.ensure_future(self._services())
        reads: dict[str, Awaitable[Any]] = {
            "services": services,
            "slices": self._slices(),
            "endpoints": self._endpoints(),
            "pods": self._pods(services),
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
            "service_cidrs": self._service_cidrs(),
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
        if self._failure is not None and not self._has_answer:
            raise self._failure
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

    async def _slices(self) -> tuple[EndpointSlice, ...]:
        """Read the EndpointSlices; of a cluster before Kubernetes 1.21 those of v1beta1."""
        found: list[EndpointSlice] = []
        for namespace in self._namespaces:
            part = self._part(ENDPOINT_SLICES.plural, namespace)
            selectors = {}
            if self.names and namespace != SYSTEM:
                selectors["label_selector"] = f"{SERVICE_NAME_LABEL} in ({','.join(sorted(self.names))})"
            try:
                found += await self._pages(ENDPOINT_SLICES, namespace, selectors)
            except NotFound as error:
                old = await self._untyped({namespace: old_slices.path(namespace)}, "", missing=(part, error))
                found += filter(None, map(old_slices.convert, old))
            except ClientError as error:
                self._see_not(part, error)
        return tuple(found)

    async def _endpoints(self) -> dict[ObjectKey, Endpoints]:
        if not self.names:
            return await self._typed(ENDPOINTS, self._namespaces, by_key)
        names = [name for name in self._namespaces if name != SYSTEM]
        found = await asyncio.gather(
            self._typed(ENDPOINTS, [SYSTEM], by_key, part=self._part(ENDPOINTS.plural, SYSTEM)),
            *(
                self._typed(ENDPOINTS, [namespace], by_key, field_selector=f"metadata.name={name}")
                for namespace in names
                for name in sorted(self.names)
            ),
        )
        return {key: endpoints for each in found for key, endpoints in each.items()}

    async def _pods(self, services: Awaitable[Mapping[ObjectKey, Service]]) -> dict[ObjectKey, Pod]:
        """Read the pods; with names of Services, those of a large namespace only in part."""
        if not self.names:
            return await self._typed(PODS, self._namespaces, by_key)
        found: dict[ObjectKey, Pod] = {}
        for namespace in self._namespaces:
            part = self._part(PODS.plural, namespace)
            if namespace == SYSTEM:
                found |= await self._typed(PODS, [namespace], by_key, part=part)
                continue
            try:
                first = await self._answer(self._client.list(PODS, namespace, limit=_PAGE))
                found |= by_key(first.items)
                if first.metadata.continue_:
                    found |= await self._selected_pods(namespace, await services)
                    self.unseen.append(
                        Unseen(
                            f"the other pods of {namespace}", f"it has more than {_PAGE}; without a name, all are read"
                        )
                    )
            except ClientError as error:
                self._see_not(part, error)
        return found

    async def _selected_pods(self, namespace: str, services: Mapping[ObjectKey, Service]) -> dict[ObjectKey, Pod]:
        wanted = [services.get(ObjectKey(namespace, name)) for name in sorted(self.names)]
        selectors = {
            ",".join(f"{key}={value}" for key, value in each.spec.selector.items())
            for each in wanted
            if each is not None and each.spec.selector
        }
        pages = [self._pages(PODS, namespace, {"label_selector": text}) for text in sorted(selectors)]
        return {key: pod for page in await asyncio.gather(*pages) for key, pod in by_key(page).items()}

    async def _service_cidrs(self) -> tuple[str, ...]:
        """Read the ranges of cluster IPs; () in a cluster before Kubernetes 1.33, which need not have the kind."""
        try:
            found = await self._pages(SERVICE_CIDRS, "", {})
        except NotFound:
            return ()
        except ClientError as error:
            self._see_not(SERVICE_CIDRS.plural, error)
            return ()
        return tuple(cidr for each in found for cidr in each.spec.cidrs)

    async def _typed(
        self,
        kind: Kind[T],
        namespaces: Sequence[str],
        convert: Callable[[list[T]], R],
        part: str = "",
        **selectors: str,
    ) -> R:
        """Read the objects of a kind. `part`: its name when it is unseen; "": that of the kind."""
        objects: list[T] = []
        for namespace in namespaces:
            try:
                objects += await self._pages(kind, namespace, selectors)
            except ClientError as error:
                name = self._part(kind.plural, namespace) if len(namespaces) > 1 else kind.plural
                self._see_not(part or name, error)
        return convert(objects)

    async def _pages(self, kind: Kind[T], namespace: str, selectors: Mapping[str, str]) -> list[T]:
        found: list[T] = []
        continue_ = ""
        while True:
            page = await self._answer(self._client.list(kind, namespace, limit=_PAGE, continue_=continue_, **selectors))
            found += page.items
            continue_ = page.metadata.continue_
            if not continue_:
                return found

    async def _untyped(
        self, paths: Mapping[str, str], kind: str, missing: tuple[str, ClientError] | None = None
    ) -> tuple[Json, ...]:
        """Read the items of a path for each namespace. `missing`: is unseen if the cluster does not have the kind."""
        found: list[Json] = []
        for namespace, path in paths.items():
            try:
                items = (await self._answer(self._client.request("GET", path))).get("items")
            except NotFound:
                if missing is not None:
                    self._see_not(*missing)
                continue  # an optional kind, which this cluster does not have
            except ClientError as error:
                group = path.split("/")[2]
                if not isinstance(error, Forbidden) or kind not in _POOLS or await is_served(self._client, group):
                    self._see_not(self._part(path.rpartition("/")[2], namespace), error)
                continue
            found += [item for item in items if isinstance(item, dict)] if isinstance(items, list) else ()
        return tuple({"kind": kind, **item} if kind else item for item in found)

    async def _answer(self, request: Awaitable[R]) -> R:
        """Return the answer to a request. Raises Unreachable also when it takes too long."""
        left = self._end - asyncio.get_running_loop().time()
        seconds = max(0.0, min(left, self._kind_seconds))
        try:
            async with asyncio.timeout(seconds):
                answer = await request
        except TimeoutError:
            raise Unreachable(f"the API server gave no answer within {self._kind_seconds:g} s") from None
        except (ApiError, BadAnswer):
            self._has_answer = True
            raise
        self._has_answer = True
        return answer

    async def _joined(self, reads: Any) -> tuple[Json, ...]:
        return tuple(item for found in await asyncio.gather(*reads) for item in found)

    def _part(self, plural: str, namespace: str) -> str:
        """Return the name of a part for `ClusterState.has_seen`: the system's part of a kind is one of its own."""
        return plural if namespace != SYSTEM or len(self._namespaces) == 1 else f"{plural} of {namespace}"

    def _see_not(self, plural: str, error: ClientError) -> None:
        if isinstance(error, Unauthorized):
            raise error
        if isinstance(error, Unreachable) and self._failure is None:
            self._failure = error
        unseen = Unseen(plural, printable(str(error)))
        if unseen not in self.unseen:
            self.unseen.append(unseen)
