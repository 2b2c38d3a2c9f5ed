"""agnhost's connect: one connection, and a word for what became of it."""

from __future__ import annotations

import socket
import sys

from bridgehead.objects.times import parse_duration
from bridgehead.standins.standin import Launch

from .flags import CommandLine

# Socket type and protocol number.
_KINDS = {
    "tcp": (socket.SOCK_STREAM, 0),
    "udp": (socket.SOCK_DGRAM, 0),
    "sctp": (socket.SOCK_STREAM, socket.IPPROTO_SCTP),
}


def run(launch: Launch, line: CommandLine) -> int:
    launch.started()
    problem = connect(line)
    if problem:
        sys.stderr.write(problem + "\n")
    return 1 if problem else 0


def connect(line: CommandLine) -> str:
    """Connect, over UDP and SCTP also ask; return the word for the failure and its reason, "" for success."""
    protocol = line.flags.get("protocol", "tcp")
    if protocol not in _KINDS:
        return f"Unsupported protocol\n{protocol}"
    host, colon, port = (line.arguments[0] if len(line.arguments) == 1 else "").rpartition(":")
    if not colon or not port.isdigit():
        return f"UNKNOWN: {' '.join(line.arguments)!r} is not host:port"
    timeout = parse_duration(line.flags.get("timeout", "0")) or None
    try:
        family, *_, address = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_DGRAM)[0]
    except OSError as error:
        return f"DNS: {error}"
    kind, number = _KINDS[protocol]
    try:
        with socket.socket(family, kind, number) as connecting:
            connecting.settimeout(timeout)
            connecting.connect(address)
            if protocol != "tcp":
                connecting.send(f"{line.flags.get(f'{protocol}-data', 'hostname')}\n".encode())
                connecting.recv(1024)
    except TimeoutError:
        return "TIMEOUT"
    except ConnectionRefusedError:
        return "REFUSED"
    except OSError as error:
        return f"OTHER: {error}"
    return ""
