"""A BGP router that answers nonsense, floods or hangs up: one answer for each connection, in turn, again and again.

Usage: python -m tests.integration.hostile_bgp_peer ADDRESS INDEX. It serves each `PEERS`th of `answers` from INDEX on,
and prints a line when it has finished with a connection.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import socket
import struct
import sys
from collections.abc import Iterator

MARKER = b"\xff" * 16
OPEN, UPDATE, NOTIFICATION, KEEPALIVE, ROUTE_REFRESH = 1, 2, 3, 4, 5
AS_NUMBER = 64513
PATIENCE_SECONDS = 2
PEERS = 4
PORT = 179


def message(kind: int, body: bytes = b"", length: int | None = None) -> bytes:
    return MARKER + struct.pack("!HB", 19 + len(body) if length is None else length, kind) + body


def open_message(version: int = 4, options: bytes = b"", hold_time: int = 90) -> bytes:
    body = struct.pack("!BHH4sB", version, AS_NUMBER, hold_time, bytes([10, 9, 9, 9]), len(options))
    return message(OPEN, body + options)


def update(attributes: bytes, prefixes: bytes = b"") -> bytes:
    return message(UPDATE, struct.pack("!HH", 0, len(attributes)) + attributes + prefixes)


HANDSHAKE = open_message() + message(KEEPALIVE)
ORIGIN, AS_PATH, NEXT_HOP = b"\x40\x01\x01\x00", b"\x40\x02\x04\x02\x01\xfc\x01", b"\x40\x03\x04\x0a\x00\x00\x01"


def flood() -> Iterator[bytes]:
    """Yield valid routes by the thousand."""
    for first, second in itertools.product(range(11, 31), range(256)):
        yield update(ORIGIN + AS_PATH + NEXT_HOP, bytes([24, first, second, 0]))


def answers() -> list[list[bytes]]:
    noise = random.Random(7)
    return [
        [b""],
        [noise.randbytes(5000)],
        [MARKER],
        [message(OPEN, length=5)],
        [message(OPEN, length=65535) + bytes(9000)],
        [open_message(version=9)],
        [open_message(hold_time=1)],
        [open_message(options=b"\x02\xff\x01\x04")],
        [message(NOTIFICATION, b"\x06\x09")],
        [message(UPDATE, b"\xff" * 60)],
        [HANDSHAKE + message(77, b"?")],
        [HANDSHAKE + update(b"\xff" * 40)],
        [HANDSHAKE + update(ORIGIN + b"\x40\x02\xff\x02", b"\x21\x01\x02\x03\x04\x05")],
        [HANDSHAKE + update(b"", b"\x18\x0a\x00\x01")],
        [HANDSHAKE + message(NOTIFICATION, noise.randbytes(200))],
        [HANDSHAKE, *flood()],
        [HANDSHAKE + open_message()],
        [HANDSHAKE, *[message(ROUTE_REFRESH, b"\x00\x01\x00\x01") * 100] * 20],
        [HANDSHAKE + noise.randbytes(100_000)],
    ]


def main(address: str, index: str) -> None:
    with socket.create_server((address, PORT)) as server:
        for answer in itertools.cycle(answers()[int(index) :: PEERS]):
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.settimeout(PATIENCE_SECONDS)
                connection.recv(4096)  # its OPEN
                for data in answer:
                    connection.sendall(data)
                while answer[0] and connection.recv(4096):
                    pass
            print(flush=True)  # noqa: T201 - read by the test


if __name__ == "__main__":
    main(*sys.argv[1:])
