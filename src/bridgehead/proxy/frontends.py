"""What a node's kernel has to do for one Service: the heart of the proxy.

`compile_service` turns a Service, its EndpointSlices and the facts of this node into `Frontend`s. Everything Kubernetes
says about Services is decided here, once, for every proxy mode: readiness, termination, traffic policies, topology,
what is published where. Below this module nobody knows what a Service is. `agent.py` calls it for each Service that
changed.

Pure and total: whatever is in the objects, there is a result, and what made no sense is named in `problems`.
Spec: Kubernetes v1.36 "Virtual IPs and Service Proxies", "EndpointSlices", and the behaviour of kube-proxy where those
are silent. `publishNotReadyAddresses` is not looked at here: the controller that writes the slices has turned it into
`ready`.
"""

from __future__ import annotations

import enum
import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.objects.core import Service, ServicePort
from bridgehead.objects.discovery import Endpoint, EndpointSlice
from bridgehead.objects.meta import ObjectKey

PROXY_NAME_LABEL = "service.kubernetes.io/service-proxy-name"
HEADLESS_LABEL = "service.kubernetes.io/headless"

ANY_LOCAL = {4: "0.0.0.0", 6: "::"}  # the address of a Frontend that answers on every address of the node
MAX_BACKENDS = 65535  # of one Frontend; the renderers number them in 16 bits

Family = int  # 4 or 6


class Verdict(enum.Enum):
    """What happens to a new connection when there is no backend for it."""

    REJECT = "reject"
    DROP = "drop"


class SourceNat(enum.Enum):
    """Which new connections get an address of this node as their source. Each includes those before it but NEVER."""

    NEVER = "never"
    HAIRPIN = "hairpin only"  # a backend that reaches itself
    OUTSIDE = "from outside the cluster"
    ALWAYS = "always"


class Publication(enum.Enum):
    """Which of a Service's addresses a Frontend is; the words are kube-proxy's."""

    CLUSTER_IP = "cluster IP"
    EXTERNAL_IP = "external IP"
    LOAD_BALANCER = "loadbalancer IP"
    NODE_PORT = "node port"


class Reason(enum.Enum):
    """Why something in an object was left out. `Problem.text` has the details."""

    BAD_ADDRESS = "BadAddress"
    BAD_PORT = "BadPort"
    BAD_PROTOCOL = "BadProtocol"
    BAD_SOURCE_RANGE = "BadSourceRange"
    NO_ADDRESS = "EndpointWithoutAddress"
    MIXED_FAMILY = "MixedFamily"
    DUPLICATE = "Duplicate"
    PORT_MISMATCH = "PortMismatch"
    TOO_MANY_BACKENDS = "TooManyBackends"
    CONFLICT = "Conflict"
    NOT_SUPPORTED = "NotSupported"  # by the proxy mode in use


class Problem(NamedTuple):
    reason: Reason
    text: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.text}"


