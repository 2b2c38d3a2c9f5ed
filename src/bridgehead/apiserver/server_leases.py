"""Leases of the API servers of one store: which of them are alive.

Pure: no I/O, no clock, no randomness. Source: Leases of pkg/controlplane/reconcilers/lease.go, whose leases are keys
`masterleases/IP` of etcd.
"""

from __future__ import annotations

from typing import Protocol

# A server renews its lease every INTERVAL_SECONDS; it counts as alive for LEASE_SECONDS after that.
LEASE_SECONDS = 15
INTERVAL_SECONDS = 10.0


class ServerLeases(Protocol):
    """Where API servers show each other that they live. Each method raises StorageError."""

    async def renew(self, address: str, seconds: int) -> None:
        """Make the server with an IP address count as alive for so many seconds from now."""

    async def alive(self) -> set[str]:
        """Return the IP addresses of the servers whose leases have not ended."""

    async def remove(self, address: str) -> None:
        """End the lease of a server, if it has one."""


class OnlyServer:
    """The leases of a store that one process has open: its server is the only one, and alive."""

    def __init__(self) -> None:
        self._addresses: set[str] = set()

    async def renew(self, address: str, seconds: int) -> None:
        self._addresses.add(address)

    async def alive(self) -> set[str]:
        return set(self._addresses)

    async def remove(self, address: str) -> None:
        self._addresses.discard(address)
