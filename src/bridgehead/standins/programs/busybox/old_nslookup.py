"""`nslookup` as BusyBox had it up to 1.28, in stand-ins for these versions.

It asks by the C library's resolver, so it follows the search domains of /etc/resolv.conf for names with dots, too, and
prints the names of addresses. Tutorials use these versions for that: from 1.29 on, BusyBox queries by itself, and takes
a name with a dot for a whole one. Source: BusyBox' manual and the outputs in Kubernetes' tutorials. Arguments: HOST and
a DNS server, which has to have an IPv4 address.
"""

from __future__ import annotations

import contextlib
import ctypes
import socket
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from bridgehead.standins.programs.stream_server import fail
from bridgehead.standins.standin import Launch

_USAGE: Final = """\
Usage: nslookup [HOST] [SERVER]

Query the nameserver for the IP address of the given HOST
optionally using a specified DNS server"""
# Offsets in resolv.h's `struct __res_state`, which is part of glibc's binary interface.
_SERVER_COUNT: Final = 16
_SERVERS: Final = 20
_SERVER_ADDRESS: Final = _SERVERS + 4  # after the family and the port of `struct sockaddr_in`


class Address(NamedTuple):
    """An address of a host, with the name that the DNS has for it, "" for none."""

    address: str
    name: str = ""


def run(launch: Launch) -> int:
    """Print the DNS server and the addresses of a host; returns 1 if there are none."""
    arguments = launch.argv[1:]
    if not 1 <= len(arguments) <= 2 or arguments[0].startswith("-"):
        return fail(_USAGE)
    host, *servers = arguments
    if servers:
        try:
            server = socket.getaddrinfo(servers[0], None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0]
        except OSError:
            return fail(f"nslookup: bad address '{servers[0]}'")
        _use_server(str(server))
    else:
        server = find_server(_read_configuration())
    sys.stdout.write(format_host("Server:", str(server), _find(str(server))) + "\n")
    sys.stdout.flush()
    try:
        found = _find(host)
    except (OSError, UnicodeError):  # a name that no host can have
        return fail(f"nslookup: can't resolve '{host}'")
    sys.stdout.write(format_host("Name:", host, found))
    return 0


def find_server(configuration: str) -> str:
    """Return the first DNS server in the text of /etc/resolv.conf; the resolver's default is this machine."""
    for line in configuration.splitlines():
        match line.split():
            case ["nameserver", address, *_]:
                return address
    return "127.0.0.1"


def format_host(header: str, host: str, found: Iterable[Address]) -> str:
    """Return the lines for a host."""
    lines = [f"{header:10} {host}"]
    lines += [f"Address {number}: {' '.join(filter(None, each))}" for number, each in enumerate(found, 1)]
    return "".join(f"{line}\n" for line in lines)


def _find(host: str) -> list[Address]:
    """Raises OSError, UnicodeError."""
    found = []
    for *_, target in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
        name = ""
        with contextlib.suppress(OSError):
            name = socket.getnameinfo(target, socket.NI_NAMEREQD)[0]
        found.append(Address(str(target[0]), name))
    return found


def _read_configuration() -> str:
    try:
        with open("/etc/resolv.conf", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def _use_server(address: str) -> None:
    """Let this thread's resolver ask one server, with an IPv4 address, instead of those in /etc/resolv.conf."""
    library = ctypes.CDLL(None)
    initialize, find_state = library["__res_init"], library["__res_state"]
    find_state.restype = ctypes.c_void_p
    initialize()
    state = find_state()
    ctypes.c_int.from_address(state + _SERVER_COUNT).value = 1
    ctypes.memmove(state + _SERVER_ADDRESS, socket.inet_aton(address), 4)