class Backend(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where connections go. `address` is canonical text; `node` and `zone` are "" when the slice does not tell."""

    address: str
    port: int
    node: str = ""
    zone: str = ""
    is_local: bool = False


class FrontendKey(NamedTuple):
    """What a connection is addressed to. `address` is `ANY_LOCAL[family]` for a node port."""

    address: str
    protocol: str  # tcp, udp, sctp
    port: int

    @property
    def family(self) -> Family:
        return 6 if ":" in self.address else 4

    @property
    def is_node_port(self) -> bool:
        return self.address in ("0.0.0.0", "::")

    def __str__(self) -> str:
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{address}:{self.port}/{self.protocol}"


class Frontend(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One address, protocol and port that this node answers for.

    `inside`, when it is not None, replaces `backends` for connections from the cluster's pods and from the node itself;
    those are then masqueraded only when they come from the node. It exists for `externalTrafficPolicy: Local`.
    The order of backends carries no meaning but is kept, so that a renderer can number them.
    `published_as` and `is_local` (a traffic policy Local chose `backends`) decide nothing; modes name things by them.
    """

    key: FrontendKey
    owner: str  # namespace/name:port
    backends: tuple[Backend, ...] = ()
    inside: tuple[Backend, ...] | None = None
    when_empty: Verdict = Verdict.REJECT
    source_nat: SourceNat = SourceNat.HAIRPIN
    affinity_seconds: int | None = None
    source_ranges: tuple[str, ...] | None = None  # canonical CIDRs; None allows everybody, () nobody
    published_as: Publication = Publication.CLUSTER_IP
    is_local: bool = False


class ServiceFrontends(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything one Service asks of this node.

    `cluster_ips` are refused on every port that no Frontend answers. `age` orders Services by creation, oldest first.
    """

    service: ObjectKey
    age: tuple[str, str, str] = ("", "", "")
    frontends: tuple[Frontend, ...] = ()
    cluster_ips: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What compiling needs to know of this node. `families` are those it has addresses or pods of."""

    name: str
    zone: str = ""
    families: tuple[Family, ...] = (4,)
    cluster_cidrs: tuple[str, ...] = ()  # where pods live; empty: nothing is known to be outside
    masquerade_all: bool = False


def compile_service(service: Service, slices: Iterable[EndpointSlice], node: NodeFacts) -> ServiceFrontends:
    """The Frontends of `service` on `node`. `slices` are all of the Service's, in any order."""
    meta = service.metadata
    key = service.key
    age = (meta.creation_timestamp or "~", meta.namespace, meta.name)  # without a timestamp: after all others
    if not is_proxied(service):
        return ServiceFrontends(service=key, age=age)
    problems: list[Problem] = []
    cluster_ips = _addresses("clusterIPs", service.spec.cluster_ips or (service.spec.cluster_ip,), node, problems)
    endpoints = _Endpoints(slices, node, problems)
    frontends: dict[FrontendKey, Frontend] = {}
    for port in service.spec.ports:
        reason = _check_port(port)
        if reason is not None:
            problems.append(reason)
            continue
        for frontend in _compile_port(service, port, cluster_ips, endpoints, node, problems):
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


def is_proxied(service: Service) -> bool:
    """Whether the Service is ours: it has a cluster IP, is no ExternalName, and no other proxy is named for it."""
    spec = service.spec
    address = spec.cluster_ips[0] if spec.cluster_ips else spec.cluster_ip
    return (
        address not in ("", "None") and spec.type != "ExternalName" and PROXY_NAME_LABEL not in service.metadata.labels
    )


def _compile_port(
    service: Service,
    port: ServicePort,
    cluster_ips: Sequence[str],
    endpoints: _Endpoints,
    node: NodeFacts,
    problems: list[Problem],
) -> Iterable[Frontend]:
    """The Frontends of one port: for each cluster IP, external IP, load-balancer IP, and one for its node port."""
    spec = service.spec
    protocol = port.protocol.lower()
    owner = f"{service.metadata.namespace}/{service.metadata.name}:{port.name}"
    affinity = _affinity_seconds(service)
    external_ips = _addresses("externalIPs", spec.external_ips, node, problems)
    balancer_ips = _balancer_ips(service, node, problems)
    node_port = port.node_port if spec.type in ("NodePort", "LoadBalancer") else 0
    is_published = bool(external_ips or balancer_ips or node_port)
    internal_local = spec.internal_traffic_policy == "Local"
    external_local = spec.external_traffic_policy == "Local" and is_published
    for family in sorted({family_of(address) for address in cluster_ips}):  # the Service's families
        found = endpoints.get(family, port, problems)
        uses_cluster = not internal_local or is_published
        cluster = _cap(_cluster_wide(found, node), owner, problems) if uses_cluster else ()
        local = _cap(_local(found), owner, problems) if internal_local or external_local else ()
        # With backends elsewhere the connection is dropped, so that a client goes on to try another node.
        lacking_local = Verdict.DROP if any(e.is_usable for e in found) else Verdict.REJECT

        internal_nat = SourceNat.HAIRPIN
        if node.masquerade_all:
            internal_nat = SourceNat.ALWAYS
        elif any(family_of(cidr) == family for cidr in node.cluster_cidrs):
            internal_nat = SourceNat.OUTSIDE
        for address in cluster_ips:
            if family_of(address) == family:
                yield Frontend(
                    key=FrontendKey(address, protocol, port.port),
                    owner=owner,
                    backends=local if internal_local else cluster,
                    when_empty=lacking_local if internal_local else Verdict.REJECT,
                    source_nat=internal_nat,
                    affinity_seconds=affinity,
                    is_local=internal_local,
                )

        published = [
            *((address, port.port, Publication.EXTERNAL_IP) for address in external_ips),
            *((address, port.port, Publication.LOAD_BALANCER) for address in balancer_ips),
        ]
        if node_port:
            published.append((ANY_LOCAL[family], node_port, Publication.NODE_PORT))
        for address, number, kind in published:
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
                source_ranges=_source_ranges(service, family, problems) if address in balancer_ips else None,
                published_as=kind,
                is_local=external_local,
            )


# --- Endpoints -------------------------------------------------------------------------------------------


class _Candidate(msgspec.Struct, gc=False):
    """An endpoint before anything is decided."""

    backend: Backend
    is_ready: bool
    is_draining: bool  # terminating, but still serving
    nodes: tuple[str, ...] = ()  # hints
    zones: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        return self.is_ready or self.is_draining


class _Endpoints:
    """The slices of a Service by family and port."""

    def __init__(self, slices: Iterable[EndpointSlice], node: NodeFacts, problems: list[Problem]) -> None:
        self._by_port: dict[tuple[Family, str, str], dict[tuple[str, int], _Candidate]] = {}
        self._has_any: set[Family] = set()
        for slice_ in slices:
            family = {"IPv4": 4, "IPv6": 6}.get(slice_.address_type)
            if family not in node.families:
                continue
            ports = []
            for port in slice_.ports or ():
                protocol = port.protocol or "TCP"
                if port.port is None:
                    continue  # "all ports": nothing to translate to, as in kube-proxy
                if not 1 <= port.port <= 65535:
                    problems.append(Problem(Reason.BAD_PORT, f"{slice_.metadata.name}: port {port.port}"))
                    continue
                ports.append((self._by_port.setdefault((family, port.name or "", protocol), {}), port.port))
            for endpoint in slice_.endpoints:
                self._add(family, slice_.metadata.name, endpoint, ports, node, problems)

    def _add(
        self,
        family: Family,
        slice_name: str,
        endpoint: Endpoint,
        ports: list[tuple[dict[tuple[str, int], _Candidate], int]],
        node: NodeFacts,
        problems: list[Problem],
    ) -> None:
        if not endpoint.addresses:
            problems.append(Problem(Reason.NO_ADDRESS, f"{slice_name}: an endpoint has no address"))
            return
        # Only the first: all addresses of an endpoint lead to the same place (EndpointSlice API).
        address = canonical_address(endpoint.addresses[0])
        if address is None or not _is_backend_address(address):
            problems.append(Problem(Reason.BAD_ADDRESS, f"{slice_name}: endpoint {_shown(endpoint.addresses[0])}"))
            return
        if family_of(address) != family:
            problems.append(Problem(Reason.MIXED_FAMILY, f"{slice_name}: endpoint {address} is not IPv{family}"))
            return
        self._has_any.add(family)
        conditions, hints = endpoint.conditions, endpoint.hints
        is_ready = conditions.ready is not False
        is_draining = conditions.terminating is True and conditions.serving is not False
        name = endpoint.node_name or ""
        for candidates, port in ports:
            candidate = _Candidate(
                Backend(address, port, name, endpoint.zone or "", bool(name) and name == node.name),
                is_ready,
                is_draining,
                tuple(node.name for node in hints.for_nodes) if hints else (),
                tuple(zone.name for zone in hints.for_zones) if hints else (),
            )
            other = candidates.setdefault((address, port), candidate)
            if other is not candidate and _preference(candidate) > _preference(other):
                candidates[address, port] = candidate

    def get(self, family: Family, port: ServicePort, problems: list[Problem]) -> Sequence[_Candidate]:
        """The endpoints of one Service port, in canonical order."""
        found = self._by_port.get((family, port.name, port.protocol))
        if found is None:
            if family in self._has_any:
                problems.append(
                    Problem(Reason.PORT_MISMATCH, f"no endpoint has a port {_shown(port.name)}/{port.protocol}")
                )
            return ()
        return sorted(found.values(), key=_order)


def _order(candidate: _Candidate) -> tuple[str, int]:
    return candidate.backend.address, candidate.backend.port


def _preference(candidate: _Candidate) -> tuple[bool, bool, Backend, tuple[str, ...], tuple[str, ...]]:
    """Of two endpoints with one address, which counts. A pod moves from slice to slice, so both may be seen."""
    return candidate.is_ready, candidate.is_draining, candidate.backend, candidate.nodes, candidate.zones


def _cluster_wide(found: Sequence[_Candidate], node: NodeFacts) -> tuple[Backend, ...]:
    """The backends of policy Cluster: the ready ones that topology allows, else those that still serve."""
    ready = [candidate for candidate in found if candidate.is_ready]
    if not ready:
        return tuple(candidate.backend for candidate in found if candidate.is_draining)
    # Hints count only when every ready endpoint has them and one of them is for here (kube-proxy; KEP-2433, KEP-3015).
    if all(c.nodes for c in ready) and any(node.name in c.nodes for c in ready):
        ready = [c for c in ready if node.name in c.nodes]
    elif node.zone and all(c.zones for c in ready) and any(node.zone in c.zones for c in ready):
        ready = [c for c in ready if node.zone in c.zones]
    return tuple(candidate.backend for candidate in ready)


def _local(found: Sequence[_Candidate]) -> tuple[Backend, ...]:
    """The backends of policy Local: on this node and ready, else those here that still serve."""
    here = [candidate for candidate in found if candidate.backend.is_local]
    return tuple(c.backend for c in here if c.is_ready) or tuple(c.backend for c in here if c.is_draining)


def _cap(backends: tuple[Backend, ...], owner: str, problems: list[Problem]) -> tuple[Backend, ...]:
    if len(backends) > MAX_BACKENDS:
        problems.append(Problem(Reason.TOO_MANY_BACKENDS, f"{_shown(owner)}: only {MAX_BACKENDS} are used"))
    return backends[:MAX_BACKENDS]


# --- Fields of a Service ---------------------------------------------------------------------------------


def _check_port(port: ServicePort) -> Problem | None:
    if port.protocol not in ("TCP", "UDP", "SCTP"):
        return Problem(Reason.BAD_PROTOCOL, f"port {_shown(port.name)}: {_shown(port.protocol)}")
    if not 1 <= port.port <= 65535:
        return Problem(Reason.BAD_PORT, f"port {_shown(port.name)}: {port.port}")
    if not 0 <= port.node_port <= 65535:
        return Problem(Reason.BAD_PORT, f"port {_shown(port.name)}: node port {port.node_port}")
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
            problems.append(Problem(Reason.BAD_ADDRESS, f"{field}: {_shown(text)}"))
        elif family_of(address) in node.families:
            found[address] = None
    return tuple(found)


def _balancer_ips(service: Service, node: NodeFacts, problems: list[Problem]) -> tuple[str, ...]:
    """The load-balancer addresses whose packets arrive here untranslated (ipMode VIP, KEP-1860)."""
    if service.spec.type != "LoadBalancer":
        return ()
    ingress = service.status.load_balancer.ingress
    texts = [entry.ip for entry in ingress if entry.ip and entry.ip_mode in (None, "VIP")]
    return _addresses("status.loadBalancer.ingress", texts, node, problems)


def _source_ranges(service: Service, family: Family, problems: list[Problem]) -> tuple[str, ...] | None:
    """Who may use the load-balancer addresses. With ranges of the other family only, nobody may, as in kube-proxy."""
    if not service.spec.load_balancer_source_ranges:
        return None
    found = set()
    for text in service.spec.load_balancer_source_ranges:
        cidr = canonical_cidr(text.strip())
        if cidr is None:
            problems.append(Problem(Reason.BAD_SOURCE_RANGE, f"loadBalancerSourceRanges: {_shown(text)}"))
        elif family_of(cidr) == family:
            found.add(cidr)
    return tuple(str(n) for n in ipaddress.collapse_addresses(map(ipaddress.ip_network, sorted(found))))  # type: ignore[type-var]


# --- Addresses -------------------------------------------------------------------------------------------

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_match_ipv4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}").fullmatch


def canonical_address(text: str) -> str | None:
    """The one spelling of an address, or None when it is none. Zones and IPv4 addresses in IPv6 dress are refused."""
    if _match_ipv4(text):  # already canonical, and by far the most common
        return text
    if ":" not in text or "%" in text:
        return None
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return None if address.ipv4_mapped is not None or 0xFFFF < int(address) <= 0xFFFFFFFF else address.compressed


def canonical_cidr(text: str) -> str | None:
    """The one spelling of a range (host bits cleared), or None when it is none."""
    base = canonical_address(text.partition("/")[0])
    if base is None or "/" not in text:
        return None
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return None


def family_of(text: str) -> Family:
    """The family of a canonical address or range."""
    return 6 if ":" in text else 4


def _is_backend_address(address: str) -> bool:
    """Whether a packet could be sent there at all: the unspecified address and multicast lead nowhere."""
    if ":" in address:
        return address != "::" and not address.startswith("ff")
    return not address.startswith("0.") and int(address.partition(".")[0]) < 224


def _shown(text: str) -> str:
    """A foreign text, fit for one log line."""
    return repr(text if len(text) <= 80 else text[:77] + "...")
