"""Services and Nodes as the announcers see them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final

from bridgehead.objects.core import Node, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import is_condition_true

from ..model import Configuration, Pool
from ..ranges import IpAddress
from ..sharing import shared
from ..view import NodeView, Publication

EXCLUDED_LABEL: Final = "node.kubernetes.io/exclude-from-external-load-balancers"


def publication_of(
    service: Service, slices: Iterable[EndpointSlice], configuration: Configuration, *, lb_class: str = ""
) -> Publication | None:
    """Return what to announce of a Service; None if it has no address that a pool contains.

    `lb_class`: the only spec.loadBalancerClass of Services that are announced; "": those without a class. An endpoint
    counts if it is ready, or serving while it terminates (MetalLB's speaker).
    """
    addresses = tuple(_addresses(service, configuration, lb_class))
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


def _addresses(service: Service, configuration: Configuration, lb_class: str) -> Iterator[tuple[IpAddress, Pool]]:
    """Yield the addresses of the status and the externalIPs that a pool contains, each once."""
    found: dict[IpAddress, Pool] = {}
    texts: list[str] = []
    if service.spec.type == "LoadBalancer" and (service.spec.load_balancer_class or "") == lb_class:
        texts += [ingress.ip for ingress in service.status.load_balancer.ingress]
    if service.spec.type != "ExternalName":
        texts += service.spec.external_ips
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:  # a host name's entry has no address
            continue
        pool = configuration.pool_of(address)
        if pool is not None:
            found.setdefault(address, pool)
    yield from found.items()


def node_view(node: Node, *, is_ending: bool = False, ignore_exclude: bool = False) -> NodeView:
    """Return a Node. `is_ending`: its speaker ends soon. `ignore_exclude`: the label that excludes nodes is ignored."""
    labels = node.metadata.labels
    is_excluded = is_condition_true(node.status.conditions, "NetworkUnavailable") or (
        EXCLUDED_LABEL in labels and not ignore_exclude
    )
    return NodeView(
        node.metadata.name, labels, is_excluded, is_ending, node.internal_ips, is_cordoned=node.spec.unschedulable
    )
