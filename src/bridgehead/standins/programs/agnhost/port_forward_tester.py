"""agnhost's port-forward-tester: one connection on which data is expected and sent, by environment variables."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from types import FrameType
from typing import Final

import msgspec

from bridgehead.standins.standin import Launch

from .flags import CommandLine

_LINGER_SECONDS: Final = 0.5  # for the client to see the end before the connection is closed


class Exchange(msgspec.Struct, frozen=True):
    """The data of the connection. `address` is empty for the loopback address."""

    address: str
    port: int
    expected: bytes
    chunks: int
    chunk_size: int  # bytes
    interval: float  # seconds between chunks


def run(launch: Launch, line: CommandLine) -> int:
    """Return 0; as agnhost 2 to 4 if the client sends other data or reads nothing. Raises OSError, ValueError."""
    exchange = parse_exchange(launch.environment)
    signal.signal(signal.SIGTERM, _end)
    family = socket.AF_INET6 if ":" in exchange.address else socket.AF_INET
    with socket.create_server((exchange.address or "localhost", exchange.port), family=family) as listener:
        launch.started()
        connection, _ = listener.accept()
    with connection:
        _report("Accepted client connection")
        if code := _receive(connection, exchange.expected) or _send(connection, exchange):
            return code
        _report("Shutting down connection")
        connection.shutdown(socket.SHUT_WR)
        time.sleep(_LINGER_SECONDS)
    _report("Done")
    return 0


def parse_exchange(environment: Mapping[str, str]) -> Exchange:
    """Read the variables. Raises ValueError."""

    def number(name: str) -> int:
        try:
            return int(environment.get(name, ""))
        except ValueError:
            raise ValueError(f"Error parsing {name} {environment.get(name, '')!r}") from None

    return Exchange(
        environment.get("BIND_ADDRESS", ""),
        number("BIND_PORT"),
        environment.get("EXPECTED_CLIENT_DATA", "").encode(),
        number("CHUNKS"),
        number("CHUNK_SIZE"),
        number("CHUNK_INTERVAL") / 1000,
    )


def _receive(connection: socket.socket, expected: bytes) -> int:
    if not expected:
        return 0
    read = connection.recv(len(expected))
    if len(read) != len(expected):
        _report(f"Expected to read {len(expected)} bytes from client, but got {len(read)} instead. err=EOF")
        return 2
    if read != expected:
        _report(f"Expect to read {expected.decode()!r}, but got {read.decode('utf-8', 'replace')!r}. err=<nil>")
        return 3
    _report("Received expected client data")
    return 0


def _send(connection: socket.socket, exchange: Exchange) -> int:
    for number in range(exchange.chunks):
        if number:
            time.sleep(exchange.interval)
        try:
            connection.sendall(b"x" * exchange.chunk_size)
        except OSError as error:
            _report(f"Expected to write {exchange.chunk_size} bytes from client, but wrote 0 instead. err={error}")
            return 4
    return 0


def _report(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _end(number: int, frame: FrameType | None) -> None:
    os._exit(2)  # as Go's runtime; the first process of a container ends by a signal only if it handles it
