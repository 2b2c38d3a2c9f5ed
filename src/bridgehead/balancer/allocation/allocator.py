"""Allocation of addresses from pools, in MetalLB's order of choice and by OpenELB's rules.

The work for one Service does not grow with the number of Services or the size of pools. The first pool by name is taken
where MetalLB's choice is random.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/allocator; OpenELB v0.6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bridgehead.balancer.compiled_configuration import Pool
from bridgehead.balancer.ranges import IpAddress
from bridgehead.objects.meta import ObjectKey

from .address_requests import Port, Request, Version
from .address_usage import AddressUsage, ShareKey
from .eligibility import by_priority, is_allowed, is_bound
from .pending_reasons import NotAllocated, PendingReason, quote_addresses
from .pool_addresses import PoolAddresses
from .pool_descriptions import describe_pools, describe_ranges, full, not_compatible


@dataclass(frozen=True)
class Allocation:
    """Addresses of a Service. `pools`: names of their pools, in the same order. `ports`, `share`: as in the request."""

    addresses: tuple[IpAddress, ...]
    pools: tuple[str, ...]
    ports: tuple[Port, ...] = ()
    share: ShareKey = ("", "")

    @property
    def pool(self) -> str:
        return self.pools[0]


class Allocator:
    """The pools, and who holds which address."""

    def __init__(self) -> None:
        self._usage = AddressUsage()
        self._spaces: dict[str, PoolAddresses] = {}
        self._allocations: dict[ObjectKey, Allocation] = {}

    # --- Pools ---------------------------------------------------------------------------------------------

    def set_pools(self, pools: Iterable[Pool]) -> None:
        """Replace the pools. Allocations stay as they are; `keep` checks whether they are still valid."""
        pools = sorted(pools, key=lambda pool: (pool.is_fallback, pool.name))
        foreign = [range_ for pool in pools if not pool.is_fallback for range_ in pool.ranges]
        self._spaces = {
            pool.name: PoolAddresses(pool, self._usage, foreign if pool.is_fallback else ()) for pool in pools
        }
        for address in {address for allocation in self._allocations.values() for address in allocation.addresses}:
            self._add_to_counters(address, 1)

    def spaces(self) -> Iterable[PoolAddresses]:
        """Return the pools with their numbers of addresses."""
        return self._spaces.values()

    def holders(self, space: PoolAddresses) -> dict[IpAddress, list[ObjectKey]]:
        """Return the Services that hold addresses of a pool, by address in ascending order."""
        found: dict[IpAddress, list[ObjectKey]] = {}
        for key, allocation in self._allocations.items():
            for address in allocation.addresses:
                if address in space:
                    found.setdefault(address, []).append(key)
        return dict(sorted(found.items(), key=lambda item: (item[0].version, int(item[0]))))

    # --- Allocations ---------------------------------------------------------------------------------------

    def allocation(self, key: ObjectKey) -> Allocation | None:
        return self._allocations.get(key)

    def keep(self, request: Request, addresses: Sequence[IpAddress]) -> Allocation:
        """Record that the Service holds these addresses. Raises NotAllocated if it may not; then nothing changes."""
        return self._assign(request, addresses)

    def release(self, key: ObjectKey) -> bool:
        """Take the Service's addresses back; return whether it had any, so that waiting Services may get them."""
        allocation = self._allocations.pop(key, None)
        if allocation is None:
            return False
        for address in allocation.addresses:
            if self._usage.remove(address, key):
                self._freed(address)
            self._recount(address, -1)
        return True

    def allocate(self, request: Request) -> Allocation:
        """Choose addresses for a Service that has none. Raises NotAllocated."""
        if request.is_openelb:
            return self._allocate_by_openelb(request)
        if request.addresses:
            return self._allocate_named_addresses(request)
        if request.pool:
            return self._allocate_from(self._named_pool(request), request)
        for candidates in self._candidates(request):
            found = self._best(candidates, request)
            if found:
                return self._assign(request, found)
        raise self._no_address(request)

    def allocate_additional(self, request: Request) -> IpAddress:
        """Add an address of the family that a dual-stack Service lacks, from the same pool. Raises NotAllocated."""
        current = self._allocations[request.key]
        space = self._spaces[current.pool]
        missing = next(version for version in request.versions if version != current.addresses[0].version)
        found = space.first(missing, request, self._usage.shareable(request))
        if found is None:
            raise full(space.pool, (missing,))
        self._assign(request, (*current.addresses, found))
        return found

    # --- Choice --------------------------------------------------------------------------------------------

    def _candidates(self, request: Request) -> Iterable[list[PoolAddresses]]:
        """Yield groups of pools in the order in which they are tried."""
        metallb = [
            space for space in self._spaces.values() if space.pool.source == "metallb" and space.pool.auto_assign
        ]
        pinned = [space for space in metallb if space.pool.services is not None and is_allowed(space.pool, request)]
        yield sorted(pinned, key=by_priority)
        unpinned = [space for space in metallb if space.pool.services is None]
        yield [space for space in unpinned if not space.pool.is_fallback]
        eips = self._eips()
        yield [space for space in eips if space.pool.is_default]
        yield [space for space in unpinned if space.pool.is_fallback]

    def _best(self, spaces: Iterable[PoolAddresses], request: Request) -> tuple[IpAddress, ...]:
        """Return addresses of the first pool with all families; for PreferDualStack else of one with the preferred.

        Empty if no pool has any.
        """
        shareable = self._usage.shareable(request)
        partial: dict[Version, IpAddress] = {}
        for space in spaces:
            found = _by_version(space, request, shareable)
            if len(found) == len(request.versions):
                return tuple(found.values())
            for version, address in found.items():
                partial.setdefault(version, address)
        if request.policy != "PreferDualStack":
            return ()
        return next(((partial[version],) for version in request.versions if version in partial), ())

    def _allocate_from(self, space: PoolAddresses, request: Request, *, may_share: bool = True) -> Allocation:
        shareable = self._usage.shareable(request) if may_share else ()
        found = _by_version(space, request, shareable)
        needed = 1 if request.policy == "PreferDualStack" else len(request.versions)
        if len(found) < needed:
            raise full(space.pool, request.versions)
        return self._assign(request, tuple(found.values()))

    def _named_pool(self, request: Request) -> PoolAddresses:
        space = self._spaces.get(request.pool)
        if space is None:
            raise NotAllocated(PendingReason.UNKNOWN_POOL, f'unknown pool "{request.pool}"')
        if not is_allowed(space.pool, request):
            raise not_compatible(space.pool)
        if space.pool.is_disabled:
            raise NotAllocated(PendingReason.NO_POOL, f'eip "{request.pool}" is disabled')
        return space

    def _allocate_named_addresses(self, request: Request) -> Allocation:
        allocation = self._assign(request, request.addresses, is_new=True)
        if request.pool and allocation.pool != request.pool:
            self.release(request.key)
            raise NotAllocated(
                PendingReason.INVALID_REQUEST,
                f"requested loadBalancer IP(s) {quote_addresses(request.addresses)} is not compatible with requested"
                f" address pool {request.pool}",
            )
        return allocation

    # --- OpenELB -------------------------------------------------------------------------------------------

    def _eips(self) -> list[PoolAddresses]:
        return [
            space for space in self._spaces.values() if space.pool.source == "openelb" and not space.pool.is_disabled
        ]

    def _allocate_by_openelb(self, request: Request) -> Allocation:
        """Choose by the Eip that is named, the address that is named, the namespace; else the default Eip.

        An Eip has one family, so that a dual-stack Service gets one address. Addresses are shared only when named.
        """
        if request.addresses:
            allocation = self._assign(request, request.addresses, is_new=True)
            if request.pool and allocation.pool != request.pool:
                self.release(request.key)
                raise NotAllocated(
                    PendingReason.INVALID_REQUEST, f'eip "{request.pool}" does not contain {request.addresses[0]}'
                )
            return allocation
        if request.pool:
            return self._allocate_one(self._named_pool(request), request)
        bound = [space for space in self._eips() if space.pool.services is not None and is_bound(space.pool, request)]
        default = [space for space in self._eips() if space.pool.is_default]
        for space in [*sorted(bound, key=by_priority), *default]:
            try:
                return self._allocate_one(space, request)
            except NotAllocated:
                continue
        reason = PendingReason.POOL_FULL if bound or default else PendingReason.NO_POOL
        raise NotAllocated(
            reason, f'no available eip for service "{request.key}"', describe_pools(self._spaces.values(), request)
        )

    def _allocate_one(self, space: PoolAddresses, request: Request) -> Allocation:
        for version in request.versions:
            address = space.first(version, request, ())
            if address is not None:
                return self._assign(request, (address,))
        raise full(space.pool, request.versions)

    # --- Bookkeeping ---------------------------------------------------------------------------------------

    def _assign(self, request: Request, addresses: Sequence[IpAddress], *, is_new: bool = False) -> Allocation:
        """Record an allocation, in the place of the one that the Service has. Raises NotAllocated."""
        pools = self._pools_for(request, addresses, is_new)
        share = (request.sharing_key, request.backend_key)
        allocation = Allocation(tuple(addresses), tuple(pools), request.ports, share)
        if self._allocations.get(request.key) == allocation:
            return allocation
        for address in addresses:
            self._usage.check(address, request)
        self.release(request.key)
        for address in addresses:
            self._usage.add(address, request)
            self._recount(address, 1)
        self._allocations[request.key] = allocation
        return allocation

    def _pools_for(self, request: Request, addresses: Sequence[IpAddress], is_new: bool) -> list[str]:
        names = []
        for address in addresses:
            containing = [space.pool for space in self._spaces.values() if address in space]
            if not is_new:  # a Service keeps an address of the fallback pool that now belongs to another pool
                containing += [s.pool for s in self._spaces.values() if s.pool.is_fallback and address in s.pool]
            if is_new and containing and containing[0].is_disabled:
                raise NotAllocated(PendingReason.NO_POOL, f'eip "{containing[0].name}" is disabled')
            if not containing:
                raise NotAllocated(
                    PendingReason.OUTSIDE_POOLS,
                    f"{quote_addresses(addresses)} is not allowed in config",
                    describe_ranges(self._spaces.values()),
                )
            allowed = [pool for pool in containing if is_allowed(pool, request)]
            if not allowed:
                raise not_compatible(containing[0])
            names.append(allowed[0].name)
        return names

    def _freed(self, address: IpAddress) -> None:
        for space in self._spaces.values():
            space.release(address)

    def _recount(self, address: IpAddress, change: int) -> None:
        """Adapt the counters after the address got its first holder or lost its last one."""
        version, number = address.version, int(address)
        if len(self._usage.holders(version, number)) == (1 if change > 0 else 0):
            self._add_to_counters(address, change)

    def _add_to_counters(self, address: IpAddress, change: int) -> None:
        for space in self._spaces.values():
            if address in space:
                space.in_use[address.version] += change

    def _no_address(self, request: Request) -> NotAllocated:
        candidates = [space for group in self._candidates(request) for space in group]
        if candidates:
            reason = PendingReason.POOL_FULL
        elif any(not is_allowed(space.pool, request) for space in self._spaces.values()):
            reason = PendingReason.NOT_ALLOWED
        else:
            reason = PendingReason.NO_POOL
        return NotAllocated(reason, "no available IPs", describe_pools(self._spaces.values(), request))


def _by_version(
    space: PoolAddresses, request: Request, shareable: Iterable[tuple[int, int]]
) -> dict[Version, IpAddress]:
    shareable = list(shareable)
    found = {}
    for version in request.versions:
        address = space.first(version, request, shareable)
        if address is not None:
            found[version] = address
    return found
