"""Explanations of why pools have no address for a Service.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Collection

from bridgehead.balancer.compiled_configuration import Pool

from .address_requests import Request, Version
from .eligibility import is_allowed
from .pending_reasons import NotAllocated, PendingReason
from .pool_addresses import PoolAddresses

_FAMILIES: dict[tuple[Version, ...], str] = {(4,): "ipv4", (6,): "ipv6"}
_DETAILED_POOLS = 5  # pools that a message lists at most
_DETAILED_RANGES = 5  # ranges of a pool, likewise


def describe_pools(spaces: Collection[PoolAddresses], request: Request) -> str:
    """Return why each pool has no address for the Service."""
    if not spaces:
        return "there is no IPAddressPool and no Eip"
    lines = [_describe(space, request) for space in list(spaces)[:_DETAILED_POOLS]]
    more = len(spaces) - len(lines)
    return "; ".join(lines) + (f"; and {more} more pools" if more > 0 else "")


def _describe(space: PoolAddresses, request: Request) -> str:
    pool = space.pool
    name = f'pool "{pool.name}"'
    if pool.is_disabled:
        return f"{name} is disabled"
    if not is_allowed(pool, request):
        return f"{name} is for other namespaces or Services"
    if pool.source == "metallb" and not pool.auto_assign:
        return f"{name} gives addresses only to Services that name it (autoAssign: false)"
    if pool.source == "openelb" and not pool.is_default:
        return f"{name} is not the default Eip"
    numbers = [
        f"{space.in_use[version]} of {space.capacity(version)} IPv{version} addresses"
        for version in request.versions
        if space.capacity(version)
    ]
    if not numbers:
        return f"{name} has no addresses of the Service's IP family"
    return f"{name} ({_ranges(pool)}): {' and '.join(numbers)} in use"


def describe_ranges(spaces: Collection[PoolAddresses]) -> str:
    """Return the ranges of all pools, for a Service that asks for an address outside of them."""
    if not spaces:
        return "there is no IPAddressPool and no Eip"
    shown = [f'{_ranges(space.pool)} of pool "{space.pool.name}"' for space in list(spaces)[:_DETAILED_POOLS]]
    more = len(spaces) - len(shown)
    return f"pools have {', '.join(shown)}" + (f" and {more} more pools" if more > 0 else "")


def _ranges(pool: Pool) -> str:
    shown = ", ".join(map(str, pool.ranges[:_DETAILED_RANGES]))
    return f"{shown}, ..." if len(pool.ranges) > _DETAILED_RANGES else shown


def full(pool: Pool, versions: tuple[Version, ...]) -> NotAllocated:
    family = _FAMILIES.get(versions, "dual")
    return NotAllocated(PendingReason.POOL_FULL, f'no available IPs in pool "{pool.name}" for {family} IPFamily')


def not_compatible(pool: Pool) -> NotAllocated:
    return NotAllocated(PendingReason.NOT_ALLOWED, f"pool {pool.name} not compatible for ip assignment")
