"""TCP connections of BGP sessions: their options, and attempts to connect."""

from __future__ import annotations

import base64
import errno
import os
import select
import socket
from collections.abc import Generator

from .exabgp import SessionSettings


def set_password(sock: socket.socket, settings: SessionSettings) -> None:
    """Let only packets of the peer pass that are signed with the session's password (RFC 2385).

    Without a password, remove one that a listening socket has. Raises ExaBGP's NetworkError.
    """
    from exabgp.reactor.network.tcp import md5

    # Base64 is ExaBGP's only form that may have any character.
    password = base64.b64encode(settings.password.encode()).decode()
    md5(sock, str(settings.peer_address), settings.port, password, True)


def set_options(sock: socket.socket, settings: SessionSettings) -> None:
    """Set the options of a connection. Raises OSError."""
    sock.setblocking(False)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if settings.ttl and sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, settings.ttl)
    elif settings.ttl:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, settings.ttl)


def make_socket(settings: SessionSettings) -> socket.socket:
    """Return a socket that is not connected yet. Raises OSError."""
    family = socket.AF_INET6 if settings.peer_address.version == 6 else socket.AF_INET
    return socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)


def connecting(sock: socket.socket, settings: SessionSettings) -> Generator[bool, None, None]:
    """Connect a socket; yields False while the peer has not answered. Raises OSError and ExaBGP's NetworkError."""
    if settings.password:
        set_password(sock, settings)
    set_options(sock, settings)
    sock.bind((str(settings.local_address), 0))
    code = sock.connect_ex((str(settings.peer_address), settings.port))
    while code == errno.EINPROGRESS:
        yield False
        poller = select.poll()
        poller.register(sock, select.POLLOUT)
        if poller.poll(0):
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        raise OSError(code, os.strerror(code))
