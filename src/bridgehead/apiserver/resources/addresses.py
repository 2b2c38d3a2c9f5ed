"""Addresses and ranges in objects: what is one, of which family, and which are no good as an endpoint.

Called by the validators of Service, Endpoints, EndpointSlice, Node and Pod. Each `check_x` returns the reasons of
refusal in the API's own words.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

IPV4, IPV6 = "IPv4", "IPv6"
_LINK_LOCAL_MULTICAST = (ip_network("224.0.0.0/24"), IPv6Network("ff02::/16"))


# The addresses of a large EndpointSlice are read again at every write of it.
_REMEMBERED = 8192


@lru_cache(maxsize=_REMEMBERED)
def parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    """The address, or None when `text` is none. A zone (`fe80::1%eth0`) has no place in an object."""
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


def family_of(text: str) -> str:
    """`IPv4`, `IPv6` or `unknown`."""
    address = parse_ip(text)
    if address is None:
        return "unknown"
    return IPV4 if address.version == 4 else IPV6


def check_ip(text: str) -> list[str]:
    address = parse_ip(text)
    if address is None:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []


def check_not_special(text: str) -> list[str]:
    """Refuse what can't be the address of an endpoint: it would mean the node itself or its own link."""
    address = parse_ip(text)
    if address is None:
        return ["must be a valid IP address"]
    reasons = []
    if address.is_unspecified:
        reasons.append(f"may not be unspecified ({text})")
    if address.is_loopback:
        reasons.append("may not be in the loopback range (127.0.0.0/8, ::1/128)")
    if address.is_link_local:
        reasons.append("may not be in the link-local range (169.254.0.0/16, fe80::/10)")
    if any(address in network for network in _LINK_LOCAL_MULTICAST):
        reasons.append("may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
    return reasons


@lru_cache(maxsize=_REMEMBERED)
def check_endpoint_ip(text: str) -> tuple[str, ...]:
    """An address at which something may be reached: one of an endpoint, or an external one of a Service."""
    return tuple(check_ip(text) or check_not_special(text))


def is_cidr(text: str) -> bool:
    """Whether `text` is a range such as 10.0.0.0/8; bits behind the prefix may be set."""
    if "/" not in text or "%" in text:
        return False
    prefix = text.rpartition("/")[2]
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return prefix.isdigit()  # ip_network would take a netmask too


def check_cidr(text: str) -> list[str]:
    return [] if is_cidr(text) else ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]
