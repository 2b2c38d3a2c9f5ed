"""The objects of the API that a proxy follows, what follows from them for this node, and which Services changed.

Data flows from the informers to `ProxyAgent` (`agent.py`), which takes batches of changed Services and compiles them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.client import ApiClient, Informer, Running
from bridgehead.network.gateways import gateways
from bridgehead.network.listening_ports import Listener, listeners
from bridgehead.objects.address_holders import (
    ShareKey,
    assigned_addresses,
    cluster_addresses,
    is_from_pool,
    published_addresses,
    share_key,
)
from bridgehead.objects.core import PROXY_NAME_LABEL, Node, Pod, Service
from bridgehead.objects.endpoint_slices import HEADLESS_LABEL, EndpointSlice, index_by_service
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey

from .address_texts import Family, canonical_address, family_of
from .config import ProxyConfig
from .frontends import ANY_LOCAL, NodeFacts
from .host_port_frontends import has_host_ports, pod_key, pod_of
from .mode import Settings
from .node_facts import is_eligible, plan_node
from .node_listeners import ListListeners, NodeListeners
from .operating.health import ProxyHealth
from .operating.metrics import ProxyMetrics
from .operating.progress import KnownNodes
from .reserved_addresses import NOTHING_RESERVED, plan_reserved
from .service_frontends import health_check_port
from .service_ranges import ServiceRanges

log = logging.getLogger(__name__)

_SELECTOR = f"!{PROXY_NAME_LABEL},!{HEADLESS_LABEL}"
_API_SERVICE = ObjectKey("default", "kubernetes")
_ASSIGNED, _PUBLISHED, _CLUSTER = "assigned", "published", "cluster"  # Services by their addresses


@dataclass
class Batch:
    """The Services to compile again.

    `triggers`: the times, in epoch seconds, at which their endpoints changed. `versions`: the resourceVersions of the
    Services and EndpointSlices known when this was taken. `has_changes`: an object changed, so progress is due at
    once.
    """

    services: set[ObjectKey] = field(default_factory=set)
    triggers: list[float] = field(default_factory=list)
    versions: tuple[str, str] = ("", "")
    has_changes: bool = False


class ClusterObjects:
    """Services, EndpointSlices, Nodes, and the pods of this node if host ports are wanted.

    `service_cidrs`: the ranges of cluster IPs; None: those of the cluster's ServiceCIDRs. `api_addresses`: the
    addresses by which the client reaches the API server. `has_changed` is set when there is something to take.
    `list_listeners` returns the sockets on which this node's processes listen, `list_gateways` its routers.
    """

    def __init__(
        self,
        client: ApiClient,
        config: ProxyConfig,
        node_name: str,
        *,
        service_cidrs: tuple[str, ...] | None,
        api_addresses: tuple[str, ...],
        kernel_families: tuple[Family, ...],
        metrics: ProxyMetrics,
        health: ProxyHealth,
        list_listeners: ListListeners = listeners,
        list_gateways: Callable[[], Collection[str]] = gateways,
    ) -> None:
        self._config = config
        self._node_name = node_name
        self._service_cidrs = service_cidrs
        self._api_addresses = api_addresses
        self._kernel_families = kernel_families
        self._metrics = metrics
        self._health = health
        self._services: Informer[Service] = Informer(
            client,
            SERVICES,
            label_selector=_SELECTOR,
            indexes={_ASSIGNED: assigned_addresses, _PUBLISHED: published_addresses, _CLUSTER: cluster_addresses},
        )
        self._slices: Informer[EndpointSlice] = Informer(
            client, ENDPOINT_SLICES, label_selector=_SELECTOR, indexes={"service": index_by_service}
        )
        # All Nodes: no Service may take over an address of any.
        self._nodes: Informer[Node] = Informer(client, NODES)
        self._pods: Informer[Pod] | None = None
        if config.host_ports:
            self._pods = Informer(client, PODS, field_selector=f"spec.nodeName={node_name}", few=True)
        self._service_ranges = ServiceRanges(client, self._replan)
        self._list_gateways = list_gateways
        self._listeners = NodeListeners(list_listeners, self._uses_node_addresses, self._forget_reserved)
        self._node: Node | None = None
        self._knows_reserved = False
        self._measures = False
        self._batch = Batch()
        self.has_changed = asyncio.Event()
        self.facts, self.settings = self._plan()
        self.reserved = NOTHING_RESERVED
        self._services.on_change(self._on_service_change)
        self._slices.on_change(self._on_slice_change)
        self._nodes.on_change(self._on_node_change)
        if self._pods is not None:
            self._pods.on_change(self._on_pod_change)

    def followers(self) -> list[Running]:
        """Return what has to run: informers, and the follower of ServiceCIDRs unless the ranges are configured."""
        found: list[Running] = [self._services, self._slices, self._nodes, self._listeners]
        if self._pods is not None:
            found.append(self._pods)
        return found if self._service_cidrs is not None else [*found, self._service_ranges]

    async def wait_synced(self) -> None:
        """Wait until all objects have been listed."""
        for informer in (self._services, self._slices, self._nodes):
            await informer.wait_synced()
        if self._pods is not None:
            await self._pods.wait_synced()
        if self._service_cidrs is None:
            await self._service_ranges.wait_answered()

    # --- What the agent reads ---------------------------------------------------------------------------------

    @property
    def has_node(self) -> bool:
        """Whether this node's Node exists."""
        return self._nodes.get(ObjectKey("", self._node_name)) is not None

    @property
    def known_nodes(self) -> KnownNodes:
        """The number of Nodes, and this one's uid."""
        node = self._nodes.get(ObjectKey("", self._node_name))
        return KnownNodes(len(self._nodes), node.metadata.uid if node is not None else "")

    @property
    def has_batch(self) -> bool:
        """Whether a Service waits to be taken."""
        return bool(self._batch.services)

    def owner(self, key: ObjectKey) -> Service | Pod | None:
        """Return the Service, or the pod with host ports, to which the Frontends under `key` belong."""
        pod = pod_of(key)
        if pod is None:
            return self._services.get(key)
        return self._pods.get(pod) if self._pods is not None else None

    def rivals_of(self, service: Service) -> Sequence[Service]:
        """Return the other Services that have one of the Service's addresses in their status, or as their cluster IP.

        Cluster IPs are compared only if their ranges are not known.
        """
        addresses = published_addresses(service)
        if not addresses:
            return ()
        found: dict[ObjectKey, Service] = {}
        known = {family_of(cidr) for cidr in self.settings.service_cidrs}
        for address in addresses:
            for index in (_ASSIGNED,) if family_of(address) in known else (_ASSIGNED, _CLUSTER):
                found.update((other.key, other) for other in self._services.by_index(index, address))
        found.pop(service.key, None)
        return list(found.values())

    def slices_of(self, key: ObjectKey) -> Sequence[EndpointSlice]:
        """Return the EndpointSlices of a Service."""
        return self._slices.by_index("service", str(key))

    def take(self) -> Batch:
        """Return what has changed since the last batch; also what changed because the reserved addresses did."""
        self._update_reserved()
        batch, self._batch = self._batch, Batch()
        batch.versions = self._services.resource_version, self._slices.resource_version
        self.has_changed.clear()
        return batch

    def give_back(self, batch: Batch) -> None:
        """Keep, of a batch that was not programmed, what is to be observed when a later one is."""
        self._batch.triggers += batch.triggers
        self._batch.has_changes |= batch.has_changes

    def begin_measuring(self) -> None:
        """Note the times of changes from now on: earlier changes do not measure this process."""
        self._measures = True

    # --- Changes, from the informers --------------------------------------------------------------------------

    def _on_service_change(self, old: Service | None, new: Service | None) -> None:
        either = new if new is not None else old
        if either is not None:
            self._metrics.service_changes.inc()
            self._mark(either.key)
            self._mark_rivals(old, new)
            if _health_port(old) != _health_port(new):
                self._knows_reserved = False
            published = published_addresses(new) if new is not None else ()
            if published and not self._own_addresses().isdisjoint(published):
                self._knows_reserved = False  # the ports on which this node listens count from now on

    def _mark_rivals(self, old: Service | None, new: Service | None) -> None:
        """Mark the Services that list an address of a changed Service, if it may decide differently on them now."""
        before, after = _holdings(old), _holdings(new)
        if before == after:
            return
        for address in {*before.addresses, *after.addresses}:
            for other in self._services.by_index(_PUBLISHED, address):
                self._mark(other.key)

    def _on_slice_change(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        self._metrics.endpoint_changes.inc()
        for slice_ in (old, new):
            if slice_ is not None and (key := slice_.service_key) is not None:
                self._knows_reserved &= key != _API_SERVICE
                self._mark(key)
        trigger = new.triggered_at if new is not None else None
        if trigger is not None and self._measures:
            self._batch.triggers.append(trigger)

    def _on_pod_change(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is not None and has_host_ports(pod):
                self._mark(pod_key(pod.key))

    def _on_node_change(self, old: Node | None, node: Node | None) -> None:
        if old is None or node is None or _node_content(old) != _node_content(node):
            self._forget_reserved()
        if ObjectKey("", self._node_name) not in [either.key for either in (old, node) if either is not None]:
            return
        self._health.is_node_eligible = is_eligible(node)
        if node is None:  # deleted while this proxy runs: the last known Node is still the best guess
            return
        self._node = node
        self._replan()

    def _replan(self) -> None:
        """Derive facts and settings again; if they differ, compile all Services again."""
        facts, settings = self._plan()
        if (facts, settings) == (self.facts, self.settings):
            return
        if facts != self.facts:
            log.info("this node: %s", facts)
        self.facts, self.settings = facts, settings
        self._knows_reserved = False
        for key in self._services.keys():  # noqa: SIM118 - an informer is no mapping
            self._mark(key)
        for pod in self._pods.items() if self._pods is not None else ():
            self._on_pod_change(None, pod)
        self.has_changed.set()

    def _plan(self) -> tuple[NodeFacts, Settings]:
        service_cidrs = self._service_ranges.cidrs if self._service_cidrs is None else self._service_cidrs
        return plan_node(self._config, self._node_name, self._node, service_cidrs, self._kernel_families)

    def _forget_reserved(self) -> None:
        self._knows_reserved = False
        self.has_changed.set()

    def _uses_node_addresses(self) -> bool:
        """Return whether a Service lists an address of this node."""
        return any(self._services.by_index(_PUBLISHED, address) for address in self._own_addresses())

    def _health_listeners(self) -> frozenset[Listener]:
        """Return the sockets of health checks that this proxy opens, if a Service lists addresses of the node."""
        if not self._uses_node_addresses():
            return frozenset()
        ports = {health_check_port(service) for service in self._services.items()} - {0}
        return frozenset(Listener("tcp", ANY_LOCAL[4], port) for port in ports)

    def _own_addresses(self) -> set[str]:
        listed = self._node.status.addresses if self._node is not None else ()
        return {*self.facts.addresses, *filter(None, (canonical_address(one.address) for one in listed))}

    def _update_reserved(self) -> None:
        """Update the reserved addresses; if they changed, mark the Services that publish external addresses."""
        if self._knows_reserved:
            return
        self._knows_reserved = True
        api_slices = self._slices.by_index("service", str(_API_SERVICE))
        reserved = plan_reserved(
            self._node_name,
            self.facts.addresses,
            self._nodes.items(),
            api_slices,
            self._api_addresses,
            self.settings.service_cidrs,
            self._config.cluster_cidrs,
            self._listeners.read() | self._health_listeners(),
            self._list_gateways(),
        )
        if reserved == self.reserved:
            return
        self.reserved = reserved
        for service in self._services.items():
            if service.spec.external_ips or service.status.load_balancer.ingress:
                self._mark(service.key)

    def _mark(self, key: ObjectKey) -> None:
        self._batch.services.add(key)
        self._batch.has_changes = True
        self._health.queued()
        self.has_changed.set()


def _health_port(service: Service | None) -> int:
    return 0 if service is None else health_check_port(service)


class _Holdings(NamedTuple):
    """The properties of a Service that decide on the claims of others: its addresses, and who shares some of them."""

    addresses: tuple[str, ...] = ()
    share: ShareKey = ShareKey()
    is_from_pool: bool = False


def _holdings(service: Service | None) -> _Holdings:
    if service is None:
        return _Holdings()
    assigned = assigned_addresses(service)
    if not assigned:
        return _Holdings(cluster_addresses(service))
    return _Holdings((*cluster_addresses(service), *assigned), share_key(service), is_from_pool(service))


def _node_content(node: Node) -> tuple[object, ...]:
    return node.status.addresses, node.status.daemon_endpoints, node.spec.pod_cidrs, node.spec.pod_cidr
