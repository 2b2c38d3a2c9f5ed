"""Select the backends of a Service on this node from its EndpointSlices.

`service_frontends.py` calls it for each Service that changed. Readiness, termination, topology hints and traffic
policies are decided here. `publishNotReadyAddresses` is not read: the controller that writes the slices translates it
to `ready`.

Pure: no I/O, no clock, no randomness. Total: any slice has a result, and `problems` names what was invalid in it.
Spec: Kubernetes v1.36 "EndpointSlices", "Topology Aware Routing", KEP-1669 (terminating endpoints), and the behaviour
of kube-proxy (`pkg/proxy/topology.go`) where those are silent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bridgehead.objects.core import ServicePort
from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice

from .address_texts import Family, canonical_address, family_of
from .frontends import Backend, NodeFacts, Problem, Reason, quote


class Candidate(msgspec.Struct, gc=False):
    """A valid endpoint of a port, before topology and traffic policies select backends."""

    backend: Backend
    is_ready: bool
    is_draining: bool  # terminating, but still serving
    nodes: tuple[str, ...] = ()  # hints
    zones: tuple[str, ...] = ()

    @property
    def is_usable(self) -> bool:
        return self.is_ready or self.is_draining


_Candidates = dict[tuple[str, int], Candidate]  # by address and port


class _ParsedSlice(NamedTuple):
    """A parsed slice. `ports`: name, protocol and endpoints of each port. `has_any`: has a valid endpoint."""

    family: Family
    ports: tuple[tuple[str, str, _Candidates], ...]
    has_any: bool
    problems: tuple[Problem, ...]


def _parse_slice(slice_: EndpointSlice, node: NodeFacts) -> _ParsedSlice | None:
    """Parse a slice. None: this node lacks the slice's family."""
    family = {"IPv4": 4, "IPv6": 6}.get(slice_.address_type)
    if family is None or family not in node.families:
        return None
    problems: list[Problem] = []
    by_name: dict[tuple[str, str], _Candidates] = {}
    ports = []
    for port in slice_.ports or ():
        if port.port is None:
            continue  # "all ports": no port to translate to, as in kube-proxy
        if not 1 <= port.port <= 65535:
            problems.append(Problem(Reason.BAD_PORT, f"{slice_.metadata.name}: port {port.port}"))
            continue
        ports.append((by_name.setdefault(port.key, {}), port.port))
    usable = 0
    for endpoint in slice_.endpoints:
        usable += _parse_endpoint(endpoint, family, slice_.metadata.name, node.name, ports, problems)
    if any(len(candidates) < usable for candidates in by_name.values()):
        text = f"{slice_.metadata.name}: endpoint {_first_duplicate(slice_)} is there twice"
        problems.append(Problem(Reason.DUPLICATE, text))
    found = tuple((name, protocol, candidates) for (name, protocol), candidates in by_name.items())
    return _ParsedSlice(family, found, usable > 0, tuple(problems))


def _first_duplicate(slice_: EndpointSlice) -> str:
    """Return the first canonical address that several endpoints of the slice have."""
    seen = set()
    for endpoint in slice_.endpoints:
        address = canonical_address(endpoint.first_address or "")
        if address in seen:
            return address or ""
        if address is not None:
            seen.add(address)
    return ""


def _parse_endpoint(
    endpoint: Endpoint,
    family: Family,
    slice_name: str,
    node_name: str,
    ports: Sequence[tuple[_Candidates, int]],
    problems: list[Problem],
) -> bool:
    """Add the endpoint to the candidates of each port. False: the endpoint is invalid."""
    first = endpoint.first_address
    if first is None:
        problems.append(Problem(Reason.NO_ADDRESS, f"{slice_name}: an endpoint has no address"))
        return False
    address = canonical_address(first)
    if address is None or not _is_backend_address(address):
        problems.append(Problem(Reason.BAD_ADDRESS, f"{slice_name}: endpoint {quote(first)}"))
        return False
    if family_of(address) != family:
        problems.append(Problem(Reason.MIXED_FAMILY, f"{slice_name}: endpoint {address} is not IPv{family}"))
        return False
    conditions = endpoint.conditions
    is_ready, is_draining = conditions.is_ready, conditions.is_draining
    # Most endpoints have no hints. The check saves two calls for each of maybe 100,000 endpoints.
    nodes, zones = (endpoint.hinted_nodes, endpoint.hinted_zones) if endpoint.hints is not None else ((), ())
    name = endpoint.node_name or ""
    for candidates, port in ports:
        candidate = Candidate(
            Backend(address, port, name, endpoint.zone or "", bool(name) and name == node_name),
            is_ready,
            is_draining,
            nodes,
            zones,
        )
        _add(candidates, (address, port), candidate)
    return True


