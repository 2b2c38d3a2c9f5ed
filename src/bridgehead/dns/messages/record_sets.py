"""Record sets as values: what `wire` encodes.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple


class Srv(NamedTuple):
    """Data of an SRV record (RFC 2782)."""

    priority: int
    weight: int
    port: int
    target: str


class Soa(NamedTuple):
    """Data of an SOA record (RFC 1035, section 3.3.13); times in seconds."""

    mname: str
    rname: str
    serial: int
    refresh: int = 7200
    retry: int = 1800
    expire: int = 86400
    minimum: int = 0


# A record's data: the text of an address, a name or a TXT string; SRV and SOA in their fields.
Data = str | Srv | Soa
# Record type ("A", "SRV", ...) -> its records. An empty mapping is a name without records: NODATA, not NXDOMAIN.
RecordSets = Mapping[str, tuple[Data, ...]]


def address_sets(addresses: Iterable[str]) -> dict[str, tuple[Data, ...]]:
    """Return the A and AAAA sets of these addresses, each address once. Texts that are no addresses are left out."""
    sets: dict[str, dict[Data, None]] = {}
    for text in addresses:
        address = canonical_address(text)
        if address is not None:
            sets.setdefault("AAAA" if ":" in address else "A", {})[address] = None
    return {kind: tuple(values) for kind, values in sets.items()}


@lru_cache(maxsize=16384)
def canonical_address(text: str) -> str | None:
    """Return an address in its canonical form; None for a text that is no address, or one with a scope."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return None if getattr(address, "scope_id", None) else str(address)
