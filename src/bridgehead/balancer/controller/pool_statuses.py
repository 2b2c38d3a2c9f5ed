"""Statuses of IPAddressPools and Eips.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bridgehead.balancer.allocation.pool_addresses import PoolAddresses
from bridgehead.balancer.ranges import IpAddress, address_of
from bridgehead.objects.meta import ObjectKey

_MAXIMUM = 2**63 - 1  # of a number in the API


def pool_status(space: PoolAddresses) -> dict[str, int]:
    """Return the status of an IPAddressPool."""
    free = {version: space.capacity(version) - space.in_use[version] for version in (4, 6)}
    return {
        "assignedIPv4": space.in_use[4],
        "assignedIPv6": space.in_use[6],
        "availableIPv4": free[4],
        "availableIPv6": min(free[6], _MAXIMUM),
    }


def idle_pool_status() -> dict[str, int]:
    """Return the status of an IPAddressPool that is not in force: nothing of it is served."""
    return dict.fromkeys(("assignedIPv4", "assignedIPv6", "availableIPv4", "availableIPv6"), 0)


def idle_eip_status(used_before: Iterable[str]) -> dict[str, Any]:
    """Return a merge patch to the status of an Eip that is not in force. `used_before`: as in `eip_status`."""
    used = dict.fromkeys(used_before)
    return {"usage": None, "used": used or None, "occupied": None, "ready": None}


def eip_status(
    space: PoolAddresses, holders: Mapping[IpAddress, Sequence[ObjectKey]], used_before: Iterable[str]
) -> dict[str, Any]:
    """Return a merge patch to the status of an Eip: as in OpenELB, fields that are zero or empty are left out.

    `used_before`: the keys of `used` in the present status. The size counts every address of the range.
    """
    (range_,) = space.pool.ranges
    used: dict[str, str | None] = dict.fromkeys(used_before)
    used.update({str(address): ";".join(map(str, keys)) for address, keys in holders.items()})
    return {
        "firstIP": str(address_of(range_.version, range_.first)),
        "lastIP": str(address_of(range_.version, range_.last)),
        "poolSize": min(range_.size, _MAXIMUM),
        "usage": len(holders) or None,
        "used": used if holders else None,
        "occupied": len(holders) >= range_.size or None,
        "ready": True,
        "v4": range_.version == 4 or None,
    }
