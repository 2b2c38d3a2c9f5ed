"""Addresses in use: by which Services, and who may share them.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/allocator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bridgehead.balancer.ranges import IpAddress
from bridgehead.objects.meta import ObjectKey

from .address_requests import Port, Request
from .pending_reasons import NotAllocated, PendingReason

# Key under which Services may share an address: the annotation's value, and the selector of local backends.
ShareKey = tuple[str, str]


@dataclass
class Use:
    """The users of one address."""

    ports: dict[Port, ObjectKey] = field(default_factory=dict)
    services: dict[ObjectKey, ShareKey] = field(default_factory=dict)


class AddressUsage:
    """The addresses in use, of whatever pool."""

    def __init__(self) -> None:
        self._uses: dict[tuple[int, int], Use] = {}
        self._shared: dict[ShareKey, set[tuple[int, int]]] = {}

    def is_used(self, version: int, number: int) -> bool:
        return (version, number) in self._uses

    def holders(self, version: int, number: int) -> list[ObjectKey]:
        """Return the Services to which the address is allocated, in the order of their allocation."""
        use = self._uses.get((version, number))
        return [] if use is None else list(use.services)

    def shareable(self, request: Request) -> list[tuple[int, int]]:
        """Return the addresses in use that the Service may share, by their keys and ports."""
        if not request.sharing_key:
            return []
        found = self._shared.get((request.sharing_key, request.backend_key), ())
        return [address for address in found if self._conflict(self._uses[address], request) is None]

    def check(self, address: IpAddress, request: Request) -> None:
        """Raise NotAllocated unless the Service may have the address: it is free, its own or shareable."""
        use = self._uses.get((address.version, int(address)))
        if use is None:
            return
        conflict = self._conflict(use, request)
        if conflict is not None:
            reason, text = conflict
            raise NotAllocated(reason, text.replace("%ADDRESS", str(address)))

    def _conflict(self, use: Use, request: Request) -> tuple[PendingReason, str] | None:
        others = {key: share for key, share in use.services.items() if key != request.key}
        share = (request.sharing_key, request.backend_key)
        if any(not request.sharing_key or other != share for other in others.values()):
            users = ",".join(str(key) for key in others)
            text = f'can\'t change sharing key for "{request.key}", address also in use by {users}'
            return PendingReason.ADDRESS_IN_USE, text
        for port in request.ports:
            if use.ports.get(port, request.key) != request.key:
                return PendingReason.PORT_IN_USE, f'port {port} is already in use on "%ADDRESS"'
        return None

    def add(self, address: IpAddress, request: Request) -> None:
        """Record that the Service holds the address. The caller has checked that it may."""
        number = (address.version, int(address))
        use = self._uses.setdefault(number, Use())
        share = (request.sharing_key, request.backend_key)
        use.services[request.key] = share
        for port in request.ports:
            use.ports[port] = request.key
        if request.sharing_key:
            self._shared.setdefault(share, set()).add(number)

    def remove(self, address: IpAddress, key: ObjectKey) -> bool:
        """Record that the Service does not hold the address any more; return whether nobody uses it now."""
        number = (address.version, int(address))
        use = self._uses[number]
        share = use.services.pop(key)
        use.ports = {port: holder for port, holder in use.ports.items() if holder != key}
        if share not in use.services.values():
            self._forget_share(share, number)
        if use.services:
            return False
        del self._uses[number]
        return True

    def _forget_share(self, share: ShareKey, number: tuple[int, int]) -> None:
        numbers = self._shared.get(share)
        if numbers is not None:
            numbers.discard(number)
            if not numbers:
                del self._shared[share]
