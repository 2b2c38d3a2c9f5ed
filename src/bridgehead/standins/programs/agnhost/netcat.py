"""The netcat of agnhost's image, as a client: OpenBSD's options, which BusyBox's lacks (-v, -t, -u, -z)."""

from __future__ import annotations

import getopt
import os
import selectors
import socket
import sys

from bridgehead.standins.programs.stream_server import fail
from bridgehead.standins.standin import Launch

_CHUNK = 64 << 10  # bytes


def run(launch: Launch) -> int:
    launch.started()
    try:
        options, arguments = getopt.gnu_getopt(list(launch.argv[1:]), "46Nntuvzp:q:s:w:")
    except getopt.GetoptError as error:
        return fail(f"nc: {error}")
    flags = dict(options)
    if len(arguments) != 2 or not arguments[1].isdigit():
        return fail("usage: nc [-46Nntuvz] [-p source_port] [-s source] [-w timeout] host port")
    host, port = arguments
    wait = float(flags["-w"]) if "-w" in flags else None
    kind = socket.SOCK_DGRAM if "-u" in flags else socket.SOCK_STREAM
    protocol = "udp" if "-u" in flags else "tcp"
    try:
        family, *_, address = socket.getaddrinfo(host, int(port), _family(flags), kind)[0]
        with socket.socket(family, kind) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if "-p" in flags or "-s" in flags:
                connection.bind((flags.get("-s", ""), int(flags.get("-p", "0"))))
            connection.settimeout(wait)
            connection.connect(address)
            if "-v" in flags:
                sys.stderr.write(f"Connection to {host} ({address[0]}) {port} port [{protocol}/*] succeeded!\n")
            if "-z" not in flags:
                _copy(connection, wait, ends_with_input="-N" in flags)
    except (OSError, ValueError) as error:
        what = f"nc: connect to {host} port {port} ({protocol}) failed: "
        return fail(what + (error.strerror if isinstance(error, OSError) and error.strerror else str(error)))
    return 0


def _family(flags: dict[str, str]) -> socket.AddressFamily:
    if "-4" in flags:
        return socket.AF_INET
    return socket.AF_INET6 if "-6" in flags else socket.AF_UNSPEC


def _copy(connection: socket.socket, wait: float | None, *, ends_with_input: bool) -> None:
    """Send standard input and print what arrives, until the peer ends it or nothing happens for `wait` seconds."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        try:
            selector.register(0, selectors.EVENT_READ)
        except PermissionError:  # a regular file, which epoll refuses
            connection.sendall(sys.stdin.buffer.read())
        while ready := selector.select(wait):
            for key, _ in ready:
                if key.fd == 0:
                    data = os.read(0, _CHUNK)
                    connection.sendall(data)
                    if not data:
                        selector.unregister(0)
                        if ends_with_input:
                            connection.shutdown(socket.SHUT_WR)
                else:
                    data = connection.recv(_CHUNK)
                    if not data:
                        return
                    os.write(1, data)
