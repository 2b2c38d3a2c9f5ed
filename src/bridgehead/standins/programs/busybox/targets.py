"""Host and port as BusyBox's network programs take them, with their error messages."""

from __future__ import annotations

import socket
from typing import Any, Final, NamedTuple

_HIGHEST_PORT: Final = 65535


class UnknownHost(Exception):
    """The message is BusyBox's, without the program's name."""


class Target(NamedTuple):
    """A socket address. `str()` is how BusyBox prints it."""

    family: socket.AddressFamily
    address: tuple[str | int, ...]

    @property
    def host(self) -> str:
        return str(self.address[0])

    def describe_failure(self, error: OSError) -> str:
        """The message for a failed connect; BusyBox names IPv4 addresses only."""
        host = f" ({self.host})" if self.family == socket.AF_INET else ""
        return f"can't connect to remote host{host}: {error.strerror}"

    def __str__(self) -> str:
        host = f"[{self.host}]" if self.family == socket.AF_INET6 else self.host
        return f"{host}:{self.address[1]}"


def split_host(text: str, default_port: int) -> tuple[str, int]:
    """Split HOST, HOST:PORT, [ADDRESS]:PORT or a bare IPv6 address. Raises `UnknownHost`."""
    host, port = text, ""
    has_port = False
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            raise UnknownHost(f"bad address '{text}'")
        has_port, port = bool(rest), rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
        has_port = True
    if not has_port:
        return host, default_port
    if not (port.isascii() and port.isdigit()) or int(port[:6]) > _HIGHEST_PORT:
        raise UnknownHost(f"bad port '{port}'")
    return host, int(port)


def find_target(
    text: str, default_port: int, family: socket.AddressFamily = socket.AF_UNSPEC, *, has_port: bool = True
) -> Target:
    """Resolve a host by the C library; IPv4 is preferred. Raises `UnknownHost`."""
    host, port = split_host(text, default_port) if has_port else (text, default_port)
    try:
        found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM) if host else []
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise UnknownHost(f"bad address '{text}'")
    chosen = next((each for each in found if each[0] == socket.AF_INET), found[0])
    address: tuple[Any, ...] = chosen[4]
    return Target(chosen[0], address)
