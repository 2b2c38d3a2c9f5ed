"""BGP communities: values and aliases.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/bgp/community; RFC 1997, RFC 8092.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bridgehead.objects.metallb import Community

from ..errors import ConfigurationInvalid
from .inputs import about
from .selections import quote

_LARGE = "large:"


def parse_community(text: str) -> tuple[int, ...]:
    """Parse `a:b` (16 bits each) or `large:a:b:c` (32 bits each). Raises ValueError."""
    is_large = text.startswith(_LARGE)
    parts = text.removeprefix(_LARGE).split(":")
    if len(parts) != (3 if is_large else 2):
        raise ValueError(f"invalid community format: {text}")
    limit = 2**32 if is_large else 2**16
    if not all(part.isascii() and part.isdigit() and len(part) <= 10 and int(part) < limit for part in parts):
        raise ValueError(f"invalid community value: {text}")
    return tuple(int(part) for part in parts)


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
