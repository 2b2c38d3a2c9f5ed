"""Parsers of the texts in which the kernel and its programs show connections, virtual servers, interfaces and routes.

Lines that are not understood are left out. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

import msgspec

from .network_state import AddressPort, Connection, Destination, Interface, Route, VirtualServer

T = TypeVar("T")

PROTOCOLS: Final = frozenset(("tcp", "udp", "sctp"))

_BITS: Final = {4: 32, 6: 128}
_FLAG_UP: Final = "UP"


def parse_connections(lines: Iterable[str]) -> Iterator[Connection]:
    """Yield the TCP, UDP and SCTP flows of /proc/net/nf_conntrack, or of `conntrack -L -o extended`."""
    for line in lines:
        with contextlib.suppress(ValueError, IndexError, KeyError):
            connection = _parse_connection(line.split())
            if connection is not None:
                yield connection


def _parse_connection(fields: list[str]) -> Connection | None:
    """Return a flow: `ipv4 2 tcp 6 431999 ESTABLISHED src=10.0.0.1 ... [ASSURED] mark=0 use=1`.

    Raises ValueError, IndexError, KeyError.
    """
    if fields[2] not in PROTOCOLS:
        return None
    timeout, state = None, ""
    values: list[dict[str, str]] = [{}, {}]  # of the first packet's direction, of the replies'
    flags = set()
    for word in fields[4:]:
        key, separator, value = word.partition("=")
        if separator:
            # Both directions have the same keys, and the keys after them are in the second one.
            values[1 if key in values[0] or "src" in values[1] else 0][key] = value
        elif word.startswith("["):
            flags.add(word)
        elif word.isdigit():
            timeout = int(word)
        elif word.isupper():
            state = word
    sent, replied = values
    has_counters = "packets" in sent and "packets" in replied
    others = sent | replied
    return Connection(
        protocol=fields[2],
        source=_address_port(sent["src"], sent["sport"]),
        destination=_address_port(sent["dst"], sent["dport"]),
        reply_source=_address_port(replied["src"], replied["sport"]),
        reply_destination=_address_port(replied["dst"], replied["dport"]),
        state=state,
        is_assured="[ASSURED]" in flags,
        is_unreplied="[UNREPLIED]" in flags,
        packets=(int(sent["packets"]), int(replied["packets"])) if has_counters else None,
        bytes=(int(sent["bytes"]), int(replied["bytes"])) if has_counters else None,
        age=float(others["delta-time"]) if "delta-time" in others else None,
        timeout=timeout,
        mark=int(others.get("mark", "0")),
        zone=int(others.get("zone", "0")),
    )


def _address_port(address: str, port: str) -> AddressPort:
    return AddressPort(str(ipaddress.ip_address(address)), int(port))


def parse_virtual_servers(lines: Iterable[str], ticks: int = 0) -> tuple[VirtualServer, ...]:
    """Return the virtual servers of /proc/net/ip_vs. Numbers are hexadecimal, but for weights and connections.

    `ticks`: of the kernel's clock in a second (HZ), in which it shows the time of persistence; 0: unknown.
    """
    found: list[VirtualServer] = []
    destinations: list[Destination] = []
    for line in lines:
        fields = line.split()
        with contextlib.suppress(ValueError, IndexError):
            if fields[0] == "->" and found:
                address, port = _hexadecimal(fields[1])
                destinations.append(
                    Destination(
                        address=address,
                        port=port,
                        forwarding=fields[2],
                        weight=int(fields[3]),
                        active=int(fields[4]),
                        inactive=int(fields[5]),
                    )
                )
            elif fields[0] in ("TCP", "UDP", "SCTP", "FWM"):
                server = _parse_virtual_server(fields, ticks)
                _close(found, destinations)
                found.append(server)
    _close(found, destinations)
    return tuple(found)


def _close(found: list[VirtualServer], destinations: list[Destination]) -> None:
    """Give the last server its destinations. The family of one with a mark is that of its destinations."""
    if found and destinations:
        family = 6 if ":" in destinations[0].address else 4
        found[-1] = msgspec.structs.replace(found[-1], destinations=tuple(destinations), family=family)
    destinations.clear()


def _parse_virtual_server(fields: list[str], ticks: int) -> VirtualServer:
    """Return a server: `TCP  0A600001:0050 rr persistent 1080000 FFFFFFFF`. Raises ValueError, IndexError."""
    seconds = None
    if "persistent" in fields:
        seconds = int(fields[fields.index("persistent") + 1]) // ticks if ticks else 0
    if fields[0] == "FWM":
        return VirtualServer(mark=int(fields[1], 16), scheduler=fields[2], persistent_seconds=seconds)
    address, port = _hexadecimal(fields[1])
    return VirtualServer(
        protocol=fields[0].lower(),
        address=address,
        port=port,
        family=6 if ":" in address else 4,
        scheduler=fields[2],
        persistent_seconds=seconds,
    )


def _hexadecimal(text: str) -> tuple[str, int]:
    """Return the address and port of `0A600001:0050` or `[fd00:0000:...]:0050`. Raises ValueError."""
    address, _, port = text.rpartition(":")
    if address.startswith("["):
        return str(ipaddress.IPv6Address(address.strip("[]"))), int(port, 16)
    return str(ipaddress.IPv4Address(int(address, 16))), int(port, 16)


class _LinkInfo(msgspec.Struct, frozen=True):
    info_kind: str = ""


class _Address(msgspec.Struct):
    family: str = ""
    local: str = ""
    prefixlen: int = 0


class _Link(msgspec.Struct):
    """An element of the output of `ip -j -d address`."""

    ifname: str = ""
    ifindex: int = 0
    mtu: int = 0
    flags: list[str] = []
    linkinfo: _LinkInfo = _LinkInfo()
    addr_info: list[_Address] = []


def parse_links(document: bytes) -> tuple[Interface, ...]:
    """Return the interfaces of `ip -j -d address`. Raises ValueError."""
    return tuple(
        Interface(
            name=link.ifname,
            index=link.ifindex,
            mtu=link.mtu,
            is_up=_FLAG_UP in link.flags,
            addresses=tuple(
                f"{each.local}/{each.prefixlen}" for each in link.addr_info if each.family in ("inet", "inet6")
            ),
            kind=link.linkinfo.info_kind,
        )
        for link in _decode(document, list[_Link])
        if link.ifname
    )


class _Hop(msgspec.Struct):
    gateway: str = ""
    dev: str = ""


class _Route(msgspec.Struct):
    """An element of the output of `ip -j -N route show table all`."""

    dst: str = ""
    type: str = "unicast"
    gateway: str = ""
    dev: str = ""
    table: str | int = "main"
    metric: int = 0
    prefsrc: str = ""
    nexthops: list[_Hop] = []


def parse_routes(document: bytes, family: int) -> tuple[Route, ...]:
    """Return the routes of `ip -j route show table all`, or with `-6`, by next hops. Raises ValueError."""
    return tuple(
        Route(
            destination=_network(route.dst, family),
            family=family,
            device=hop.dev,
            via=hop.gateway,
            kind=route.type,
            table=str(route.table),
            metric=route.metric,
            source=route.prefsrc,
        )
        for route in _decode(document, list[_Route])
        for hop in (route.nexthops or [_Hop(route.gateway, route.dev)])
        if route.dst
    )


def _network(text: str, family: int) -> str:
    return text if "/" in text or text == "default" else f"{text}/{_BITS[family]}"


def _decode(document: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(document.strip() or b"[]", type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(f"not the output of ip -j: {error}") from None


def parse_sysctls(lines: Iterable[str]) -> dict[str, str]:
    """Return the sysctls of lines `/proc/sys/net/ipv4/ip_forward:1`; a tab in a value becomes a blank."""
    found = {}
    for line in lines:
        path, colon, value = line.rstrip("\n").partition(":")
        if colon and path.startswith("/proc/sys/"):
            found[path.removeprefix("/proc/sys/")] = " ".join(value.split())
    return found
