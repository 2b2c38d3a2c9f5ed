"""Addresses and node ports that two owners have at once.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from bridgehead.objects.core import Pod, Service


class Allocations:
    """Looks at one list after the other; each is one moment of the API server's."""

    def __init__(self) -> None:
        self.given_twice: set[str] = set()
        self.changed: set[str] = set()
        self._service_addresses: dict[str, tuple[str, ...]] = {}
        self._pods_before: set[str] = set()

    def observe_services(self, services: Iterable[Service]) -> None:
        """A Service's addresses are its own, and stay the same for its life."""
        owners: dict[str, str] = {}
        for service in services:
            addresses = tuple(_service_addresses(service))
            self.given_twice |= _claim(owners, addresses, str(service.key))
            before = self._service_addresses.setdefault(service.metadata.uid, addresses)
            if before[0:1] != addresses[0:1]:
                self.changed.add(f"{service.key}: cluster IP {before[0:1]} became {addresses[0:1]}")

    def observe_pods(self, pods: Iterable[Pod]) -> None:
        """A pod's address is its own until the pod has ended; pods of the host network share their node's.

        Statuses are late: when a node's containers are started anew they get new addresses one by one, and a kubelet
        writes one status after the other. Therefore only an address that two successive lists show twice counts.
        """
        owners: dict[str, str] = {}
        found: set[str] = set()
        for pod in pods:
            if pod.spec.host_network or pod.status.phase in ("Succeeded", "Failed"):
                continue
            found |= _claim(owners, {entry.ip for entry in pod.status.pod_ips if entry.ip}, str(pod.key))
        self.given_twice |= found & self._pods_before
        self._pods_before = found


def _claim(owners: dict[str, str], addresses: Iterable[str], owner: str) -> set[str]:
    """Enter the owner of addresses; the result names those that another one has."""
    others = {address: owners.setdefault(address, owner) for address in addresses}
    return {f"{address}: {other} and {owner}" for address, other in others.items() if other != owner}


def _service_addresses(service: Service) -> Iterator[str]:
    spec = service.spec
    yield from (address for address in spec.cluster_ips if address != "None")
    yield from (f"nodePort {port.node_port}/{port.protocol}" for port in spec.ports if port.node_port)
    if spec.health_check_node_port:
        yield f"nodePort {spec.health_check_node_port}/TCP"
