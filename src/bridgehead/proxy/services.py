"""What a Service means on this node: the heart of the proxy.

`compile_service` turns a Service, its EndpointSlices and the facts of this node into `Frontend`s. What Kubernetes says
about Services is decided here and in `endpoints.py` (whom they lead to), once, for every proxy mode: what is published
where, with which policy, for whom. `agent.py` calls it for each Service that changed.

Pure and total: whatever is in the objects, there is a result, and what made no sense is named in `problems`.
Spec: Kubernetes v1.36 "Virtual IPs and Service Proxies", and the behaviour of kube-proxy where that is silent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridgehead.objects.core import Service, ServicePort
from bridgehead.objects.discovery import EndpointSlice

from .addresses import Family, canonical_address, canonical_cidr, family_of
from .endpoints import ServiceEndpoints, cluster_wide_backends, local_backends
from .frontends import (
    ANY_LOCAL,
    MAX_BACKENDS,
    Backend,
    Frontend,
    FrontendKey,
    NodeFacts,
    Problem,
    Publication,
    Reason,
    ServiceFrontends,
    SourceNat,
    Verdict,
    shown,
)
from .reserved import NOTHING_RESERVED, Reserved

_MOST_NAMED = 3  # of the addresses that a Service does not get


def compile_service(
    service: Service, slices: Iterable[EndpointSlice], node: NodeFacts, reserved: Reserved = NOTHING_RESERVED
) -> ServiceFrontends:
    """The Frontends of `service` on `node`. `slices` are all of the Service's, in any order.

    `reserved` are the addresses at which it is not published, whatever it says.
    """
    meta = service.metadata
    key = service.key
    age = (meta.creation_timestamp or "~", meta.namespace, meta.name)  # without a timestamp: after all others
    if not service.is_proxied:
        return ServiceFrontends(service=key, age=age)
    problems: list[Problem] = []
    cluster_ips = _addresses("clusterIPs", service.spec.cluster_ips or (service.spec.cluster_ip,), node, problems)
    published = _published(service, cluster_ips, node, reserved, problems)
    endpoints = ServiceEndpoints(slices, node, problems)
    frontends: dict[FrontendKey, Frontend] = {}
    for port in service.spec.ports:
        reason = _check_port(port)
        if reason is not None:
            problems.append(reason)
            continue
        for frontend in _compile_port(service, port, cluster_ips, published, endpoints, node, problems):
            if frontend.key in frontends:
                problems.append(Problem(Reason.DUPLICATE, f"{frontend.key} is claimed twice by this Service"))
            else:
                frontends[frontend.key] = frontend
    return ServiceFrontends(
        service=key,
        age=age,
        frontends=tuple(frontends.values()),
        cluster_ips=cluster_ips,
        problems=tuple(sorted(set(problems), key=str)),
    )


def health_check_port(service: Service) -> int:
    """The port on which every node tells load balancers whether it has endpoints of the Service; 0: there is none."""
    spec = service.spec
    is_asked = spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"
    return spec.health_check_node_port if is_asked and 1 <= spec.health_check_node_port <= 65535 else 0


def _compile_port(
    service: Service,
    port: ServicePort,
    cluster_ips: Sequence[str],
    published: _Published,
    endpoints: ServiceEndpoints,
    node: NodeFacts,
    problems: list[Problem],
) -> Iterable[Frontend]:
    """The Frontends of one port: for each cluster IP, external IP, load-balancer IP, and one for its node port."""
    spec = service.spec
    protocol = port.protocol.lower()
    owner = f"{service.metadata.namespace}/{service.metadata.name}:{port.name}"
    affinity = _affinity_seconds(service)
    external_ips, balancer_ips = published
    node_port = port.node_port if spec.type in ("NodePort", "LoadBalancer") else 0
    is_published = bool(external_ips or balancer_ips or node_port)
    internal_local = spec.internal_traffic_policy == "Local"
    external_local = spec.external_traffic_policy == "Local" and is_published
    for family in sorted({family_of(address) for address in cluster_ips}):  # the Service's families
        found = endpoints.get(family, port, problems)
        uses_cluster = not internal_local or is_published
        cluster = _cap(cluster_wide_backends(found, node), owner, problems) if uses_cluster else ()
        local = _cap(local_backends(found), owner, problems) if internal_local or external_local else ()
        # With backends elsewhere the connection is dropped, so that a client goes on to try another node.
        lacking_local = Verdict.DROP if any(e.is_usable for e in found) else Verdict.REJECT

        for address in cluster_ips:
            if family_of(address) == family:
                yield Frontend(
                    key=FrontendKey(address, protocol, port.port),
                    owner=owner,
                    backends=local if internal_local else cluster,
                    when_empty=lacking_local if internal_local else Verdict.REJECT,
                    source_nat=_cluster_ip_nat(family, node),
                    affinity_seconds=affinity,
                    is_local=internal_local,
                    health_check_port=health_check_port(service),
                )

        addressed = [
            *((address, port.port, Publication.EXTERNAL_IP) for address in external_ips),
            *((address, port.port, Publication.LOAD_BALANCER) for address in balancer_ips),
        ]
        if node_port:
            addressed.append((ANY_LOCAL[family], node_port, Publication.NODE_PORT))
        ranges = _source_ranges(service, family, balancer_ips, node, problems)
        for address, number, kind in addressed:
            if family_of(address) != family:
                continue
            yield Frontend(
                key=FrontendKey(address, protocol, number),
                owner=owner,
                backends=local if external_local else cluster,
                inside=cluster if external_local else None,
                when_empty=lacking_local if external_local else Verdict.REJECT,
                source_nat=SourceNat.HAIRPIN if external_local else SourceNat.ALWAYS,
                affinity_seconds=affinity,
                source_ranges=ranges if address in balancer_ips else None,
                published_as=kind,
                is_local=external_local,
            )


def _cluster_ip_nat(family: Family, node: NodeFacts) -> SourceNat:
    """What comes to a cluster IP from outside the cluster is masqueraded, where it is known what is outside."""
    if node.masquerade_all:
        return SourceNat.ALWAYS
    knows_outside = node.knows_pods or any(family_of(cidr) == family for cidr in node.cluster_cidrs)
    return SourceNat.OUTSIDE if knows_outside else SourceNat.HAIRPIN


def _cap(backends: tuple[Backend, ...], owner: str, problems: list[Problem]) -> tuple[Backend, ...]:
    if len(backends) > MAX_BACKENDS:
        problems.append(Problem(Reason.TOO_MANY_BACKENDS, f"{shown(owner)}: only {MAX_BACKENDS} are used"))
    return backends[:MAX_BACKENDS]


# --- Fields of a Service ---------------------------------------------------------------------------------


def _check_port(port: ServicePort) -> Problem | None:
    if port.protocol not in ("TCP", "UDP", "SCTP"):
        return Problem(Reason.BAD_PROTOCOL, f"port {shown(port.name)}: {shown(port.protocol)}")
    if not 1 <= port.port <= 65535:
        return Problem(Reason.BAD_PORT, f"port {shown(port.name)}: {port.port}")
    if not 0 <= port.node_port <= 65535:
        return Problem(Reason.BAD_PORT, f"port {shown(port.name)}: node port {port.node_port}")
    return None


def _affinity_seconds(service: Service) -> int | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    seconds = config.client_ip.timeout_seconds if config is not None and config.client_ip is not None else 10800
    return min(max(seconds, 1), 86400)


def _addresses(field: str, texts: Iterable[str], node: NodeFacts, problems: list[Problem]) -> tuple[str, ...]:
    """The usable addresses of a list, canonical, each once. Those of a family the node lacks are left out silently."""
    found: dict[str, None] = {}
    for text in texts:
        address = canonical_address(text)
        if address is None or address in ("0.0.0.0", "::"):
            problems.append(Problem(Reason.BAD_ADDRESS, f"{field}: {shown(text)}"))
        elif family_of(address) in node.families:
            found[address] = None
    return tuple(found)


class _Published(NamedTuple):
    """The addresses at which a Service is published beside its cluster IPs."""

    external_ips: tuple[str, ...]
    balancer_ips: tuple[str, ...]


def _published(
    service: Service, cluster_ips: Sequence[str], node: NodeFacts, reserved: Reserved, problems: list[Problem]
) -> _Published:
    """Without those that are others': what all of them are is one problem, so that there is one Event of it."""
    found, refused = [], []
    for field, addresses in (
        ("externalIPs", _addresses("externalIPs", service.spec.external_ips, node, problems)),
        ("status.loadBalancer.ingress", _balancer_ips(service, node, problems)),
    ):
        owners = {address: reserved.owner_of(address) for address in addresses if address not in cluster_ips}
        refused += [f"{address} in {field}, {owner}" for address, owner in owners.items() if owner is not None]
        found.append(tuple(address for address in addresses if owners.get(address) is None))
    if refused:
        more = f"; and {len(refused) - _MOST_NAMED} more" if len(refused) > _MOST_NAMED else ""
        text = f"the Service is not published at {'; '.join(refused[:_MOST_NAMED])}{more}"
        problems.append(Problem(Reason.RESERVED_ADDRESS, text))
    return _Published(*found)


