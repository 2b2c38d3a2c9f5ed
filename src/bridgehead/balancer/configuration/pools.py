"""IPAddressPools compiled to pools, and the checks of ranges against each other and against addresses in use.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/config.
"""

from __future__ import annotations

import ipaddress
import itertools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from bridgehead.balancer.compiled_configuration import Pool, ServiceSelection
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.balancer.ranges import AddressRange, address_of, parse_range
from bridgehead.objects.metallb import IPAddressPool, ServiceAllocation

from .inputs import ConfigurationObjects, about
from .selections import compile_selectors, quote

FALLBACK_ANNOTATION = "bridgehead.io/fallback-pool"
# Addresses that no router or neighbour would reach a Service by (RFC 6890, RFC 5771, RFC 4291).
_SPECIAL_RANGES = tuple(
    (parse_range(text), description)
    for text, description in (
        ("0.0.0.0/32", "the unspecified address"),
        ("::/128", "the unspecified address"),
        ("127.0.0.0/8", "a loopback address"),
        ("::1/128", "a loopback address"),
        ("169.254.0.0/16", "a link-local address"),
        ("fe80::/10", "a link-local address"),
        ("224.0.0.0/4", "a multicast address"),
        ("ff00::/8", "a multicast address"),
        ("255.255.255.255/32", "the broadcast address"),
    )
)


def is_fallback(annotations: dict[str, str]) -> bool:
    """Whether an object is the lab's own pool, whose addresses belong to other pools that contain them."""
    return annotations.get(FALLBACK_ANNOTATION) == "true"


def reserved_ranges(objects: ConfigurationObjects) -> list[tuple[AddressRange, str]]:
    """Return the addresses that no pool may contain, each with a description."""
    nodes = [
        (AddressRange(address.version, int(address), int(address)), f"the address of node {quote(name)}")
        for name, facts in sorted(objects.nodes.items())
        for address in facts.addresses
    ]
    return [*nodes, *objects.reserved, *_SPECIAL_RANGES]


def compile_pool(pool: IPAddressPool, reserved: Iterable[tuple[AddressRange, str]]) -> Pool:
    """Compile one pool, without advertisements. Raises ConfigurationInvalid."""
    try:
        return Pool(
            name=pool.metadata.name,
            source="metallb",
            ranges=_ranges(pool, reserved),
            labels=pool.metadata.labels,
            auto_assign=pool.spec.auto_assign,
            avoid_buggy_ips=pool.spec.avoid_buggy_ips,
            services=_selection(pool.spec.service_allocation),
            is_fallback=is_fallback(pool.metadata.annotations),
        )
    except ValueError as error:
        raise ConfigurationInvalid(f"parsing address pool {pool.metadata.name}: {error}", about(pool)) from None


def _ranges(pool: IPAddressPool, reserved: Iterable[tuple[AddressRange, str]]) -> tuple[AddressRange, ...]:
    if not pool.spec.addresses:
        raise ValueError("pool has no prefixes defined")
    ranges = []
    for text in pool.spec.addresses:
        try:
            ranges.append(parse_range(text))
        except ValueError as error:
            raise ValueError(f"invalid CIDR {quote(text)} in pool {quote(pool.metadata.name)}: {error}") from None
        check_reserved(ranges[-1], text, reserved)
    return tuple(ranges)


def check_reserved(range_: AddressRange, text: str, reserved: Iterable[tuple[AddressRange, str]]) -> None:
    """Raise ValueError if the range that was written as `text` contains a reserved address."""
    for other, description in reserved:
        if range_.overlaps(other):
            address = address_of(range_.version, max(range_.first, other.first))
            raise ValueError(f"{quote(text)} contains {address}, {description}")


def _selection(allocation: ServiceAllocation | None) -> ServiceSelection | None:
    if allocation is None:
        return None
    if len(set(allocation.namespaces)) < len(allocation.namespaces):
        raise ValueError("duplicate definition in namespaces field")
    return ServiceSelection(
        priority=allocation.priority,
        namespaces=frozenset(allocation.namespaces),
        namespace_selectors=compile_selectors(allocation.namespace_selectors, "namespaceSelectors"),
        service_selectors=compile_selectors(allocation.service_selectors, "serviceSelectors"),
    )


class Overlap(NamedTuple):
    """Range `number` of a pool overlaps a range that was written as `text` in `pool`."""

    number: int
    text: str
    pool: str


class Territory:
    """The ranges of pools so far. Fallback pools may overlap others, but not each other."""

    def __init__(self) -> None:
        self._ranges: list[tuple[AddressRange, str, str, bool]] = []  # with text, pool's name, is_fallback

    def overlapping(self, pool: Pool) -> Overlap | None:
        """Return the first overlap of a range with ranges so far, or with an earlier range of the pool itself."""
        for number, range_ in enumerate(pool.ranges):
            for other, text, name, is_fallback_ in self._ranges:
                if is_fallback_ == pool.is_fallback and range_.overlaps(other):
                    return Overlap(number, text, name)
            for other in pool.ranges[:number]:
                if range_.overlaps(other):
                    return Overlap(number, range_text(other), pool.name)
        return None

    def add(self, pool: Pool, texts: Sequence[str]) -> None:
        """Add a pool. `texts`: its ranges as their author wrote them."""
        for range_, text in zip(pool.ranges, texts, strict=True):
            self._ranges.append((range_, text, pool.name, pool.is_fallback))


def range_text(range_: AddressRange) -> str:
    """Return the range as a CIDR if it is one, else as `first-last`."""
    first, last = address_of(range_.version, range_.first), address_of(range_.version, range_.last)
    networks = list(itertools.islice(ipaddress.summarize_address_range(first, last), 2))
    return str(networks[0]) if len(networks) == 1 else f"{first}-{last}"
