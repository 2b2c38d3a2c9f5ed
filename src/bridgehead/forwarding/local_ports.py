"""Ports of this machine's loopback for ports of Services, and the addresses that users type."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable
from typing import Final

from bridgehead.objects.core.services import ServicePort

LOOPBACK: Final = "127.0.0.1"

_HTTPS_PORTS: Final = (443, 6443, 8443)
# Ports of well-known programs that a browser cannot show (IANA's service names).
_OTHER_PORTS: Final = {
    22: "ssh", 25: "smtp", 53: "domain", 389: "ldap", 1883: "mqtt", 3306: "mysql", 4222: "nats", 5432: "postgresql",
    5672: "amqp", 6379: "redis", 9042: "cassandra", 9092: "kafka", 11211: "memcache", 27017: "mongodb",
}  # fmt: skip


class PortUnusable(Exception):
    """A port of this machine cannot be used. The text is the reason, in one line."""


def open_port(protocol: str, port: int, preferred: Iterable[int] = ()) -> socket.socket:
    """Return a non-blocking socket that is bound to `port`; if that is 0, to the first of `preferred` that is free.

    Ports below 1024 are not preferred, and any other port is taken if none is free. Raises PortUnusable.
    """
    if not port:
        for candidate in preferred:
            if candidate >= 1024:
                with contextlib.suppress(OSError):
                    return _bind(protocol, candidate)
    try:
        return _bind(protocol, port)
    except OSError as error:
        raise PortUnusable(f"port {port} of {LOOPBACK} ({protocol}): {_reason(error)}") from None


def show_address(port: ServicePort, bound: int) -> str:
    """Return the address of a local port as a user needs it, for example `http://127.0.0.1:30080`."""
    protocol = (port.app_protocol or "").rpartition("/")[2].lower() or port.name.lower()
    if port.protocol == "UDP":
        scheme = "udp"
    elif port.port in _HTTPS_PORTS or protocol.startswith(("https", "wss")):
        scheme = "https"
    elif port.port in _OTHER_PORTS or protocol in _OTHER_PORTS.values() or protocol.startswith(("tcp", "tls", "grpc")):
        scheme = "tcp"
    else:
        scheme = "http"
    return f"{scheme}://{LOOPBACK}:{bound}"


def _bind(protocol: str, port: int) -> socket.socket:
    kind = socket.SOCK_STREAM if protocol == "TCP" else socket.SOCK_DGRAM
    new = socket.socket(socket.AF_INET, kind | socket.SOCK_NONBLOCK)
    try:
        if kind == socket.SOCK_STREAM:
            new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of the last run may be in TIME_WAIT
        new.bind((LOOPBACK, port))
        if kind == socket.SOCK_STREAM:
            new.listen(1024)  # with SO_REUSEADDR, only this finds out whether the port is taken
    except OSError:
        new.close()
        raise
    return new


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "it is taken by another program"
        case errno.EACCES:
            return "only root may use it; choose one from 1024 on"
    return os.strerror(error.errno or 0)
