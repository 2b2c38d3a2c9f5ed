"""Addresses and ranges as texts, each in one spelling, so that equal ones are equal texts. Pure.

What comes from outside is made canonical where it is read: in `services.py`, `endpoints.py`, `config_reader.py`, and
wherever else slices are.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

Family = int  # 4 or 6

EVERYWHERE = {4: "0.0.0.0/0", 6: "::/0"}  # the range that every address of a family is in

_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_match_ipv4 = re.compile(rf"{_OCTET}(?:\.{_OCTET}){{3}}").fullmatch


def canonical_address(text: str) -> str | None:
    """The one spelling of an address, or None when it is none. Zones and IPv4 addresses in IPv6 dress are refused."""
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
    """The one spelling of a range (host bits cleared), or None when it is none."""
    base = canonical_address(text.partition("/")[0])
    if base is None or "/" not in text:
        return None
    try:
        return str(ipaddress.ip_network(text, strict=False))
    except ValueError:
        return None


def family_of(text: str) -> Family:
    """The family of a canonical address or range."""
    return 6 if ":" in text else 4


def of_family(ranges: Iterable[str], family: Family) -> tuple[str, ...]:
    """Those of the canonical ranges that are of the family, in one order."""
    return tuple(sorted(text for text in ranges if family_of(text) == family))
