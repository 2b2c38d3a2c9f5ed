"""Allocation of ClusterIPs and node ports, and the claims that make them exclusive.

A range has two bands (KEP-3070, KEP-3668). A Service that asks for no value gets a random one from the upper band, so
that the lower band stays free for explicit values such as 10.96.0.10; when the upper band is full, the lower one is
used. There is no allocator state: a value is taken if the store has a claim on it. A restart therefore has nothing to
rebuild, and several API servers need no coordination. `cluster_ip_ranges` has the ranges of the cluster. Called by
`services.ServiceStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from itertools import islice
from random import Random
from typing import Protocol

from bridgehead.apiserver.errors import ApiStatus, internal_error
from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.resources.shared.address_rules import IPV4, IPV6, parse_ip

from .service_types import is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports

IsClaimed = Callable[[str], bool]


def address_claim(address: str) -> str:
    """Return the claim on an address, in canonical form: an IPv6 address has several spellings."""
    parsed = parse_ip(address) if ":" in address else None
    return f"clusterip/{address if parsed is None else parsed}"


def port_claim(port: int) -> str:
    """Return the claim on a node port, for TCP, UDP and SCTP alike: a node port belongs to one Service."""
    return f"nodeport/{port}"


def addresses_of(spec: JsonObject) -> Sequence[str]:
    """Return the ClusterIPs of a Service with this spec."""
    return spec.get("clusterIPs", ()) if needs_cluster_ip(spec) and not is_headless(spec) else ()


def claims_of(spec: JsonObject) -> frozenset[str]:
    """Return all claims of a Service with this spec."""
    claims: set[str] = {address_claim(address) for address in addresses_of(spec)}
    if needs_node_ports(spec):
        claims.update(port_claim(port["nodePort"]) for port in spec.get("ports", ()) if port.get("nodePort"))
    if needs_health_check_port(spec) and spec.get("healthCheckNodePort"):
        claims.add(port_claim(spec["healthCheckNodePort"]))
    return frozenset(claims)


def _candidates(first: int, last: int, reserved: int, random: Random) -> Iterator[int]:
    """Yield every value once: the upper band from a random start, then the lower band from a random start."""
    for low, high in ((first + reserved, last), (first, first + reserved - 1)):
        if low <= high:
            start = random.randint(low, high)
            yield from range(start, high + 1)
            yield from range(low, start)


def _band(size: int, least: int, most: int, step: int) -> int:
    """Return the size of the lower band, which is reserved for explicit values."""
    return 0 if size <= least else min(max(least, size // step), most)


def _ipv4_text(number: int) -> str:
    """Return `str(IPv4Address(number))`, in a fifth of the time."""
    return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


class AddressRange:
    """The ClusterIPs of one family. Raises ValueError when `cidr` is malformed or too small."""

    def __init__(self, cidr: str) -> None:
        self._network: IPv4Network | IPv6Network = ip_network(cidr)
        self.family = IPV4 if self._network.version == 4 else IPV6
        self._first = int(self._network.network_address) + 1
        # The last address of an IPv4 range is the broadcast address. At most 2^64 addresses of an IPv6 range are used.
        last = int(self._network.broadcast_address) - (1 if self.family == IPV4 else 0)
        self._last = min(last, self._first + 2**64)
        if self._last < self._first:
            raise ValueError(f"the range {cidr} has no room for Service addresses")
        self._reserved = _band(self._network.num_addresses, 16, 256, 16)
        self._type = type(self._network.network_address)

    def __str__(self) -> str:
        return str(self._network)

    def contains(self, address: str) -> bool:
        parsed = parse_ip(address)
        return parsed is not None and parsed in self._network

    def choose(self, is_claimed: IsClaimed, random: Random, tries: int | None = None) -> str | None:
        """Return a free address, or None when the range is full, or when `tries` addresses were not free."""
        for number in islice(_candidates(self._first, self._last, self._reserved, random), tries):
            address = _ipv4_text(number) if self.family == IPV4 else str(IPv6Address(number))
            if not is_claimed(address_claim(address)):
                return address
        return None

    def has_room_for(self, address: str) -> bool:
        """Whether a Service may have `address`: not the first of the range, nor the broadcast address."""
        parsed = parse_ip(address)
        return isinstance(parsed, self._type) and self._first <= int(parsed) <= self._last


class PortRange:
    """The node ports, `first` to `last`. Raises ValueError when these are not a range of ports."""

    def __init__(self, first: int, last: int) -> None:
        if not 1 <= first <= last <= 65535:
            raise ValueError(f"{first}-{last} is no range of ports")
        self._first, self._last = first, last
        self._reserved = _band(last - first + 1, 16, 128, 32)

    def choose(self, is_claimed: IsClaimed, random: Random) -> int | None:
        """Return a free port, or None when the range is full."""
        for port in _candidates(self._first, self._last, self._reserved, random):
            if not is_claimed(port_claim(port)):
                return port
        return None

    def reason_against(self, port: int, is_claimed: IsClaimed) -> str:
        """Return the reason why `port` is not available, or ""."""
        if not self._first <= port <= self._last:
            return f"provided port is not in the valid range. The range of valid ports is {self._first}-{self._last}"
        return "provided port is already allocated" if is_claimed(port_claim(port)) else ""


class Ranges(Protocol):
    """The ranges of a cluster; see `cluster_ip_ranges.ServiceRanges`."""

    families: tuple[str, ...]

    def choose(self, family: str, is_claimed: IsClaimed, random: Random) -> str | None: ...

    def reason_against(self, address: str, family: str, is_claimed: IsClaimed) -> str: ...


def allocate_addresses(
    spec: Field,
    old: JsonObject | None,
    ranges: Ranges,
    is_claimed: IsClaimed,
    random: Random,
) -> None:
    """Complete `clusterIP` and `clusterIPs`, one for each of `ipFamilies`. `is_claimed` covers other Services only.

    Adds only the first error, as Kubernetes. Raises a 500 for a full range.
    """
    if not needs_cluster_ip(spec.value) or is_headless(spec.value) or (old is not None and is_headless(old)):
        return
    addresses: list[str] = list(spec.get("clusterIPs", ()))
    held = old.get("clusterIPs", ()) if old is not None and needs_cluster_ip(old) else ()
    if old is not None and held and addresses[:1] != held[:1]:
        return  # the first address may not change; validation reports it
    families = spec.get("ipFamilies", ())
    for index, family in enumerate(families):
        if family not in ranges.families:
            continue  # a PreferDualStack Service in a cluster that no longer has this family
        if index < len(addresses):
            if addresses[index] in held:
                continue  # the old address may be in a range that the cluster no longer has
            if reason := ranges.reason_against(addresses[index], family, is_claimed):
                # Addresses that are still to be chosen are shown as empty texts.
                shown = addresses + [""] * (len(families) - len(addresses))
                detail = f"failed to allocate IP {addresses[index]}: {reason}"
                spec.at("clusterIPs").showing(shown).invalid(detail)
                return
            continue
        chosen = ranges.choose(family, is_claimed, random)
        if chosen is None:
            raise internal_error("failed to allocate a serviceIP: range is full")
        addresses.append(chosen)
    if addresses:
        spec.value |= {"clusterIPs": addresses, "clusterIP": addresses[0]}


def allocate_ports(
    spec: Field, old: JsonObject | None, ports: PortRange, is_claimed: IsClaimed, random: Random
) -> None:
    """Complete the `nodePort`s and `healthCheckNodePort`. `is_claimed` covers the Service's own present ports, too.

    Adds only the first error, as Kubernetes. Raises a 500 for a full range, a health check port that is not available,
    and a node port that an update gives to two ports.
    """
    allocation = _PortAllocation(spec.value, ports, is_claimed, random)
    if needs_node_ports(spec.value):
        if old is None:
            _allocate_new(spec, allocation)
        else:
            _allocate_changed(spec, old, allocation)
    needed_health_check_port = old is not None and needs_health_check_port(old)
    if not spec.errors and needs_health_check_port(spec.value) and not needed_health_check_port:
        _allocate_health_check_port(spec.value, allocation)


class _PortAllocation:
    """The node ports that one write takes."""

    def __init__(self, spec: JsonObject, ports: PortRange, is_claimed: IsClaimed, random: Random) -> None:
        self._ports = ports
        self._is_claimed = is_claimed
        self._random = random
        self._taken: set[str] = set()
        # The chosen port must not be one that the Service asks for elsewhere.
        wanted = [port.get("nodePort", 0) for port in spec.get("ports", ())] + [spec.get("healthCheckNodePort", 0)]
        self._wanted = {port_claim(port) for port in wanted}

    def reason_against(self, port: int) -> str:
        """Take a port, or return the reason why it is not available."""
        claim = port_claim(port)
        reason = self._ports.reason_against(port, lambda claim: claim in self._taken or self._is_claimed(claim))
        if not reason:
            self._taken.add(claim)
        return reason

    def take(self, port: Field, wanted: int) -> bool:
        """Take the node port that is wanted for a port, or add an error. Return whether it was available."""
        reason = self.reason_against(wanted)
        if reason:
            port.at("nodePort").showing(wanted).invalid(reason)
        return not reason

    def choose(self, what: str) -> int:
        """Take a free port. Raises a 500."""

        def is_taken(claim: str) -> bool:
            return claim in self._taken or claim in self._wanted or self._is_claimed(claim)

        chosen = self._ports.choose(is_taken, self._random)
        if chosen is None:
            raise internal_error(f"failed to allocate a {what}: range is full")
        self._taken.add(port_claim(chosen))
        return chosen


def _allocate_new(spec: Field, allocation: _PortAllocation) -> None:
    """Allocate the node ports of a new Service (`initNodePorts` in Kubernetes).

    A port number with several protocols, as DNS has, gets the same node port for all.
    """
    node_port_of: dict[int, int] = {}
    asked: dict[int, int] = {}  # the first node port that is asked for each number
    for port in spec.get("ports", ()):
        if port.get("nodePort", 0):
            asked.setdefault(port.get("port", 0), port["nodePort"])
    for port in spec.at("ports").each():
        number, wanted = port.get("port", 0), port.get("nodePort", 0)
        if not wanted and not _chooses_node_ports(spec.value):
            continue
        allocated = node_port_of.get(number, 0)
        if not allocated:
            wanted = asked.get(number, 0)
            if not wanted:
                wanted = allocation.choose("nodePort")
            elif not allocation.take(port, wanted):
                return
            port.value["nodePort"] = node_port_of[number] = wanted
        elif not wanted:
            port.value["nodePort"] = allocated
        elif wanted != allocated and not allocation.take(port, wanted):
            return


def _allocate_changed(spec: Field, old: JsonObject, allocation: _PortAllocation) -> None:
    """Allocate the node ports that an update adds (`updateNodePorts` in Kubernetes)."""
    known = {port.get("nodePort", 0) for port in old.get("ports", ())}
    seen: set[tuple[str, int]] = set()
    for port in spec.at("ports").each():
        wanted = port.get("nodePort", 0)
        if not wanted and not _chooses_node_ports(spec.value):
            continue
        if not wanted:
            wanted = port.value["nodePort"] = allocation.choose("nodePort")
        elif wanted not in known:
            if not allocation.take(port, wanted):
                return
            known.add(wanted)
        one = (port.get("protocol", ""), wanted)
        if one in seen:
            raise ApiStatus(500, "", f"duplicate nodePort: {{{one[0]} {one[1]}}}")
        seen.add(one)


def _chooses_node_ports(spec: JsonObject) -> bool:
    return spec.get("type") == "NodePort" or bool(spec.get("allocateLoadBalancerNodePorts", True))


def _allocate_health_check_port(spec: JsonObject, allocation: _PortAllocation) -> None:
    wanted = spec.get("healthCheckNodePort", 0)
    if not wanted:
        spec["healthCheckNodePort"] = allocation.choose("HealthCheck NodePort 0")
    elif reason := allocation.reason_against(wanted):
        raise internal_error(f"failed to allocate requested HealthCheck NodePort {wanted}: {reason}")
