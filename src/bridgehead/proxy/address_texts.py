"""Canonical texts of addresses and ranges: equal addresses are equal texts.

Addresses of API objects and of the configuration are made canonical where they are read: `service_frontends.py`,
`backends.py`, `config_reader.py`, and other readers of EndpointSlices.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

Family = int  # 4 or 6
AddressPort = tuple[str, int]  # a canonical address and a port

EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}  # the range of all addresses of a family

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_match_ipv4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}").fullmatch


def canonical_address(text: str) -> str | None:
    """Return the canonical text of an address; None: invalid. Zones and IPv4-mapped IPv6 addresses are invalid, too."""
    if _match_ipv4(text):  # already canonical, and by far the most common
        return text
    if ":" not in text or "%" in text:
        return None
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    return None if address.ipv4_mapped is not None or 0xFFFF < int(address) <= 0xFFFFFFFF else address.compressed


def canonical_cidr(text: str) -> str | None:
    """Return the canonical text of a range, with host bits cleared; None: invalid."""
    base = canonical_address(text.partition("/")[0])
    if base is None or "/" not in text:
        return None
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return None


def is_loopback(address: str) -> bool:
    """Return whether a canonical address is a loopback address."""
    return address == "::1" or address.startswith("127.")


def family_of(text: str) -> Family:
    """Return the family of a canonical address or range."""
    return 6 if ":" in text else 4


def of_family(ranges: Iterable[str], family: Family) -> tuple[str, ...]:
    """Return the canonical ranges of the family, sorted."""
    return tuple(sorted(text for text in ranges if family_of(text) == family))
