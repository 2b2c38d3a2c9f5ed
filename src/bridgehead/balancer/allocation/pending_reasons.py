"""Reasons why a Service has no address, or why no node announces the one that it has.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from bridgehead.balancer.errors import BalancerError
from bridgehead.balancer.ranges import IpAddress


class PendingReason(StrEnum):
    """Reason of the condition of a Service that waits for an address, or whose address no node announces."""

    NO_POOL = "NoPool"  # no pool is for such a Service
    POOL_FULL = "PoolFull"  # no free address
    NOT_ALLOWED = "NotAllowed"  # the pool is for other namespaces or Services
    UNKNOWN_POOL = "UnknownPool"  # the Service names a pool that does not exist
    OUTSIDE_POOLS = "OutsidePools"  # the Service names an address that no pool contains
    ADDRESS_IN_USE = "AddressInUse"  # by Services that do not share it with this one
    PORT_IN_USE = "PortInUse"  # another Service uses the port of the shared address
    INVALID_REQUEST = "InvalidRequest"  # annotations or spec contradict each other
    INVALID_CONFIGURATION = "InvalidConfiguration"  # and there was no valid one since the start
    WRONG_CLASS = "WrongClass"  # spec.loadBalancerClass is that of another implementation
    NO_ADVERTISEMENT = "NoAdvertisement"  # none is for the Service
    NO_ENDPOINTS = "NoEndpoints"  # that a node which may announce could lead to
    NO_NODE = "NoNode"  # no node may announce
    NO_PEER = "NoPeer"  # only BGP would announce, and has no peer


# Reasons of Services that have an address.
UNANNOUNCED_REASONS = frozenset(
    {PendingReason.NO_ADVERTISEMENT, PendingReason.NO_ENDPOINTS, PendingReason.NO_NODE, PendingReason.NO_PEER}
)


class NotAllocated(BalancerError):
    """No address for a Service. The text is MetalLB's where MetalLB has one.

    `detail`: the state of the pools that explains the text; "" if the text is enough.
    """

    def __init__(self, reason: PendingReason, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.detail = detail


def quote_addresses(addresses: Iterable[IpAddress]) -> str:
    """Return `["10.0.0.1" "fd00::1"]`, as Go's %q writes a list."""
    return "[" + " ".join(f'"{address}"' for address in addresses) + "]"