def _add(candidates: _Candidates, key: tuple[str, int], candidate: Candidate) -> None:
    """Add a candidate. The preferred one of two with one address stays."""
    other = candidates.setdefault(key, candidate)
    if other is not candidate and _preference(candidate) > _preference(other):
        candidates[key] = candidate


class _ById:
    """A slice as a cache key by identity: objects read from the API are never changed."""

    __slots__ = ("slice",)

    def __init__(self, slice_: EndpointSlice) -> None:
        self.slice = slice_

    def __hash__(self) -> int:
        return id(self.slice)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.slice is other.slice


@lru_cache(maxsize=256)
def _parse_cached(slice_: _ById, node: NodeFacts) -> _ParsedSlice | None:
    return _parse_slice(slice_.slice, node)


_MANY_SLICES = 4  # from this many slices on, caching the unchanged ones is worth the memory


class ServiceEndpoints:
    """The candidates of a Service by family and port."""

    def __init__(self, slices: Iterable[EndpointSlice], node: NodeFacts, problems: list[Problem]) -> None:
        self._by_port: dict[tuple[Family, str, str], list[_Candidates]] = {}
        self._has_any: set[Family] = set()
        slices = tuple(slices)
        for slice_ in slices:
            is_cached = len(slices) >= _MANY_SLICES
            parsed = _parse_cached(_ById(slice_), node) if is_cached else _parse_slice(slice_, node)
            if parsed is None:
                continue
            problems.extend(parsed.problems)
            if parsed.has_any:
                self._has_any.add(parsed.family)
            for name, protocol, candidates in parsed.ports:
                self._by_port.setdefault((parsed.family, name, protocol), []).append(candidates)

    def get(self, family: Family, port: ServicePort, problems: list[Problem]) -> Sequence[Candidate]:
        """Return the endpoints of one Service port, in canonical order."""
        found = self._by_port.get((family, port.name, port.protocol))
        if found is None:
            if family in self._has_any:
                name = f"a port {quote(port.name)}" if port.name else "the port without a name"
                problems.append(Problem(Reason.PORT_MISMATCH, f"no endpoint has {name}/{port.protocol}"))
            return ()
        candidates = found[0] if len(found) == 1 else _merge(found)
        return list(map(candidates.__getitem__, sorted(candidates)))


def _merge(found: Sequence[_Candidates]) -> _Candidates:
    merged: _Candidates = {}
    for candidates in found:
        merged.update(candidates)
    if len(merged) != sum(map(len, found)):  # some endpoints are in several slices
        merged = {}
        for candidates in found:
            for key, candidate in candidates.items():
                _add(merged, key, candidate)
    return merged


def _preference(candidate: Candidate) -> tuple[bool, bool, Backend, tuple[str, ...], tuple[str, ...]]:
    """Return the rank among candidates with one address: a pod that moves from slice to slice may be in both."""
    return candidate.is_ready, candidate.is_draining, candidate.backend, candidate.nodes, candidate.zones


_BACKEND = attrgetter("backend")


def cluster_wide_backends(found: Sequence[Candidate], node: NodeFacts) -> tuple[Backend, ...]:
    """Return the backends of policy Cluster: the ready ones that topology allows, else the draining ones."""
    ready = [candidate for candidate in found if candidate.is_ready]
    if not ready:
        return tuple(candidate.backend for candidate in found if candidate.is_draining)
    # Hints apply only if every ready endpoint has them and one is for this node or zone (kube-proxy; KEP-2433,
    # KEP-3015).
    if all(c.nodes for c in ready) and any(node.name in c.nodes for c in ready):
        ready = [c for c in ready if node.name in c.nodes]
    elif node.zone and all(c.zones for c in ready) and any(node.zone in c.zones for c in ready):
        ready = [c for c in ready if node.zone in c.zones]
    return tuple(map(_BACKEND, ready))


def local_backends(found: Sequence[Candidate]) -> tuple[Backend, ...]:
    """Return the backends of policy Local: the ready ones on this node, else the draining ones on this node."""
    local = [candidate for candidate in found if candidate.backend.is_local]
    return tuple(c.backend for c in local if c.is_ready) or tuple(c.backend for c in local if c.is_draining)


def _is_backend_address(address: str) -> bool:
    """Return whether packets can be sent to an address: not to the unspecified one, nor to multicast."""
    if ":" in address:
        return address != "::" and not address.startswith("ff")
    return not address.startswith("0.") and int(address.partition(".")[0]) < 224
