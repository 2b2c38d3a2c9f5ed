"""Compile a Service to the Frontends of this node: the heart of the proxy.

`compile_service` turns a Service, its EndpointSlices and the facts of this node into `Frontend`s. The rules of
Kubernetes for Services are decided here and in `backends.py` (which backends), once for every proxy mode: what is
published where, with which policy, for which clients. `agent.py` calls it for each Service that changed.

Pure: no I/O, no clock, no randomness. Total: any object has a result, and `problems` names what was invalid in it.
Spec: Kubernetes v1.36 "Virtual IPs and Service Proxies", and the behaviour of kube-proxy where that is silent.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridgehead.objects.address_holders import by_assigned_address, cluster_addresses, describe_holder, holder_of
from bridgehead.objects.core import DEFAULT_AFFINITY_SECONDS, Service, ServicePort
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey

from .address_texts import Family, canonical_address, canonical_cidr, family_of
from .backends import ServiceEndpoints, cluster_wide_backends, local_backends
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
    quote,
)
from .reserved_addresses import NOTHING_RESERVED, NodeAddress, Reserved

_MAX_NAMED = 3  # reserved addresses that one Event names


class _Exposure(NamedTuple):
    """The properties that all ports of a Service share on this node; parsed once a Service."""

    cluster_ips: tuple[str, ...]
    families: tuple[Family, ...]  # of the cluster IPs
    external_ips: tuple[str, ...]
    balancer_ips: tuple[str, ...]
    node_ips: frozenset[str]  # of the two above: addresses of this node
    source_ranges: dict[Family, tuple[str, ...]] | None  # that may use the balancer IPs; None: no restriction
    affinity_seconds: int | None
    health_check_port: int


def compile_service(
    service: Service,
    slices: Iterable[EndpointSlice],
    node: NodeFacts,
    reserved: Reserved = NOTHING_RESERVED,
    rivals: Sequence[Service] = (),
) -> ServiceFrontends:
    """Return the Frontends of `service` on `node`. `slices` are all of the Service's, in any order.

    The Service is not published at `reserved` addresses and ports, nor at addresses that belong to one of `rivals`:
    the other Services that have one of its addresses in their status or as their cluster IP.
    """
    meta = service.metadata
    key = service.key
    age = (meta.creation_timestamp or "~", meta.namespace, meta.name)  # without a timestamp: after all others
    if not service.is_proxied:
        return ServiceFrontends(service=key, age=age)
    problems: list[Problem] = []
    exposure = _parse_exposure(service, node, reserved, rivals, problems)
    endpoints = ServiceEndpoints(slices, node, problems)
    frontends: dict[FrontendKey, Frontend] = {}
    for port in service.spec.ports:
        problem = _check_port(port)
        if problem is not None:
            problems.append(problem)
            continue
        refused = _listener_at(port, exposure, reserved, problems)
        for frontend in _compile_port(service, port, exposure, endpoints, node, problems):
            if refused and frontend.is_on_node:
                continue
            if frontend.key in frontends:
                problems.append(Problem(Reason.DUPLICATE, f"{frontend.key} is claimed twice by this Service"))
            else:
                frontends[frontend.key] = frontend
    return ServiceFrontends(
        service=key,
        age=age,
        frontends=tuple(frontends.values()),
        cluster_ips=exposure.cluster_ips,
        problems=tuple(sorted(set(problems), key=str)),
    )


def health_check_port(service: Service) -> int:
    """Return the healthCheckNodePort that every node serves for the Service; 0: none."""
    spec = service.spec
    has_port = spec.type == "LoadBalancer" and spec.external_traffic_policy == "Local"
    return spec.health_check_node_port if has_port and 1 <= spec.health_check_node_port <= 65535 else 0


def _parse_exposure(
    service: Service, node: NodeFacts, reserved: Reserved, rivals: Sequence[Service], problems: list[Problem]
) -> _Exposure:
    cluster_ips = _addresses("clusterIPs", service.spec.cluster_ips or (service.spec.cluster_ip,), node, problems)
    external_ips, balancer_ips = _published(service, cluster_ips, node, reserved, rivals, problems)
    families = tuple(sorted({family_of(address) for address in cluster_ips}))
    return _Exposure(
        cluster_ips,
        families,
        external_ips,
        balancer_ips,
        frozenset(ip for ip in (*external_ips, *balancer_ips) if reserved.nodes.get(ip) is NodeAddress.OWN),
        _source_ranges(service, families, balancer_ips, node, problems),
        _affinity_seconds(service),
        health_check_port(service),
    )


def _compile_port(
    service: Service,
    port: ServicePort,
    exposure: _Exposure,
    endpoints: ServiceEndpoints,
    node: NodeFacts,
    problems: list[Problem],
) -> Iterable[Frontend]:
    """Yield the Frontends of one port: one for each of the Service's addresses, and one for the node port."""
    spec = service.spec
    protocol = port.protocol.lower()
    owner = f"{service.metadata.namespace}/{service.metadata.name}:{port.name}"
    node_port = port.node_port if spec.type in ("NodePort", "LoadBalancer") else 0
    is_published = bool(exposure.external_ips or exposure.balancer_ips or node_port)
    ranges = exposure.source_ranges
    internal_local = spec.internal_traffic_policy == "Local"
    external_local = spec.external_traffic_policy == "Local" and is_published
    for family in exposure.families:
        found = endpoints.get(family, port, problems)
        uses_cluster = not internal_local or is_published
        cluster = _cap(cluster_wide_backends(found, node), owner, problems) if uses_cluster else ()
        local = _cap(local_backends(found), owner, problems) if internal_local or external_local else ()
        # With backends on other nodes only, the connection is dropped: the client then goes on to try another node.
        without_local = Verdict.DROP if any(e.is_usable for e in found) else Verdict.REJECT

        for address in exposure.cluster_ips:
            if family_of(address) == family:
                yield Frontend(
                    key=FrontendKey(address, protocol, port.port),
                    owner=owner,
                    backends=local if internal_local else cluster,
                    when_empty=without_local if internal_local else Verdict.REJECT,
                    source_nat=_cluster_ip_nat(family, node),
                    affinity_seconds=exposure.affinity_seconds,
                    is_local=internal_local,
                    health_check_port=exposure.health_check_port,
                )

        addressed = [
            *((address, port.port, Publication.EXTERNAL_IP) for address in exposure.external_ips),
            *((address, port.port, Publication.LOAD_BALANCER) for address in exposure.balancer_ips),
        ]
        if node_port:
            addressed.append((ANY_LOCAL[family], node_port, Publication.NODE_PORT))
        for address, number, kind in addressed:
            if family_of(address) != family:
                continue
            yield Frontend(
                key=FrontendKey(address, protocol, number),
                owner=owner,
                backends=local if external_local else cluster,
                cluster_backends=cluster if external_local else None,
                when_empty=without_local if external_local else Verdict.REJECT,
                source_nat=SourceNat.HAIRPIN if external_local else SourceNat.ALWAYS,
                affinity_seconds=exposure.affinity_seconds,
                source_ranges=ranges[family] if ranges is not None and address in exposure.balancer_ips else None,
                published_as=kind,
                is_local=external_local,
                is_on_node=address in exposure.node_ips,
            )


