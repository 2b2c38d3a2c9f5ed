"""Allocation of ClusterIPs and node ports, and the claims that make them exclusive.

A range has two bands (KEP-3070, KEP-3668). A Service that asks for no value gets a random one from the upper band, so
that the lower band stays free for explicit values such as 10.96.0.10; when the upper band is full, the lower one is
used. There is no allocator state: a value is taken if the store has a claim on it. So a restart has nothing to rebuild,
and several API servers need no coordination. `service_ranges` has the ranges of the cluster. Called by
`services.ServiceStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_network
from itertools import islice
from random import Random
from typing import Protocol

from bridgehead.apiserver.resource import FieldError, JsonObject
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import IPV4, IPV6, parse_ip

from .service_transitions import is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports

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
        # The last address of an IPv4 range is the broadcast address. Of an IPv6 range at most 2^64 addresses are used.
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
    """The ranges of a cluster; see `service_ranges.ServiceRanges`."""

    families: tuple[str, ...]

    def choose(self, family: str, is_claimed: IsClaimed, random: Random) -> str | None: ...

    def reason_against(self, address: str, family: str, is_claimed: IsClaimed) -> str: ...


def allocate_addresses(
    spec: JsonObject,
    old: JsonObject | None,
    ranges: Ranges,
    is_claimed: IsClaimed,
    random: Random,
) -> list[FieldError]:
    """Complete `clusterIP` and `clusterIPs`, one for each of `ipFamilies`. `is_claimed` covers other Services only."""
    if not needs_cluster_ip(spec) or is_headless(spec) or (old is not None and is_headless(old)):
        return []
    addresses: list[str] = list(spec.get("clusterIPs", ()))
    held = old.get("clusterIPs", ()) if old is not None and needs_cluster_ip(old) else ()
    if old is not None and held and addresses[:1] != held[:1]:
        return []  # the first address may not change; validation reports it
    errors = []
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in ranges.families:
            continue  # a PreferDualStack Service in a cluster that no longer has this family
        if index < len(addresses):
            if addresses[index] in held:
                continue  # the old address may be in a range that the cluster no longer has
            if reason := ranges.reason_against(addresses[index], family, is_claimed):
                detail = f"failed to allocate IP {addresses[index]}: {reason}"
                errors.append(field.invalid("spec.clusterIPs", spec.get("clusterIPs"), detail))
            continue
        chosen = ranges.choose(family, is_claimed, random)
        if chosen is None:
            errors.append(field.internal("spec.clusterIPs", "failed to allocate a serviceIP: range is full"))
            continue
        addresses.append(chosen)
    if not errors and addresses:
        spec["clusterIPs"] = addresses
        spec["clusterIP"] = addresses[0]
    return errors


def allocate_ports(spec: JsonObject, ports: PortRange, is_claimed: IsClaimed, random: Random) -> list[FieldError]:
    """Complete the `nodePort`s and `healthCheckNodePort`. `is_claimed` covers other Services only."""
    if not needs_node_ports(spec):
        return []
    errors = []
    mine = {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
    mine.add(spec.get("healthCheckNodePort", 0))

    def is_taken(claim: str) -> bool:
        return is_claimed(claim) or claim in {port_claim(port) for port in mine}

    for index, port in enumerate(spec.get("ports", ())):
        if wanted := port.get("nodePort"):
            if reason := ports.reason_against(wanted, is_claimed):
                errors.append(field.invalid(f"spec.ports[{index}].nodePort", wanted, reason))
        elif spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True):
            # A port number with both TCP and UDP, as DNS has, gets the same node port for both.
            shared = _node_port_of_same_number(port, spec["ports"])
            chosen = shared or ports.choose(is_taken, random)
            if chosen is None:
                errors.append(field.internal("spec.ports", "failed to allocate a nodePort: range is full"))
                break
            port["nodePort"] = chosen
            mine.add(chosen)
    if needs_health_check_port(spec):
        errors.extend(_allocate_health_check_port(spec, ports, is_claimed, is_taken, random))
    return errors


def _node_port_of_same_number(port: JsonObject, ports: list[JsonObject]) -> int:
    protocols_of: dict[int, set[str]] = {}
    for other in ports:
        if other.get("nodePort"):
            protocols_of.setdefault(other["nodePort"], set()).add(other.get("protocol", "TCP"))
    for other in ports:
        node_port = other.get("nodePort", 0)
        if other.get("port") == port.get("port") and node_port:
            return int(node_port) if port.get("protocol", "TCP") not in protocols_of[node_port] else 0
    return 0


def _allocate_health_check_port(
    spec: JsonObject, ports: PortRange, is_claimed: IsClaimed, is_taken: IsClaimed, random: Random
) -> list[FieldError]:
    path = "spec.healthCheckNodePort"
    if wanted := spec.get("healthCheckNodePort"):
        reason = ports.reason_against(wanted, is_claimed)
        if not reason and any(port.get("nodePort") == wanted for port in spec.get("ports", ())):
            reason = "provided port is already allocated"
        if not reason:
            return []
        return [field.internal(path, f"failed to allocate requested HealthCheck NodePort {wanted}: {reason}")]
    chosen = ports.choose(is_taken, random)
    if chosen is None:
        return [field.internal(path, "failed to allocate a HealthCheck NodePort: range is full")]
    spec["healthCheckNodePort"] = chosen
    return []
