"""Which endpoints of a Service serve, seen from this node: what its EndpointSlices say, and whom it leads to.

Called by `services.py` for each Service that changed. Here is what Kubernetes says of readiness and termination, of
topology hints, and of the traffic policies' choice. Pure and total: what made no sense in a slice is named in
`problems`. Spec: Kubernetes v1.36 "EndpointSlices", "Topology Aware Routing", KEP-1669 (terminating endpoints), and the
behaviour of kube-proxy (`pkg/proxy/topology.go`) where those are silent. `publishNotReadyAddresses` is not looked at:
the controller that writes the slices has turned it into `ready`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

import msgspec

from bridgehead.objects.core import ServicePort
from bridgehead.objects.discovery import Endpoint, EndpointSlice

from .addresses import Family, canonical_address, family_of
from .frontends import Backend, NodeFacts, Problem, Reason, shown


class Candidate(msgspec.Struct, gc=False):
    """An endpoint before anything is decided."""

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
    """What a slice says to this node. `ports`: name and protocol of a port, and the endpoints that have it."""

    family: Family
    ports: tuple[tuple[str, str, _Candidates], ...]
    has_any: bool
    problems: tuple[Problem, ...]


def _parse_slice(slice_: EndpointSlice, node: NodeFacts) -> _ParsedSlice | None:
    """None for a slice of a family that this node lacks."""
    family = {"IPv4": 4, "IPv6": 6}.get(slice_.address_type)
    if family is None or family not in node.families:
        return None
    problems: list[Problem] = []
    by_name: dict[tuple[str, str], _Candidates] = {}
    ports = []
    for port in slice_.ports or ():
        if port.port is None:
            continue  # "all ports": nothing to translate to, as in kube-proxy
        if not 1 <= port.port <= 65535:
            problems.append(Problem(Reason.BAD_PORT, f"{slice_.metadata.name}: port {port.port}"))
            continue
        ports.append((by_name.setdefault((port.name or "", port.protocol or "TCP"), {}), port.port))
    usable = 0
    for endpoint in slice_.endpoints:
        usable += _parse_endpoint(endpoint, family, slice_.metadata.name, node.name, ports, problems)
    if any(len(candidates) < usable for candidates in by_name.values()):
        text = f"{slice_.metadata.name}: endpoint {_doubled(slice_)} is there twice"
        problems.append(Problem(Reason.DUPLICATE, text))
    found = tuple((name, protocol, candidates) for (name, protocol), candidates in by_name.items())
    return _ParsedSlice(family, found, usable > 0, tuple(problems))


def _doubled(slice_: EndpointSlice) -> str:
    """The first address, as it is used, that more than one endpoint of the slice has."""
    seen = set()
    for endpoint in slice_.endpoints:
        address = canonical_address(endpoint.addresses[0]) if endpoint.addresses else None
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
    """Put the endpoint among the candidates of each port. False when there is something wrong with it."""
    if not endpoint.addresses:
        problems.append(Problem(Reason.NO_ADDRESS, f"{slice_name}: an endpoint has no address"))
        return False
    # Only the first: all addresses of an endpoint lead to the same place (EndpointSlice API).
    address = canonical_address(endpoint.addresses[0])
    if address is None or not _is_backend_address(address):
        problems.append(Problem(Reason.BAD_ADDRESS, f"{slice_name}: endpoint {shown(endpoint.addresses[0])}"))
        return False
    if family_of(address) != family:
        problems.append(Problem(Reason.MIXED_FAMILY, f"{slice_name}: endpoint {address} is not IPv{family}"))
        return False
    is_ready, is_draining = endpoint.conditions.is_ready, endpoint.conditions.is_draining
    hints = endpoint.hints
    name = endpoint.node_name or ""
    for candidates, port in ports:
        candidate = Candidate(
            Backend(address, port, name, endpoint.zone or "", bool(name) and name == node_name),
            is_ready,
            is_draining,
            tuple(node.name for node in hints.for_nodes) if hints else (),
            tuple(zone.name for zone in hints.for_zones) if hints else (),
        )
        _add(candidates, (address, port), candidate)
    return True


def _add(candidates: _Candidates, key: tuple[str, int], candidate: Candidate) -> None:
    """Of two endpoints with one address, the better one counts."""
    other = candidates.setdefault(key, candidate)
    if other is not candidate and _preference(candidate) > _preference(other):
        candidates[key] = candidate


class _ById:
    """A slice as a key, for which being the same object is enough: what is read from the API is never changed."""

    __slots__ = ("slice",)

    def __init__(self, slice_: EndpointSlice) -> None:
        self.slice = slice_

    def __hash__(self) -> int:
        return id(self.slice)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ById) and self.slice is other.slice


@lru_cache(maxsize=256)
def _parse_remembered(slice_: _ById, node: NodeFacts) -> _ParsedSlice | None:
    return _parse_slice(slice_.slice, node)


_MANY_SLICES = 4  # from here on remembering what the others said is worth its memory


class ServiceEndpoints:
    """The slices of a Service by family and port."""

    def __init__(self, slices: Iterable[EndpointSlice], node: NodeFacts, problems: list[Problem]) -> None:
        self._by_port: dict[tuple[Family, str, str], list[_Candidates]] = {}
        self._has_any: set[Family] = set()
        slices = tuple(slices)
        for slice_ in slices:
            if len(slices) < _MANY_SLICES:
                parsed = _parse_slice(slice_, node)
            else:
                parsed = _parse_remembered(_ById(slice_), node)
            if parsed is None:
                continue
            problems.extend(parsed.problems)
            if parsed.has_any:
                self._has_any.add(parsed.family)
            for name, protocol, candidates in parsed.ports:
                self._by_port.setdefault((parsed.family, name, protocol), []).append(candidates)

    def get(self, family: Family, port: ServicePort, problems: list[Problem]) -> Sequence[Candidate]:
        """The endpoints of one Service port, in canonical order."""
        found = self._by_port.get((family, port.name, port.protocol))
        if found is None:
            if family in self._has_any:
                problems.append(
                    Problem(Reason.PORT_MISMATCH, f"no endpoint has a port {shown(port.name)}/{port.protocol}")
                )
            return ()
        candidates = found[0] if len(found) == 1 else _merge(found)
        return list(map(candidates.__getitem__, sorted(candidates)))


def _merge(found: Sequence[_Candidates]) -> _Candidates:
    merged: _Candidates = {}
    for candidates in found:
        merged.update(candidates)
    if len(merged) != sum(map(len, found)):  # some are in several slices
        merged = {}
        for candidates in found:
            for key, candidate in candidates.items():
                _add(merged, key, candidate)
    return merged


def _preference(candidate: Candidate) -> tuple[bool, bool, Backend, tuple[str, ...], tuple[str, ...]]:
    """Of two endpoints with one address, which counts. A pod moves from slice to slice, so both may be seen."""
    return candidate.is_ready, candidate.is_draining, candidate.backend, candidate.nodes, candidate.zones


_BACKEND = attrgetter("backend")


def cluster_wide_backends(found: Sequence[Candidate], node: NodeFacts) -> tuple[Backend, ...]:
    """The backends of policy Cluster: the ready ones that topology allows, else those that still serve."""
    ready = [candidate for candidate in found if candidate.is_ready]
    if not ready:
        return tuple(candidate.backend for candidate in found if candidate.is_draining)
    # Hints count only when every ready endpoint has them and one of them is for here (kube-proxy; KEP-2433, KEP-3015).
    if all(c.nodes for c in ready) and any(node.name in c.nodes for c in ready):
        ready = [c for c in ready if node.name in c.nodes]
    elif node.zone and all(c.zones for c in ready) and any(node.zone in c.zones for c in ready):
        ready = [c for c in ready if node.zone in c.zones]
    return tuple(map(_BACKEND, ready))


def local_backends(found: Sequence[Candidate]) -> tuple[Backend, ...]:
    """The backends of policy Local: on this node and ready, else those here that still serve."""
    here = [candidate for candidate in found if candidate.backend.is_local]
    return tuple(c.backend for c in here if c.is_ready) or tuple(c.backend for c in here if c.is_draining)


def _is_backend_address(address: str) -> bool:
    """Whether a packet could be sent there at all: the unspecified address and multicast lead nowhere."""
    if ":" in address:
        return address != "::" and not address.startswith("ff")
    return not address.startswith("0.") and int(address.partition(".")[0]) < 224
