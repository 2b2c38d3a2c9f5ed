"""Queries of BusyBox's nslookup (from 1.29 on): arguments, /etc/resolv.conf, search domains, messages.

Pure: no I/O, no clock, no randomness. Source: BusyBox' networking/nslookup.c with FEATURE_NSLOOKUP_BIG.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from .options import parse_number

# Query types of DNS messages, in the order in which nslookup sends several of them.
QUERY_TYPES: Final = {
    "SOA": 6,
    "NS": 2,
    "A": 1,
    "AAAA": 28,
    "CNAME": 5,
    "MX": 15,
    "TXT": 16,
    "SRV": 33,
    "PTR": 12,
    "ANY": 255,
}
DNS_PORT: Final = 53
_OPTIONS: Final = ("type", "querytype", "port", "retry", "debug", "t", "timeout")
_LONGEST_LINE: Final = 511  # bytes of /etc/resolv.conf that are read as one line
_LONGEST_LABEL: Final = 63
_LONGEST_NAME: Final = 255  # bytes in a message
_RECURSION_DESIRED: Final = 0x0100
_CLASS_IN: Final = 1


class UsageError(Exception):
    """The arguments fit no form of the command."""


class InvalidType(Exception):
    """A query type that does not exist; the message is BusyBox's."""


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    """The command line. `types` are names in `QUERY_TYPES`; none: those that fit the host. `timeout` is in seconds, and
    is the time for all `tries` of one server."""

    host: str
    server: str = ""
    types: tuple[str, ...] = ()
    port: int = DNS_PORT
    tries: int = 2
    timeout: int = 5
    is_debug: bool = False


class Resolver(NamedTuple):
    """DNS servers and search domains of /etc/resolv.conf; `search` is None without such a line."""

    servers: tuple[str, ...] = ()
    search: str | None = None


class Query(NamedTuple):
    """A name, and the type as in a message."""

    name: str
    type: int


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Raises `UsageError`, `InvalidType` and `BadNumber`. `argv` comes after the program's name."""
    values: dict[str, int] = {}
    types: set[str] = set()
    is_debug = False
    left = list(argv)
    while left and left[0].startswith("-"):
        option, _, value = left.pop(0)[1:].partition("=")
        match _find_option(option):
            case "type" | "querytype":
                if value.upper() not in QUERY_TYPES:
                    raise InvalidType(f'invalid query type "{value}"')
                types.add(value.upper())
            case "port":
                values["port"] = parse_number(value, 1, 0xFFFF)
            case "retry":
                values["tries"] = parse_number(value, 1, 0x7FFFFFFF)
            case "debug":
                is_debug = True
            case _:
                values["timeout"] = parse_number(value, 1, 0x7FFFFFFF // 1000)
    if not 1 <= len(left) <= 2:
        raise UsageError
    ordered = tuple(name for name in QUERY_TYPES if name in types)
    return Arguments(host=left[0], server=left[1] if left[1:] else "", types=ordered, is_debug=is_debug, **values)


def _find_option(word: str) -> str:
    """An option's whole name or its only abbreviation. Raises `UsageError`."""
    if word in _OPTIONS:
        return word
    found = [option for option in _OPTIONS if option.startswith(word)]
    if len(found) != 1:
        raise UsageError
    return found[0]


def parse_resolver(text: str, hostname: str) -> Resolver:
    """Read /etc/resolv.conf. Without search domains there, that of the host's name is used."""
    servers: list[str] = []
    search: str | None = None
    has_search = False
    for line in _split_lines(text):
        stripped = line.lstrip(" \t")
        key = stripped.split(" ")[0].split("\t")[0]
        value = stripped[len(key) + 1 :]
        if not value:
            continue
        if key == "nameserver":
            servers.append(value)
        elif key == "search" or (key == "domain" and not has_search):
            has_search = has_search or key == "search"
            search = value
    if search is None and "." in hostname:
        search = hostname.partition(".")[2]
    return Resolver(tuple(servers), None if search == "." else search)


def _split_lines(text: str) -> list[str]:
    return [
        line[start : start + _LONGEST_LINE]
        for line in text.split("\n")
        for start in range(0, max(len(line), 1), _LONGEST_LINE)
    ]


def plan_queries(host: str, types: Sequence[str], search: str | None) -> list[Query]:
    """The queries for a host, in the order in which they are sent: addresses are asked for their names, and names
    without a dot are completed by all search domains."""
    if not types:
        reverse = reverse_name(host)
        if reverse:
            return [Query(reverse, QUERY_TYPES["PTR"])]
        types = ("A", "AAAA")
    return [
        Query(name, QUERY_TYPES[kind])
        for kind in types
        for name in ([host] if kind == "PTR" else _complete(host, search))
    ]


def _complete(host: str, search: str | None) -> list[str]:
    if search is None or "." in host:
        return [host]
    names, left = [], search
    while True:
        domain = left.split(" ")[0].split("\t")[0]
        names.append(f"{host}.{domain}")
        left = left[len(domain) :].lstrip(" \t")
        if not left:
            return names


def reverse_name(text: str) -> str:
    """The name at which the DNS has that of an address; "" if the text is no address."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return ""
    if isinstance(address, ipaddress.IPv6Address):
        if address.scope_id is not None:
            return ""
        address = address.ipv4_mapped or address
    return address.reverse_pointer


def encode_query(query: Query, id: int) -> bytes | None:
    """A message with one question; None if no message can have the name."""
    name = _encode_name(query.name)
    if name is None:
        return None
    header = b"".join(number.to_bytes(2, "big") for number in (id, _RECURSION_DESIRED, 1, 0, 0, 0))
    return header + name + query.type.to_bytes(2, "big") + _CLASS_IN.to_bytes(2, "big")


def _encode_name(name: str) -> bytes | None:
    whole = name[:-1] if name.endswith(".") else name
    labels = [label.encode("utf-8", "surrogateescape") for label in whole.split(".")] if whole else []
    if any(not 0 < len(label) <= _LONGEST_LABEL for label in labels):
        return None
    encoded = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return encoded if len(encoded) <= _LONGEST_NAME else None
