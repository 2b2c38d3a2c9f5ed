"""Choosing ClusterIPs and node ports, and the claims that make a choice exclusive.

A range has two bands (KEP-3070, KEP-3668): who asks for no value in particular gets one at random from the upper band,
so that the lower one stays free for those who ask for, say, 10.96.0.10; the lower band serves once the upper is full.
Nothing is remembered here: what is taken is what the store says is claimed, so a restart has nothing to rebuild and
several API servers need not agree on anything. Called by `services.ServiceStrategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from random import Random

from bridgehead.apiserver.resource import FieldError, JsonObject

from . import field
from .addresses import IPV4, IPV6, parse_ip
from .service_transitions import is_headless, needs_cluster_ip, needs_health_check_port, needs_node_ports

IsClaimed = Callable[[str], bool]


def address_claim(address: str) -> str:
    """One spelling for one address: IPv6 has many."""
    parsed = parse_ip(address)
    return f"clusterip/{address if parsed is None else parsed}"


def port_claim(port: int) -> str:
    """A node port belongs to one Service, which may use it for TCP, UDP and SCTP."""
    return f"nodeport/{port}"


def claims_of(spec: JsonObject) -> frozenset[str]:
    """Everything a Service with this spec holds exclusively."""
    claims: set[str] = set()
    if needs_cluster_ip(spec) and not is_headless(spec):
        claims.update(address_claim(address) for address in spec.get("clusterIPs", ()))
    if needs_node_ports(spec):
        claims.update(port_claim(port["nodePort"]) for port in spec.get("ports", ()) if port.get("nodePort"))
    if needs_health_check_port(spec) and spec.get("healthCheckNodePort"):
        claims.add(port_claim(spec["healthCheckNodePort"]))
    return frozenset(claims)


def _candidates(first: int, last: int, reserved: int, random: Random) -> Iterator[int]:
    """Every value once: the upper band from a random place on, then the lower band likewise."""
    for low, high in ((first + reserved, last), (first, first + reserved - 1)):
        if low <= high:
            start = random.randint(low, high)
            yield from range(start, high + 1)
            yield from range(low, start)


def _band(size: int, least: int, most: int, step: int) -> int:
    """How many values at the beginning of a range are left to those who ask for one."""
    return 0 if size <= least else min(max(least, size // step), most)


class AddressRange:
    """The ClusterIPs of one family. Raises ValueError when `cidr` is no range or has no room."""

    def __init__(self, cidr: str) -> None:
        self._network: IPv4Network | IPv6Network = ip_network(cidr)
        self.family = IPV4 if self._network.version == 4 else IPV6
        self._first = int(self._network.network_address) + 1
        # IPv4 has a broadcast address at the end; an IPv6 range needs no more than 2^64 addresses.
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

    def choose(self, is_claimed: IsClaimed, random: Random) -> str | None:
        """A free address, or None when the range is full."""
        for number in _candidates(self._first, self._last, self._reserved, random):
            address = str(self._type(number))
            if not is_claimed(address_claim(address)):
                return address
        return None

    def refuse(self, address: str, is_claimed: IsClaimed) -> str:
        """Why `address` can't be had, or ""."""
        parsed = parse_ip(address)
        if parsed is None or not isinstance(parsed, self._type) or not self._first <= int(parsed) <= self._last:
            return f"the provided IP ({address}) is not in the valid range. The range of valid IPs is {self}"
        return "provided IP is already allocated" if is_claimed(address_claim(address)) else ""


class PortRange:
    """The node ports, `first` to `last`. Raises ValueError when that is no range of ports."""

    def __init__(self, first: int, last: int) -> None:
        if not 1 <= first <= last <= 65535:
            raise ValueError(f"{first}-{last} is no range of ports")
        self._first, self._last = first, last
        self._reserved = _band(last - first + 1, 16, 128, 32)

    def choose(self, is_claimed: IsClaimed, random: Random) -> int | None:
        """A free port, or None when the range is full."""
        for port in _candidates(self._first, self._last, self._reserved, random):
            if not is_claimed(port_claim(port)):
                return port
        return None

    def refuse(self, port: int, is_claimed: IsClaimed) -> str:
        """Why `port` can't be had, or ""."""
        if not self._first <= port <= self._last:
            return f"provided port is not in the valid range. The range of valid ports is {self._first}-{self._last}"
        return "provided port is already allocated" if is_claimed(port_claim(port)) else ""


def allocate_addresses(
    spec: JsonObject,
    old: JsonObject | None,
    ranges: dict[str, AddressRange],
    is_claimed: IsClaimed,
    random: Random,
) -> list[FieldError]:
    """Complete `clusterIP` and `clusterIPs`, one for each of `ipFamilies`. `is_claimed` knows only other Services."""
    if not needs_cluster_ip(spec) or is_headless(spec) or (old is not None and is_headless(old)):
        return []
    addresses: list[str] = list(spec.get("clusterIPs", ()))
    held = old.get("clusterIPs", ()) if old is not None and needs_cluster_ip(old) else ()
    if old is not None and held and addresses[:1] != held[:1]:
        return []  # the first address may not change: validation says so
    errors = []
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family not in ranges:
            continue  # a PreferDualStack Service of a cluster that has lost a family
        if index < len(addresses):
            if addresses[index] in held:
                continue  # it may be of a range that the cluster no longer has
            if reason := ranges[family].refuse(addresses[index], is_claimed):
                detail = f"failed to allocate IP {addresses[index]}: {reason}"
                errors.append(field.invalid("spec.clusterIPs", spec.get("clusterIPs"), detail))
            continue
        chosen = ranges[family].choose(is_claimed, random)
        if chosen is None:
            errors.append(field.internal("spec.clusterIPs", "failed to allocate a serviceIP: range is full"))
            continue
        addresses.append(chosen)
    if not errors and addresses:
        spec["clusterIPs"] = addresses
        spec["clusterIP"] = addresses[0]
    return errors


def allocate_ports(spec: JsonObject, ports: PortRange, is_claimed: IsClaimed, random: Random) -> list[FieldError]:
    """Complete the `nodePort`s and `healthCheckNodePort`. `is_claimed` knows only other Services."""
    if not needs_node_ports(spec):
        return []
    errors = []
    mine = {port["nodePort"] for port in spec.get("ports", ()) if port.get("nodePort")}
    mine.add(spec.get("healthCheckNodePort", 0))

    def is_taken(claim: str) -> bool:
        return is_claimed(claim) or claim in {port_claim(port) for port in mine}

    for index, port in enumerate(spec.get("ports", ())):
        if wanted := port.get("nodePort"):
            if reason := ports.refuse(wanted, is_claimed):
                errors.append(field.invalid(f"spec.ports[{index}].nodePort", wanted, reason))
        elif spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts", True):
            # The same port over TCP and over UDP, as DNS has, gets the same node port.
            twin = _node_port_of_twin(port, spec["ports"])
            chosen = twin or ports.choose(is_taken, random)
            if chosen is None:
                errors.append(field.internal("spec.ports", "failed to allocate a nodePort: range is full"))
                break
            port["nodePort"] = chosen
            mine.add(chosen)
    if needs_health_check_port(spec):
        errors.extend(_allocate_health_check_port(spec, ports, is_claimed, is_taken, random))
    return errors


def _node_port_of_twin(port: JsonObject, ports: list[JsonObject]) -> int:
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
        reason = ports.refuse(wanted, is_claimed)
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
