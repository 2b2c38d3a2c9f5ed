"""Services and Nodes as the announcers see them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from bridgehead.balancer.compiled_configuration import Configuration, Pool
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.shared_sets import shared
from bridgehead.balancer.view import NodeView, Publication
from bridgehead.objects.address_holders import assigned_addresses
from bridgehead.objects.core import Node, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import is_condition_true

EXCLUDED_LABEL: Final = "node.kubernetes.io/exclude-from-external-load-balancers"


def publication_of(
    service: Service,
    slices: Iterable[EndpointSlice],
    configuration: Configuration,
    *,
    lb_class: str = "",
    is_assigned: Callable[[str], bool] = lambda address: False,
) -> Publication | None:
    """Return what to announce of a Service; None if it has no address that a pool contains.

    `is_assigned`: whether a canonical address is in the status of a Service; it is announced for that one only.
    `lb_class`: the only spec.loadBalancerClass of Services that are announced; "": those without a class. An endpoint
    counts if it is ready, or serving while it terminates (MetalLB's speaker).
    """
    addresses = tuple(_addresses(service, configuration, lb_class, is_assigned))
    if not addresses:
        return None
    counting = [
        endpoint
        for slice_ in slices
        for endpoint in slice_.endpoints
        if endpoint.conditions.is_ready or endpoint.conditions.serving is True
    ]
    return Publication(
        service.key,
        service.metadata.uid,
        service.metadata.labels,
        addresses,
        is_local=service.spec.external_traffic_policy == "Local",
        endpoint_nodes=shared(frozenset(endpoint.node_name for endpoint in counting if endpoint.node_name)),
        has_endpoints=bool(counting),
        ready_nodes=shared(
            frozenset(
                endpoint.node_name for endpoint in counting if endpoint.node_name and endpoint.conditions.is_ready
            )
        ),
    )


def _addresses(
    service: Service, configuration: Configuration, lb_class: str, is_assigned: Callable[[str], bool]
) -> Iterator[tuple[IpAddress, Pool]]:
    """Yield the addresses of the status that a pool contains, and the externalIPs of pools that are for these.

    Each once.
    """
    found: dict[IpAddress, Pool] = {}
    if (service.spec.load_balancer_class or "") == lb_class:
        for text in assigned_addresses(service):
            pool = configuration.pool_of(address := ipaddress.ip_address(text))
            if pool is not None:
                found[address] = pool
    for address, pool in external_ips_in_pools(service, configuration):
        if pool.is_for_external_ips and not is_assigned(str(address)):
            found.setdefault(address, pool)
    yield from found.items()


def external_ips_in_pools(service: Service, configuration: Configuration) -> Iterator[tuple[IpAddress, Pool]]:
    """Yield the externalIPs of a Service that a pool contains."""
    for text in service.spec.external_ips if service.spec.type != "ExternalName" else ():
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            continue
        pool = configuration.pool_of(address)
        if pool is not None:
            yield address, pool


def node_view(node: Node, *, is_ending: bool = False, ignore_exclude: bool = False) -> NodeView:
    """Return a Node. `is_ending`: its speaker ends soon. `ignore_exclude`: the label that excludes nodes is ignored."""
    labels = node.metadata.labels
    is_excluded = is_condition_true(node.status.conditions, "NetworkUnavailable") or (
        EXCLUDED_LABEL in labels and not ignore_exclude
    )
    return NodeView(
        node.metadata.name, labels, is_excluded, is_ending, node.internal_ips, is_cordoned=node.spec.unschedulable
    )
