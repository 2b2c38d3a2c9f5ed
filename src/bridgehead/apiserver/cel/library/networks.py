"""IP addresses and CIDRs.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/ip.go`, `cidr.go`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bridgehead.apiserver.cel.costs import (
    CONSTANT,
    PARSING_WORK,
    TEXT_PARSING,
    Cost,
    Estimate,
    Operand,
    exactly,
    traversal,
)
from bridgehead.apiserver.cel.declarations import Overload, overload
from bridgehead.apiserver.cel.errors import EvaluationError
from bridgehead.apiserver.cel.types import opaque
from bridgehead.apiserver.go_values import quoted

from .address_errors import address_error

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_MOST_CHARACTERS = 64
_INT64_DIGITS = 19
_CIDR_PROBLEM = "network address parse error during conversion from string: "


@dataclass(frozen=True, slots=True)
class Ip:
    address: Address
    cel_type = opaque("net.IP")

    @property
    def cel_size(self) -> int:
        return len(self.address.packed)


@dataclass(frozen=True, slots=True)
class Cidr:
    """An address and the length of a prefix; host bits may be set."""

    address: Address
    length: int
    cel_type = opaque("net.CIDR")

    @property
    def cel_size(self) -> int:
        return -(-self.length // 8)

    @property
    def network(self) -> Any:
        return ipaddress.ip_network((self.address, self.length), strict=False)


def _address(text: str) -> Address:
    """Raises ValueError, with the text of Kubernetes."""
    try:
        address, has_zone = _address_and_zone(text)
    except ValueError:
        why = f"IP Address {quoted(text)} parse error during conversion from string: {address_error(text)}"
        raise ValueError(why) from None
    if has_zone:
        raise ValueError(f"IP address {quoted(text)} with zone value is not allowed")
    if _is_mapped(address):
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return address


def _address_and_zone(text: str) -> tuple[Address, bool]:
    """Return an address, and whether the text also has an IPv6 zone. Raises ValueError."""
    head, _, zone = text.partition("%")
    has_zone = bool(zone) and ":" in head
    number = head if has_zone else text
    # A long text is no address, and `ipaddress` takes long to find that out.
    return ipaddress.ip_address(number if len(number) <= _MOST_CHARACTERS else ""), has_zone


def _is_mapped(address: Address) -> bool:
    return isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None


def _ip(text: str) -> Ip:
    try:
        return Ip(_address(text))
    except ValueError as error:
        raise EvaluationError(str(error)) from None


def _parse_cidr(text: str) -> Cidr:
    """Raises ValueError, with the text of Kubernetes."""
    address_text, slash, length = text.rpartition("/")
    if not slash:
        raise _bad_prefix(text, "no '/'")
    try:
        address, has_zone = _address_and_zone(address_text)
    except ValueError:
        raise _bad_prefix(text, address_error(address_text)) from None
    if has_zone:
        raise _bad_prefix(text, "IPv6 zones cannot be present in a prefix")
    is_number = length.isdecimal() and length.isascii() and (length == "0" or length[0] != "0")
    if not is_number or len(length) >= _INT64_DIGITS:
        raise _bad_prefix(text, f"bad bits after slash: {quoted(length)}")
    if int(length) > address.max_prefixlen:
        raise _bad_prefix(text, "prefix length out of range")
    if _is_mapped(address):
        raise ValueError(f"IPv4-mapped IPv6 address {quoted(text)} is not allowed")
    return Cidr(address, int(length))


def _bad_prefix(text: str, why: str) -> ValueError:
    return ValueError(f"{_CIDR_PROBLEM}netip.ParsePrefix({quoted(text)}): {why}")


def _cidr(text: str) -> Cidr:
    try:
        return _parse_cidr(text)
    except ValueError as error:
        raise EvaluationError(f"{_CIDR_PROBLEM}{error}") from None


def _is_valid(parse: Callable[[str], Any]) -> Callable[[str], bool]:
    def run(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return run


def _is_canonical(text: str) -> bool:
    return str(_ip(text).address) == text


def _contains_ip(cidr: Cidr, ip: Ip) -> bool:
    return ip.address in cidr.network


def _contains_cidr(cidr: Cidr, other: Cidr) -> bool:
    return (
        cidr.address.version == other.address.version and other.length >= cidr.length and other.address in cidr.network
    )


def _is_global_unicast(ip: Ip) -> bool:
    address = ip.address
    excluded = (
        address.is_unspecified or address.is_loopback or address.is_multicast or address.is_link_local
        or str(address) == "255.255.255.255"
    )  # fmt: skip
    return not excluded


def _is_link_local_multicast(ip: Ip) -> bool:
    if isinstance(ip.address, ipaddress.IPv4Address):
        return ip.address in ipaddress.IPv4Network("224.0.0.0/24")
    return ip.address.packed[0] == 0xFF and ip.address.packed[1] & 0x0F == 0x02


def _scan(*, has_mask: bool, has_text: bool) -> Cost:
    """Return the cost of a comparison of prefixes. `has_mask`: the first is masked; `has_text`: the other is text."""

    def actual(cidr: Cidr, other: Any) -> int:
        size = cidr.cel_size
        masked = -(-size // 10) + 1 if has_mask else 0
        return -(-2 * size // 10) + masked + (-(-len(other) // 10) if has_text else 0)

    def estimate(operands: Sequence[Operand]) -> Estimate:
        cost = exactly(7 if has_mask else 4)
        return cost.plus(operands[1].size.tenths()) if has_text else cost, None

    return Cost(actual, estimate)


_IS_IP, _IS_CIDR, _PARSE = _is_valid(_address), _is_valid(_parse_cidr), TEXT_PARSING

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "ip": (
        overload("(string) -> net.IP", _ip, _PARSE),
        overload("net.CIDR.() -> net.IP", lambda cidr: Ip(cidr.address), CONSTANT),
    ),
    "isIP": (overload("(string) -> bool", _IS_IP, _PARSE),),
    "ip.isCanonical": (overload("(string) -> bool", _is_canonical, traversal(2, work=PARSING_WORK)),),
    "family": (overload("net.IP.() -> int", lambda ip: ip.address.version),),
    "isUnspecified": (overload("net.IP.() -> bool", lambda ip: ip.address.is_unspecified),),
    "isLoopback": (overload("net.IP.() -> bool", lambda ip: ip.address.is_loopback),),
    "isLinkLocalMulticast": (overload("net.IP.() -> bool", _is_link_local_multicast),),
    "isLinkLocalUnicast": (overload("net.IP.() -> bool", lambda ip: ip.address.is_link_local),),
    "isGlobalUnicast": (overload("net.IP.() -> bool", _is_global_unicast),),
    "cidr": (overload("(string) -> net.CIDR", _cidr, _PARSE),),
    "isCIDR": (overload("(string) -> bool", _IS_CIDR, _PARSE),),
    "containsIP": (
        overload("net.CIDR.(net.IP) -> bool", _contains_ip, _scan(has_mask=False, has_text=False)),
        overload(
            "net.CIDR.(string) -> bool",
            lambda cidr, text: _contains_ip(cidr, _ip(text)),
            _scan(has_mask=False, has_text=True),
        ),
    ),
    "containsCIDR": (
        overload("net.CIDR.(net.CIDR) -> bool", _contains_cidr, _scan(has_mask=True, has_text=False)),
        overload(
            "net.CIDR.(string) -> bool",
            lambda cidr, text: _contains_cidr(cidr, _cidr(text)),
            _scan(has_mask=True, has_text=True),
        ),
    ),
    "masked": (overload("net.CIDR.() -> net.CIDR", lambda cidr: Cidr(cidr.network.network_address, cidr.length)),),
    "prefixLength": (overload("net.CIDR.() -> int", lambda cidr: cidr.length),),
    "string": (
        overload("(net.IP) -> string", lambda ip: str(ip.address)),
        overload("(net.CIDR) -> string", lambda cidr: f"{cidr.address}/{cidr.length}"),
    ),
}
