"""The ports on which processes of a network namespace listen, from /proc/net.

Source: proc(5), net/ipv4/tcp_ipv4.c and net/ipv4/udp.c (columns), net/sctp/proc.c.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

_PROC: Final = Path("/proc/net")
_TCP_LISTEN: Final = "0A"
_UNCONNECTED: Final = "07"  # TCP_CLOSE, which unconnected UDP sockets have
_INODE_COLUMN: Final = 9
_FIRST_EPHEMERAL: Final = 32768  # Linux' default, if the namespace's own is unknown


class Listener(NamedTuple):
    """A bound socket that takes connections or datagrams. `address`: canonical; 0.0.0.0 or :: for every one."""

    protocol: str  # tcp, udp, sctp
    address: str
    port: int


class ListeningSocket(NamedTuple):
    """A listener's socket. `waiting`: established connections that the program has not accepted yet."""

    listener: Listener
    waiting: int
    inode: int


def listeners() -> frozenset[Listener]:
    """Return the sockets at ports that processes choose: below those that the kernel gives to clients.

    Blocks for the time of reading some files. A file that the kernel does not have has no sockets.
    """
    end = _first_ephemeral()
    found: set[Listener] = set()
    for protocol, wanted in (("tcp", _TCP_LISTEN), ("udp", _UNCONNECTED)):
        for name in (protocol, f"{protocol}6"):
            with contextlib.suppress(OSError), (_PROC / name).open(encoding="ascii") as lines:
                found.update(one for one in parse_sockets(lines, protocol, wanted) if one.port < end)
    with contextlib.suppress(OSError), (_PROC / "sctp/eps").open(encoding="ascii") as lines:
        found.update(one for one in parse_sctp(lines) if one.port < end)
    return frozenset(found)


def parse_sockets(lines: Iterable[str], protocol: str, state: str) -> Iterator[Listener]:
    """Yield the sockets in a state of /proc/net/tcp, tcp6, udp or udp6. TCP's come first, so the rest is not read."""
    for columns in _rows(lines, protocol, state):
        yield _listener(columns, protocol)


def parse_all_sockets(lines: Iterable[str], protocol: str) -> Iterator[ListeningSocket]:
    """Yield the listening sockets of /proc/net/tcp or tcp6, or the unconnected ones of udp or udp6."""
    for columns in _rows(lines, protocol, _TCP_LISTEN if protocol == "tcp" else _UNCONNECTED):
        if len(columns) > _INODE_COLUMN:
            waiting = int(columns[4].partition(":")[2], 16) if protocol == "tcp" else 0
            yield ListeningSocket(_listener(columns, protocol), waiting, int(columns[_INODE_COLUMN]))


def _rows(lines: Iterable[str], protocol: str, state: str) -> Iterator[list[str]]:
    for line in lines:
        columns = line.split()
        if len(columns) < 4 or not columns[0].rstrip(":").isdigit():
            continue  # the header
        if columns[3] != state:
            if protocol == "tcp":
                return
            continue
        yield columns


def _listener(columns: list[str], protocol: str) -> Listener:
    number, _, port = columns[1].partition(":")
    return Listener(protocol, _address(number), int(port, 16))


def parse_sctp(lines: Iterable[str]) -> Iterator[Listener]:
    """Yield the endpoints of /proc/net/sctp/eps: ENDPT SOCK STY SST HBKT LPORT UID INODE LADDRS."""
    for found in parse_sctp_sockets(lines):
        yield found.listener


def parse_sctp_sockets(lines: Iterable[str]) -> Iterator[ListeningSocket]:
    """Yield the endpoints of /proc/net/sctp/eps with their inodes."""
    for line in lines:
        columns = line.split()
        if len(columns) > 5 and columns[5].isdigit():
            inode = int(columns[7]) if len(columns) > 7 and columns[7].isdigit() else 0
            for text in columns[8:] or ["0.0.0.0"]:
                with contextlib.suppress(ValueError):
                    listener = Listener("sctp", str(ipaddress.ip_address(text)), int(columns[5]))
                    yield ListeningSocket(listener, 0, inode)


def _address(text: str) -> str:
    """Return the address of hexadecimal numbers of 32 bits, each in the byte order of the machine."""
    numbers = [int(text[i : i + 8], 16) for i in range(0, len(text), 8)]
    packed = b"".join(socket.htonl(number).to_bytes(4, "big") for number in numbers)
    address = ipaddress.ip_address(packed)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


def _first_ephemeral() -> int:
    try:
        return int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text("ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return _FIRST_EPHEMERAL
