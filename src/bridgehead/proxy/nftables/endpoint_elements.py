"""The elements of backends: endpoints by number, and the backends that may connect to themselves.

Pure: no I/O, no clock, no randomness. `render.py` calls it; `affinity.py` has the endpoints of Frontends with affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from itertools import compress
from operator import is_not

from bridgehead.proxy.address_texts import Family, of_family
from bridgehead.proxy.frontends import Backend, FrontendKey
from bridgehead.proxy.mode import Settings

from .chains import MAJOR, frontend_text
from .transaction import Container, Transaction


def change_endpoints(
    transaction: Transaction,
    shared: Counter[tuple[Container, str]],
    key: FrontendKey,
    backends: Sequence[Sequence[Backend]],
    by_index: Sequence[bool],
    pods: tuple[str, ...],
    *,
    is_cluster: bool,
) -> None:
    """Replace the endpoints that differ, and count in `shared` the backends that may connect to themselves.

    `backends`: the old and the new ones; `by_index`: whether the old and the new ones are numbered by their index;
    `pods`: see `pod_ranges`.
    """
    old, new = backends
    was_by_index, is_by_index = by_index
    if old is new and was_by_index == is_by_index:
        return
    container = Container(key.family, "endpoints")
    prefix = f"{frontend_text(key)} . {MAJOR[is_cluster]}:"  # see `backend_number`
    hairpin = Container(key.family, "hairpin")
    if not old and is_by_index:  # a first sync: 100,000 endpoints and more
        lines = [f"{prefix}{number:x} : {backend.address} . {backend.port}" for number, backend in enumerate(new, 1)]
        transaction.added.setdefault(container, []).extend(lines)
        for backend in new:
            if is_cluster or _may_be_client(backend, pods):
                shared[hairpin, f"{backend.address} . {backend.address}"] += 1
        return
    added: list[str] = []
    removed: list[str] = []
    indexes: Iterable[int] = range(max(len(old), len(new)))
    if was_by_index == is_by_index:  # where they are not the same object
        common = min(len(old), len(new))
        indexes = (*compress(range(common), map(is_not, old, new)), *range(common, max(len(old), len(new))))
    for index in indexes:
        before = old[index] if index < len(old) else None
        after = new[index] if index < len(new) else None
        if before == after and was_by_index == is_by_index:
            continue
        # A pod of another node comes to itself through this one when it uses one of this node's published addresses.
        if before is not None and (is_cluster or _may_be_client(before, pods)):
            shared[hairpin, f"{before.address} . {before.address}"] -= 1
        if after is not None and (is_cluster or _may_be_client(after, pods)):
            shared[hairpin, f"{after.address} . {after.address}"] += 1
        is_same = (
            before is not None and after is not None and (before.address, before.port) == (after.address, after.port)
        )
        if is_same and was_by_index == is_by_index:
            continue
        if before is not None and was_by_index:
            removed.append(f"{prefix}{index + 1:x}")
        if after is not None and is_by_index:
            added.append(f"{prefix}{index + 1:x} : {after.address} . {after.port}")
    if removed:
        transaction.removed.setdefault(container, []).extend(removed)
    if added:
        transaction.added.setdefault(container, []).extend(added)


@lru_cache(maxsize=16)
def pod_ranges(settings: Settings, family: Family) -> tuple[str, ...]:
    """Return the ranges outside of which every client is masqueraded anyway; (): none are known."""
    return () if settings.pod_interface else of_family(settings.cluster_cidrs, family)


def _may_be_client(backend: Backend, pods: tuple[str, ...]) -> bool:
    """Whether the backend may be a pod of this node: pods of other nodes connect through their own nodes."""
    return backend.is_local or (not backend.node and _may_be_pod(backend.address, pods))


@lru_cache(maxsize=4096)
def _may_be_pod(address: str, ranges: tuple[str, ...]) -> bool:
    return not ranges or any(ip_address(address) in ip_network(cidr) for cidr in ranges)
