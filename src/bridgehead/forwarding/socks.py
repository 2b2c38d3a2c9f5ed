"""The requests of SOCKS5 (RFC 1928) and the answers to them; only CONNECT, without authentication.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from typing import Final, NamedTuple

VERSION: Final = 5
NO_AUTHENTICATION: Final = bytes((VERSION, 0))
NO_ACCEPTABLE_METHOD: Final = bytes((VERSION, 0xFF))

# Replies (RFC 1928, section 6).
SUCCEEDED: Final = 0
NOT_ALLOWED: Final = 2
HOST_UNREACHABLE: Final = 4
REFUSED: Final = 5
COMMAND_NOT_SUPPORTED: Final = 7
ADDRESS_TYPE_NOT_SUPPORTED: Final = 8

_CONNECT: Final = 1
_IPV4, _NAME, _IPV6 = 1, 3, 4


class Unsupported(Exception):
    """A request that is not served; `reply` is the code of its answer."""

    def __init__(self, reply: int) -> None:
        super().__init__(reply)
        self.reply = reply


class Request(NamedTuple):
    """`host`: a name or an address."""

    host: str
    port: int


def accepts_no_authentication(methods: bytes) -> bool:
    return 0 in methods


def address_length(head: bytes) -> int:
    """Return how many bytes follow the first five of a request: its address, but one byte, and its port.

    Raises Unsupported.
    """
    version, command, _, kind, first = head
    if version != VERSION or command != _CONNECT:
        raise Unsupported(COMMAND_NOT_SUPPORTED)
    match kind:
        case 1:
            return 3 + 2
        case 3:
            return first + 2
        case 4:
            return 15 + 2
    raise Unsupported(ADDRESS_TYPE_NOT_SUPPORTED)


def parse_request(head: bytes, rest: bytes) -> Request:
    """Return the request whose first five bytes are `head`. Raises Unsupported."""
    port = int.from_bytes(rest[-2:], "big")
    if head[3] == _NAME:
        name = rest[:-2]
        if not name.isascii():
            raise Unsupported(HOST_UNREACHABLE)
        return Request(name.decode("ascii"), port)
    return Request(str(ipaddress.ip_address(head[4:] + rest[:-2])), port)


def reply(code: int) -> bytes:
    """Return an answer. The address in it is none: no client needs that of the connection."""
    return bytes((VERSION, code, 0, _IPV4, 0, 0, 0, 0, 0, 0))
