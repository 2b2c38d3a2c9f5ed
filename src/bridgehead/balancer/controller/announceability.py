"""Watch over what decides whether addresses can be announced: endpoints, nodes, advertisements.

The reasons are those of the Service's condition and Event. A reason counts only when it has lasted for
`PATIENCE_SECONDS`, so that neither a new Service, whose pods start, nor a rollout has one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from bridgehead.balancer.allocation import Pending, PendingReason
from bridgehead.balancer.allocation.pending_reasons import UNANNOUNCED_REASONS
from bridgehead.balancer.compiled_configuration import Configuration
from bridgehead.balancer.speaker.announced_services import node_view, publication_of
from bridgehead.balancer.speaker.trimming import trim_slice
from bridgehead.balancer.view import ClusterView, NodeView
from bridgehead.client import Informer
from bridgehead.client.informer import Source
from bridgehead.objects.address_holders import assigned_addresses
from bridgehead.objects.core import Node, Service
from bridgehead.objects.endpoint_slices import EndpointSlice, index_by_service
from bridgehead.objects.kinds import ENDPOINT_SLICES
from bridgehead.objects.meta import ObjectKey, find_condition

from .service_patches import CONDITION
from .unannounced_addresses import why_unannounced

PATIENCE_SECONDS: Final = 5.0
ASSIGNED_INDEX: Final = "assigned"  # Services by the addresses of their status
_BY_SERVICE: Final = "service"
_CHECKS_AT_ONCE: Final = 50  # Services, after nodes changed; then other tasks have their turn


class Announceability:
    """Use: `run`, and `judge` for each Service with an address.

    `request` is called with a Service that has to be judged again, and after how many seconds. `ignore_exclude`:
    speakers ignore the label that excludes nodes.
    """

    def __init__(
        self,
        client: Source,
        services: Informer[Service],
        nodes: Informer[Node],
        request: Callable[[ObjectKey, float], None],
        *,
        lb_class: str,
        ignore_exclude: bool,
    ) -> None:
        self._services = services
        services.add_index(ASSIGNED_INDEX, assigned_addresses)
        self._nodes = nodes
        self._slices: Informer[EndpointSlice] = Informer(
            client, ENDPOINT_SLICES, indexes={_BY_SERVICE: index_by_service}, trim=trim_slice
        )
        self._request = request
        self._lb_class = lb_class
        self._ignore_exclude = ignore_exclude
        self._view = ClusterView("")
        self._is_configured = False
        self._refused: Pending | None = None  # why no node announces addresses of pools that are not in force
        self._has_new_nodes = asyncio.Event()
        self._found: dict[ObjectKey, tuple[float, Pending]] = {}  # since when, by the event loop's clock, and why

    async def run(self) -> None:
        """Follow endpoints and nodes until cancelled."""
        self._nodes.on_change(self._node_changed)
        self._slices.on_change(self._slice_changed)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._slices.run(), name="informer endpointslices")
            tasks.create_task(self._follow_nodes(), name="nodes")

    async def wait_synced(self) -> None:
        """Wait until `judge` knows endpoints and nodes."""
        await self._slices.wait_synced()
        await self._nodes.wait_synced()

    def configure(self, configuration: Configuration) -> None:
        """Use another configuration. The caller judges all Services again."""
        self._view = ClusterView("", configuration, self._view.nodes)
        self._is_configured, self._refused = True, None

    def refuse(self, problem: str) -> None:
        """Record why speakers go on with the last valid configuration. The caller judges all Services again."""
        if self._is_configured:  # else speakers may have one that this process does not know
            text = f"speakers use the last valid configuration, without the pool of its address: {problem}"
            self._refused = Pending(PendingReason.INVALID_CONFIGURATION, f"no node announces the Service: {text}")

    def judge(self, service: Service) -> Pending | None:
        """Return why no node announces the Service's addresses; None also while that is not certain yet."""
        key, now = service.key, asyncio.get_running_loop().time()
        why = self._why(service)
        if why is None:
            self._found.pop(key, None)
            return None
        since, _ = self._found.get(key, (now, None))
        self._found[key] = since, why
        condition = find_condition(service.status.conditions, CONDITION)
        if condition is not None and condition.reason in UNANNOUNCED_REASONS:  # of an earlier process, perhaps
            return why
        remaining = since + PATIENCE_SECONDS - now
        if remaining > 0:
            self._request(key, remaining)
            return None
        return why

    def forget(self, key: ObjectKey) -> None:
        """Forget a Service without addresses."""
        self._found.pop(key, None)

    def _why(self, service: Service) -> Pending | None:
        slices = self._slices.by_index(_BY_SERVICE, str(service.key))
        configuration = self._view.configuration
        publication = publication_of(
            service,
            slices,
            configuration,
            lb_class=self._lb_class,
            is_assigned=lambda address: bool(self._services.by_index(ASSIGNED_INDEX, address)),
        )
        return self._refused if publication is None else why_unannounced(self._view, publication)

    def _slice_changed(self, old: EndpointSlice | None, new: EndpointSlice | None) -> None:
        for key in {one.service_key for one in (old, new) if one is not None and one.service_key is not None}:
            service = self._services.get(key)
            if service is not None:
                self._check_again(service)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        before, after = self._node_view(old), self._node_view(new)
        if before == after:
            return
        nodes = dict(self._view.nodes)
        if before is not None:
            nodes.pop(before.name, None)
        if after is not None:
            nodes[after.name] = after
        self._view = ClusterView("", self._view.configuration, nodes)
        self._has_new_nodes.set()

    async def _follow_nodes(self) -> None:
        """Check all Services after changes of nodes: once for all nodes of a list, of which there may be thousands."""
        while True:
            await self._has_new_nodes.wait()
            self._has_new_nodes.clear()
            for number, service in enumerate(list(self._services.items())):
                if number % _CHECKS_AT_ONCE == 0:
                    await asyncio.sleep(0)
                self._check_again(service)

    def _node_view(self, node: Node | None) -> NodeView | None:
        return None if node is None else node_view(node, ignore_exclude=self._ignore_exclude)

    def _check_again(self, service: Service) -> None:
        """Request a new judgment of a Service for which it would differ now."""
        if service.spec.type == "LoadBalancer":
            _, last = self._found.get(service.key, (0.0, None))
            if self._why(service) != last:
                self._request(service.key, 0)