def _listener_at(port: ServicePort, exposure: _Exposure, reserved: Reserved, problems: list[Problem]) -> bool:
    """Return whether this node itself listens on the port at one of its addresses that the Service lists.

    The text does not name the node, so that the proxies of all nodes with the problem record one Event.
    """
    if not exposure.node_ips:
        return False
    listener = reserved.ports.get((port.protocol.lower(), port.port))
    if listener is None:
        return False
    text = f"port {port.port}/{port.protocol.lower()} is not published at the addresses of nodes that the Service lists"
    advice = "use another port, or an address that no node has"
    problems.append(Problem(Reason.RESERVED_ADDRESS, f"{text}: {listener} listens on it; {advice}"))
    return True


def _cluster_ip_nat(family: Family, node: NodeFacts) -> SourceNat:
    """Return the source NAT of a cluster IP: clients outside the cluster are masqueraded if pods can be recognized."""
    if node.masquerade_all:
        return SourceNat.ALWAYS
    recognizes_pods = node.knows_pods or any(family_of(cidr) == family for cidr in node.cluster_cidrs)
    return SourceNat.OUTSIDE if recognizes_pods else SourceNat.HAIRPIN


def _cap(backends: tuple[Backend, ...], owner: str, problems: list[Problem]) -> tuple[Backend, ...]:
    if len(backends) > MAX_BACKENDS:
        problems.append(Problem(Reason.TOO_MANY_BACKENDS, f"{quote(owner)}: only {MAX_BACKENDS} are used"))
    return backends[:MAX_BACKENDS]


# --- Fields of a Service ---------------------------------------------------------------------------------


def _check_port(port: ServicePort) -> Problem | None:
    if port.protocol not in ("TCP", "UDP", "SCTP"):
        return Problem(Reason.BAD_PROTOCOL, f"port {quote(port.name)}: {quote(port.protocol)}")
    if not 1 <= port.port <= 65535:
        return Problem(Reason.BAD_PORT, f"port {quote(port.name)}: {port.port}")
    if not 0 <= port.node_port <= 65535:
        return Problem(Reason.BAD_PORT, f"port {quote(port.name)}: node port {port.node_port}")
    return None


def _affinity_seconds(service: Service) -> int | None:
    if service.spec.session_affinity != "ClientIP":
        return None
    config = service.spec.session_affinity_config
    if config is None or config.client_ip is None:
        return DEFAULT_AFFINITY_SECONDS
    return min(max(config.client_ip.timeout_seconds, 1), 86400)