def _balancer_ips(service: Service, node: NodeFacts, problems: list[Problem]) -> tuple[str, ...]:
    """The load-balancer addresses whose packets arrive here untranslated (ipMode VIP, KEP-1860)."""
    if service.spec.type != "LoadBalancer":
        return ()
    ingress = service.status.load_balancer.ingress
    texts = [entry.ip for entry in ingress if entry.ip and entry.ip_mode in (None, "VIP")]
    return _addresses("status.loadBalancer.ingress", texts, node, problems)


def _source_ranges(
    service: Service, family: Family, balancer_ips: Sequence[str], node: NodeFacts, problems: list[Problem]
) -> tuple[str, ...] | None:
    """Who may use the load-balancer addresses.

    With ranges of the other family only, nobody may; kube-proxy takes them for no restriction at all. Where such an
    address is one of this node's own, the node's connections to it come from it, so it may use itself if this node may.
    """
    if not balancer_ips or not service.spec.load_balancer_source_ranges:
        return None
    found = set()
    for text in service.spec.load_balancer_source_ranges:
        cidr = canonical_cidr(text.strip())
        if cidr is None:
            problems.append(Problem(Reason.BAD_SOURCE_RANGE, f"loadBalancerSourceRanges: {shown(text)}"))
        elif family_of(cidr) == family:
            found.add(cidr)
    networks = [ipaddress.ip_network(cidr) for cidr in sorted(found)]
    if any(ipaddress.ip_address(address) in network for address in node.addresses for network in networks):
        networks += [ipaddress.ip_network(address) for address in balancer_ips if family_of(address) == family]
    return tuple(str(network) for network in ipaddress.collapse_addresses(networks))  # type: ignore[type-var]
