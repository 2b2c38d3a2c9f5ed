"""BGP communities: values and aliases.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/bgp/community; RFC 1997, RFC 8092.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.objects.metallb import Community

from .inputs import about
from .selections import quote

_LARGE = "large"
_DIGITS = 10  # of the largest number of 32 bits


def parse_community(text: str) -> tuple[int, ...]:
    """Parse `a:b` (16 bits each) or `large:a:b:c` (32 bits each). Raises ValueError."""
    parts = text.split(":")
    match len(parts):
        case 2:
            numbers, bits = parts, 16
        case 4:
            marker, *numbers = parts
            bits = 32
            if marker != _LARGE:
                raise ValueError(
                    "invalid community value: invalid marker for large community, expected community to be of format"
                    f" {_LARGE}:<uint32>:<uint32>:<uint32> but got {quote(text)} instead"
                )
        case _:
            raise ValueError(f"invalid community format: {text}")
    for part in numbers:
        if not (part.isascii() and part.isdigit() and len(part) <= _DIGITS and int(part) < 2**bits):
            raise ValueError(
                f"invalid community value: invalid section {quote(part)} of community {quote(text)}: not a number of"
                f" {bits} bits"
            )
    return tuple(map(int, numbers))


def compile_aliases(communities: Iterable[Community]) -> dict[str, tuple[int, ...]]:
    """Return the values of all aliases. Raises ConfigurationInvalid."""
    values: dict[str, tuple[int, ...]] = {}
    for community in communities:
        for alias in community.spec.communities:
            if alias.name in values:
                raise ConfigurationInvalid(f"duplicate definition of community {quote(alias.name)}", about(community))
            try:
                values[alias.name] = parse_community(alias.value)
            except ValueError as error:
                raise ConfigurationInvalid(
                    f"parsing community {quote(alias.name)}: {error}", about(community)
                ) from None
    return values


def community_value(text: str, aliases: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the value of an alias or of a literal community. Raises ValueError."""
    found = aliases.get(text)
    return parse_community(text) if found is None else found