def _addresses(field: str, texts: Iterable[str], node: NodeFacts, problems: list[Problem]) -> tuple[str, ...]:
    """Return the usable addresses of a list, canonical, each once, without those of a family that the node lacks."""
    found: dict[str, None] = {}
    for text in texts:
        address = canonical_address(text)
        if address is None or address in ("0.0.0.0", "::"):
            problems.append(Problem(Reason.BAD_ADDRESS, f"{field}: {quote(text)}"))
        elif family_of(address) in node.families:
            found[address] = None
    return tuple(found)


def _published(
    service: Service,
    cluster_ips: Sequence[str],
    node: NodeFacts,
    reserved: Reserved,
    rivals: Sequence[Service],
    problems: list[Problem],
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the external IPs and the load-balancer IPs without those of others. All refused ones are one problem.

    Addresses of other nodes are left out without a problem: packets to them go to these nodes, whose proxies serve
    the Service there, and which know on which ports they listen themselves.
    """
    if not (service.spec.external_ips or service.status.load_balancer.ingress):
        return (), ()
    refused: list[str] = []
    # A Service may list tens of thousands of addresses, and have hundreds of rivals.
    by_status = by_assigned_address(rivals)
    by_cluster_ip: dict[str, ObjectKey] = {}
    for rival in rivals:
        for address in cluster_addresses(rival):
            by_cluster_ip.setdefault(address, rival.key)

    def owner_of(address: str) -> str | None:
        if address in cluster_ips:
            return None
        owner = reserved.owner_of(address)
        if owner is None:
            key = by_cluster_ip.get(address)
            owner = f"a cluster IP of Service {key}" if key is not None else None
        if owner is None and (holder := holder_of(address, service, by_status.get(address, ()))) is not None:
            return describe_holder(holder)
        return owner

    def without_foreign(field: str, addresses: tuple[str, ...]) -> tuple[str, ...]:
        owners = {address: owner_of(address) for address in addresses}
        refused.extend(f"{address} in {field}, {owner}" for address, owner in owners.items() if owner is not None)
        elsewhere = {address for address in addresses if reserved.nodes.get(address) is NodeAddress.OTHER}
        return tuple(address for address in addresses if owners[address] is None and address not in elsewhere)

    external_ips = without_foreign("externalIPs", _addresses("externalIPs", service.spec.external_ips, node, problems))
    balancer_ips = without_foreign("status.loadBalancer.ingress", _balancer_ips(service, node, problems))
    if refused:
        more = f"; and {len(refused) - _MAX_NAMED} more" if len(refused) > _MAX_NAMED else ""
        text = f"the Service is not published at {'; '.join(refused[:_MAX_NAMED])}{more}"
        problems.append(Problem(Reason.RESERVED_ADDRESS, f"{text}; use addresses that nothing else has"))
    return external_ips, balancer_ips


def _balancer_ips(service: Service, node: NodeFacts, problems: list[Problem]) -> tuple[str, ...]:
    """Return the load-balancer addresses whose packets arrive untranslated (ipMode VIP, KEP-1860)."""
    if service.spec.type != "LoadBalancer":
        return ()
    ingress = service.status.load_balancer.ingress
    texts = [entry.ip for entry in ingress if entry.ip and entry.ip_mode in (None, "VIP")]
    return _addresses("status.loadBalancer.ingress", texts, node, problems)


def _source_ranges(
    service: Service,
    families: Iterable[Family],
    balancer_ips: Sequence[str],
    node: NodeFacts,
    problems: list[Problem],
) -> dict[Family, tuple[str, ...]] | None:
    """Return the ranges of each family that may use the load-balancer addresses; None: no restriction.

    If all ranges are of the other family, no client may; kube-proxy then restricts nothing. If the ranges include an
    address of this node, the load-balancer addresses are added: the node's own connections to them come from them.
    """
    if not balancer_ips or not service.spec.load_balancer_source_ranges:
        return None
    found: dict[Family, set[str]] = {family: set() for family in families}
    for text in service.spec.load_balancer_source_ranges:
        cidr = canonical_cidr(text.strip())
        if cidr is None:
            problems.append(Problem(Reason.BAD_SOURCE_RANGE, f"loadBalancerSourceRanges: {quote(text)}"))
        elif family_of(cidr) in found:
            found[family_of(cidr)].add(cidr)
    return {family: _collapse(sorted(cidrs), family, balancer_ips, node) for family, cidrs in found.items()}


def _collapse(cidrs: Iterable[str], family: Family, balancer_ips: Iterable[str], node: NodeFacts) -> tuple[str, ...]:
    networks = [ipaddress.ip_network(cidr) for cidr in cidrs]
    if any(ipaddress.ip_address(address) in network for address in node.addresses for network in networks):
        networks += [ipaddress.ip_network(address) for address in balancer_ips if family_of(address) == family]
    return tuple(str(network) for network in ipaddress.collapse_addresses(networks))  # type: ignore[type-var]
