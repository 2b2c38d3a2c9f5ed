"""Bound sockets for listeners: at the port of the last run, or at any that the last run's rules do not lead to."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Container


def bound_socket(kind: socket.SocketKind, address: str, port: int, avoided: Container[int]) -> socket.socket:
    """Return a non-blocking socket at `port`, or at any other port if that is 0 or in use, but none of `avoided`.

    Raises OSError if there is no free socket or port.
    """
    if port:
        with contextlib.suppress(OSError):
            return _bind(kind, address, port)
    with contextlib.ExitStack() as rejected:  # held until a usable port is found, so that the kernel offers others
        while True:
            candidate = _bind(kind, address, 0)
            if candidate.getsockname()[1] not in avoided:
                return candidate
            rejected.enter_context(candidate)


def _bind(kind: socket.SocketKind, address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    new = socket.socket(family, kind | socket.SOCK_NONBLOCK)
    try:
        if port and kind == socket.SOCK_STREAM:
            # Connections of the last run may still be in TIME_WAIT.
            new.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        new.bind((address, port))
    except OSError:
        new.close()
        raise
    return new
