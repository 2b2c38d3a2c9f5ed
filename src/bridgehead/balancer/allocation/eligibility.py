"""Pools that a Service may use, and their order.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/allocator; OpenELB v0.6.
"""

from __future__ import annotations

from bridgehead.balancer.compiled_configuration import Pool

from .address_requests import Request
from .pool_addresses import PoolAddresses


def is_allowed(pool: Pool, request: Request) -> bool:
    """Whether `serviceAllocation` of a pool lets the Service use it. An Eip may be named by any Service."""
    selection = pool.services
    if selection is None or pool.source == "openelb":
        return True
    if not is_bound(pool, request):
        return False
    selectors = selection.service_selectors
    return not selectors or any(selector.matches(request.labels) for selector in selectors)


def is_bound(pool: Pool, request: Request) -> bool:
    """Whether a pool is for the Service's namespace, or for every namespace."""
    selection = pool.services
    if selection is None or not (selection.namespaces or selection.namespace_selectors):
        return True
    return request.key.namespace in selection.namespaces or any(
        selector.matches(request.namespace_labels) for selector in selection.namespace_selectors
    )


def by_priority(space: PoolAddresses) -> tuple[bool, int, str]:
    """Sort key: the lowest priority first. MetalLB's 0, no priority, is last; OpenELB's is a number as others."""
    priority = space.pool.services.priority if space.pool.services is not None else 0
    return priority == 0 and space.pool.source == "metallb", priority, space.pool.name
