"""The endpoints in the EndpointSlices of a Service, by the ports of the Service.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet

from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice
from bridgehead.proxy.address_texts import AddressPort, canonical_address

from .reasons import ServicePort


class SliceEndpoints:
    """The endpoints in a Service's slices, by port. Read lazily: there may be thousands."""

    def __init__(self, slices: Iterable[EndpointSlice]) -> None:
        self._slices = tuple(slices)
        self._has_terminating: bool | None = None

    def serving(self, port: ServicePort) -> frozenset[AddressPort]:
        return frozenset(self._find(port, _is_serving))

    def terminating(self, port: ServicePort) -> frozenset[AddressPort]:
        if self._has_terminating is None:
            self._has_terminating = any(e.conditions.is_terminating for s in self._slices for e in s.endpoints)
        return frozenset(self._find(port, _is_terminating)) if self._has_terminating else frozenset()

    def absent(self, port: ServicePort, endpoints: AbstractSet[AddressPort]) -> frozenset[AddressPort]:
        """Return the endpoints that are in no slice, whatever their conditions."""
        addresses = {address for address, _ in endpoints}
        return frozenset(endpoints) - set(self._find(port, lambda _, address: address in addresses))

    def _find(self, port: ServicePort, is_wanted: Callable[[Endpoint, str], bool]) -> Iterator[AddressPort]:
        name, protocol = port.owner.rpartition(":")[2], port.protocol.upper()
        address_type = f"IPv{port.family}"
        for slice_ in self._slices:
            numbers = [
                p.port for p in slice_.ports or () if slice_.address_type == address_type
                and p.port is not None and p.key == (name, protocol)
            ]  # fmt: skip
            for endpoint in slice_.endpoints if numbers else ():
                address = endpoint.first_address
                if address is None:
                    continue
                if ":" in address:  # IPv4 addresses are canonical or invalid
                    address = canonical_address(address) or ""
                if is_wanted(endpoint, address):
                    for number in numbers:
                        yield address, number


def _is_serving(endpoint: Endpoint, _: str) -> bool:
    return endpoint.conditions.is_usable


def _is_terminating(endpoint: Endpoint, _: str) -> bool:
    return endpoint.conditions.is_terminating
