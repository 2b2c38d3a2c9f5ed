"""The canonical form of `Endpoints.subsets`, and truncation at 1000 addresses.

Used by the Endpoints controller, which writes subsets, and by the mirroring controller, which reads those of users.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes `pkg/api/v1/endpoints` (RepackSubsets), `pkg/controller/endpoint` (truncateEndpoints).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.objects.core import EndpointAddress, EndpointPort, EndpointSubset

MAX_ADDRESSES = 1000

_PortKey = tuple[str, int, str, str]
_AddressKey = tuple[str, str]


def repack_subsets(subsets: Iterable[EndpointSubset]) -> tuple[EndpointSubset, ...]:
    """Return the endpoints sorted, with every pair of address and port in exactly one subset.

    Addresses with the same ports share a subset. An address that is both ready and not ready for a port is not ready.
    """
    addresses: dict[_AddressKey, EndpointAddress] = {}
    # The ports of each address, with readiness. None stands for "no ports".
    offers: dict[_AddressKey, dict[EndpointPort | None, bool]] = {}
    for subset in subsets:
        for ready, group in ((True, subset.addresses), (False, subset.not_ready_addresses)):
            for address in group:
                key = _address_key(address)
                addresses.setdefault(key, address)
                offered = offers.setdefault(key, {})
                for port in subset.ports or (None,):
                    offered[port] = ready and offered.get(port, True)
    return _join(addresses, _by_port(offers))


def _by_port(
    offers: dict[_AddressKey, dict[EndpointPort | None, bool]],
) -> dict[frozenset[tuple[_AddressKey, bool]], list[EndpointPort]]:
    """Group ports that have the same addresses with the same readiness."""
    offered_by: dict[EndpointPort | None, set[tuple[_AddressKey, bool]]] = {}
    for key, offered in offers.items():
        for port, ready in offered.items():
            offered_by.setdefault(port, set()).add((key, ready))
    groups: dict[frozenset[tuple[_AddressKey, bool]], list[EndpointPort]] = {}
    for port, members in offered_by.items():
        ports = groups.setdefault(frozenset(members), [])
        if port is not None:
            ports.append(port)
    return groups


def _join(
    addresses: dict[_AddressKey, EndpointAddress],
    groups: dict[frozenset[tuple[_AddressKey, bool]], list[EndpointPort]],
) -> tuple[EndpointSubset, ...]:
    subsets = []
    for members, ports in groups.items():
        ordered = sorted(members)
        subsets.append(
            EndpointSubset(
                addresses=tuple(addresses[key] for key, ready in ordered if ready),
                not_ready_addresses=tuple(addresses[key] for key, ready in ordered if not ready),
                ports=tuple(sorted(ports, key=_port_key)),
            )
        )
    return tuple(sorted(subsets, key=_subset_key))


def _address_key(address: EndpointAddress) -> _AddressKey:
    return address.ip, address.target_ref.uid if address.target_ref is not None else ""


def _port_key(port: EndpointPort) -> _PortKey:
    return port.name, port.port, port.protocol, port.app_protocol or ""


def _subset_key(subset: EndpointSubset) -> tuple[list[_PortKey], list[_AddressKey], list[_AddressKey]]:
    return (
        [_port_key(port) for port in subset.ports],
        [_address_key(address) for address in subset.addresses],
        [_address_key(address) for address in subset.not_ready_addresses],
    )


def truncate_subsets(
    subsets: Sequence[EndpointSubset], maximum: int = MAX_ADDRESSES
) -> tuple[tuple[EndpointSubset, ...], bool]:
    """Return at most `maximum` addresses, ready ones first, cut in proportion; and whether any was removed."""
    ready = sum(len(subset.addresses) for subset in subsets)
    not_ready = sum(len(subset.not_ready_addresses) for subset in subsets)
    if ready + not_ready <= maximum:
        return tuple(subsets), False
    cut_ready = ready > maximum
    field = "addresses" if cut_ready else "not_ready_addresses"
    room, total = (maximum, ready) if cut_ready else (maximum - ready, not_ready)
    left, cut = room, []
    for subset in subsets:
        candidates = getattr(subset, field)
        # Shares are rounded up, so the last subset may get less than its share.
        kept = candidates[: min(left, math.ceil(len(candidates) * room / total))]
        left -= len(kept)
        changes = {"not_ready_addresses": (), field: kept}
        cut.append(msgspec.structs.replace(subset, **changes))
    return tuple(cut), True
