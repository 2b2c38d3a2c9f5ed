"""Sends a DNS query over UDP, twice if need be, and waits. Runs in a network namespace of a node or pod."""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import time
from typing import NamedTuple

from bridgehead.dns.messages.wire import HEADER_SIZE, IN, RCODE_NAMES, RD, TYPES, encode_name

_PORT = 53
_PACKETS = 2  # a lost one is no verdict: resolvers send another one, too


class Query(NamedTuple):
    """`server`: an address. `name`: without the dot at its end. `seconds`: the bound of the wait for both packets."""

    server: str
    name: str
    seconds: float


def ask(query: Query) -> str:
    """Return the response code of the answer; "" without one. Blocks."""
    number = secrets.randbelow(1 << 16)
    message = struct.pack("!6H", number, RD << 8, 1, 0, 0, 0) + encode_name(query.name)
    message += struct.pack("!2H", TYPES["A"], IN)
    family = socket.AF_INET6 if ":" in query.server else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as client:
        with contextlib.suppress(OSError):
            client.connect((query.server, _PORT))
        for _ in range(_PACKETS):
            deadline = time.monotonic() + query.seconds / _PACKETS
            with contextlib.suppress(OSError):  # no answer in time, or an ICMP error
                client.send(message)
                while (left := deadline - time.monotonic()) > 0:
                    client.settimeout(left)
                    answer = client.recv(4096)
                    if len(answer) >= HEADER_SIZE and answer[:2] == message[:2]:
                        code = answer[3] & 0x0F
                        return RCODE_NAMES[code] if code < len(RCODE_NAMES) else f"RCODE {code}"
    return ""
