"""Parsing and validation of IP addresses and CIDR ranges.

Each `check_x` returns the reasons of a refusal, as texts of the Kubernetes API.
Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_interface, ip_network

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1123_subdomain

IPV4, IPV6 = "IPv4", "IPv6"
_LINK_LOCAL_MULTICAST = (ip_network("224.0.0.0/24"), IPv6Network("ff02::/16"))


# Every write of a large EndpointSlice checks all its addresses again.
_CACHE_SIZE = 8192

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_is_ipv4 = re.compile(_IPV4).fullmatch
# Nearly all addresses of endpoints are IPv4 addresses that `check_endpoint_ip` accepts: one pattern knows them.
is_ordinary_ipv4 = re.compile(rf"(?!0\.0\.0\.0\Z|127\.|169\.254\.|224\.0\.0\.){_IPV4}").fullmatch
# Leading zeros make octets octal in libc, but decimal in the older Go.
_is_padded_ipv4 = re.compile(rf"0*{_OCTET}(?:\.0*{_OCTET}){{3}}").fullmatch


@lru_cache(maxsize=_CACHE_SIZE)
def parse_ip(text: str) -> IPv4Address | IPv6Address | None:
    """Return the address, or None if `text` is not one. Zones (`fe80::1%eth0`) are not allowed in objects."""
    if _is_ipv4(text):
        # `ip_address` returns this, too, in twice the time.
        first, second, third, fourth = map(int, text.split("."))
        return IPv4Address(first << 24 | second << 16 | third << 8 | fourth)
    if "%" in text:
        return None
    try:
        return ip_address(text)
    except ValueError:
        return None


@lru_cache(maxsize=_CACHE_SIZE)
def family_of(text: str) -> str:
    """Return `IPv4`, `IPv6` or `unknown`."""
    if _is_ipv4(text):
        return IPV4
    address = parse_ip(text)
    if address is None:
        return "unknown"
    return IPV4 if address.version == 4 else IPV6


def check_ip(text: str) -> list[str]:
    if family_of(text) == IPV4:
        return []
    address = parse_ip(text)
    if address is None:
        if _is_padded_ipv4(text):
            return ["must not have leading 0s"]
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return ["must not be an IPv4-mapped IPv6 address"]
    return []


def check_dns_name(text: str) -> list[str]:
    """Check a host name of a load balancer."""
    reasons = check_dns1123_subdomain(text)
    return reasons if parse_ip(text) is None else [*reasons, "must be a DNS name, not an IP address"]


def check_not_special(text: str) -> list[str]:
    """Refuse addresses that mean the node itself or its link, such as loopback and link-local ones."""
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


def check_endpoint_ip(text: str) -> list[str]:
    """Check an address of an endpoint, or an external address of a Service."""
    return [] if is_ordinary_ipv4(text) else check_ip(text) or check_not_special(text)


def is_cidr(text: str) -> bool:
    """Whether `text` is a range such as 10.0.0.0/8; bits after the prefix may be set."""
    if "/" not in text or "%" in text:
        return False
    prefix = text.rpartition("/")[2]
    try:
        ip_network(text, strict=False)
    except ValueError:
        return False
    return prefix.isdigit()  # ip_network accepts a netmask, too


def check_cidr(text: str) -> list[str]:
    if is_cidr(text):
        return []
    address, _, prefix = text.partition("/")
    if _is_padded_ipv4(address) and prefix.isdecimal() and int(prefix) <= 32:
        return ["must not have leading 0s in IP or prefix length"]
    return ["must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"]


def check_canonical_cidr(text: str) -> list[str]:
    """Check a range of a field that has only canonical ones (Kubernetes' `IsValidCIDR`)."""
    if reasons := check_cidr(text) or check_strict_cidr(text):
        return reasons
    canonical = str(ip_network(text))
    return [] if canonical == text else [f'must be in canonical form ("{canonical}")']


def check_interface_address(text: str) -> list[str]:
    """Check an address with the length of its prefix in canonical form (Kubernetes' `IsValidInterfaceAddress`)."""
    if not is_cidr(text):
        return ["must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"]
    canonical = str(ip_interface(text))
    return [] if canonical == text else [f'must be in canonical form ("{canonical}")']


def check_strict_cidr(text: str) -> list[str]:
    """Check a valid range as Kubernetes' `StrictIPCIDRValidation` does where the range is new or changed."""
    address, prefix = text.split("/")
    if prefix != str(int(prefix)):
        return ["must not have leading 0s in IP or prefix length"]
    first = ip_address(address)
    if isinstance(first, IPv6Address) and first.ipv4_mapped is not None:
        return ["must not have an IPv4-mapped IPv6 address"]
    if first != ip_network(text, strict=False).network_address:
        return ["must not have bits set beyond the prefix length"]
    return []


def validate_new_cidr(cidr: Field, stored: Collection[str]) -> None:
    """Validate a range that `stored` lacks: stored ones may stay as they are.

    Texts that are no ranges are left to `check_cidr`.
    """
    text = cidr.value.strip()
    if is_cidr(text) and text not in stored:
        cidr.must_pass(lambda _: check_strict_cidr(text))


def warn_of_ip(path: str, text: str) -> list[str]:
    """Return warnings about a valid address in a form that is not canonical (Kubernetes' `GetWarningsForIP`)."""
    if family_of(text) == IPV4:
        return []
    address = parse_ip(text)
    if isinstance(address, IPv6Address) and str(address) != text:
        return [f'{path}: IPv6 address "{text}" should be in RFC 5952 canonical format ("{address}")']
    return []


def warn_of_cidr(path: str, text: str) -> list[str]:
    """Return warnings about a valid range in a form that is not canonical (Kubernetes' `GetWarningsForCIDR`)."""
    address, network = ip_interface(text).ip, ip_network(text, strict=False)
    if address != network.network_address:
        single = f"{address}/{network.max_prefixlen}"
        return [
            f'{path}: CIDR value "{text}" is ambiguous in this context (should be "{network}" or "{single}"?)',
        ]
    if str(network) != text and network.version == 6:
        return [f'{path}: IPv6 CIDR value "{text}" should be in RFC 5952 canonical format ("{network}")']
    return []
