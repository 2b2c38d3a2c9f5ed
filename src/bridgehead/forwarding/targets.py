"""The addresses that lead to a port of a Service for a client on the nodes' local network.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, NamedTuple, get_args

from bridgehead.objects.core.nodes import Node
from bridgehead.objects.core.services import Service, ServicePort
from bridgehead.proxy.address_texts import AddressPort, canonical_address

# The routes into a cluster, the usual one first.
Route = Literal["load-balancer", "node-port", "external-ip", "cluster-ip"]
ROUTES: Final[tuple[Route, ...]] = get_args(Route)

_FAMILIES: Final = {4: "IPv4", 6: "IPv6"}


class Target(NamedTuple):
    """The route to a port of a Service; the addresses are tried one after the other."""

    route: Route
    addresses: tuple[AddressPort, ...]

    def __str__(self) -> str:
        shown = ", ".join(f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for address, port in self[1])
        return f"{self.route} {shown}"


class NoTarget(Exception):
    """No address leads to the Service, or to its port. The text is the reason."""


def find_ports(service: Service, number: int) -> list[ServicePort]:
    """Return the ports with this number, one for each protocol; 0: all ports. Raises NoTarget."""
    name, spec = f"service/{service.metadata.name}", service.spec
    if spec.type == "ExternalName":
        raise NoTarget(f"{name} has no address: its type is ExternalName, a DNS name for {spec.external_name}")
    if _cluster_ips(service) in ((), ("None",)):
        raise NoTarget(f"{name} has no address of its own, because it is headless; kubectl port-forward leads to a pod")
    found = [port for port in spec.ports if number in (0, port.port)]
    if not found:
        raise NoTarget(f"{name} has no port {number}; it has {', '.join(str(port.port) for port in spec.ports)}")
    usable = [port for port in found if port.protocol != "SCTP"]
    if not usable:
        raise NoTarget(f"{name} has no port of TCP or UDP{f' with the number {number}' if number else ''}")
    return usable


def find_target(service: Service, port: ServicePort, nodes: Iterable[Node], route: Route | None) -> Target:
    """Return the wanted route to a port, or the first one that there is. Raises NoTarget."""
    found = {
        "load-balancer": [(each.ip, port.port) for each in service.status.load_balancer.ingress if each.ip],
        "node-port": [(address, port.node_port) for address in _addresses(nodes, service)] if port.node_port else [],
        "external-ip": [(address, port.port) for address in service.spec.external_ips],
        "cluster-ip": [(address, port.port) for address in _cluster_ips(service)],
    }
    for candidate in (route,) if route else ROUTES:
        if targets := _canonical(found[candidate]):
            return Target(candidate, targets)
    raise NoTarget(f"service/{service.metadata.name} has no {route or 'address'}, or no node is ready")


def find_node_port(port: int, nodes: Iterable[Node]) -> Target:
    """Return the node port at all ready nodes, whichever Service has it. Raises NoTarget."""
    targets = _canonical((node.internal_ips[0], port) for node in _ready(nodes) if node.internal_ips)
    if not targets:
        raise NoTarget("no node is ready")
    return Target("node-port", targets)


def _ready(nodes: Iterable[Node]) -> list[Node]:
    return sorted((node for node in nodes if node.is_ready), key=lambda node: node.metadata.name)


def _cluster_ips(service: Service) -> tuple[str, ...]:
    return service.spec.cluster_ips or ((service.spec.cluster_ip,) if service.spec.cluster_ip else ())


def _addresses(nodes: Iterable[Node], service: Service) -> Iterable[str]:
    """Return one address of each ready node, of a family that the Service has."""
    families = service.spec.ip_families
    for node in _ready(nodes):
        own = [ip for ip in node.internal_ips if not families or _FAMILIES[6 if ":" in ip else 4] in families]
        yield from own[:1]


def _canonical(targets: Iterable[AddressPort]) -> tuple[AddressPort, ...]:
    texts = ((canonical_address(address), port) for address, port in targets)
    return tuple((address, port) for address, port in texts if address)
