"""Socket options of the DNS server, some of which Python 3.11's `socket` lacks (linux/in.h, linux/in6.h).

IP_PKTINFO: UDP replies from the address that was asked, on a socket that serves every address of the machine. Without
it the kernel picks the source address of a reply by its route, and clients discard replies from an address that they
did not ask. TCP connections keep their addresses. `server.py` calls this.
"""

from __future__ import annotations

import socket
from typing import Final

# linux/in.h, level IPPROTO_IP
IP_PKTINFO: Final = 8
IP_FREEBIND: Final = 15

# linux/in6.h, level IPPROTO_IPV6
IPV6_FREEBIND: Final = 78

_IPV4 = int(socket.IPPROTO_IP)
_ANY_LINK = bytes(4)
CONTROL_BYTES = 64  # room for the ancillary data of a datagram

Control = list[tuple[int, int, bytes]]  # ancillary data: level, type, data


def is_wildcard(udp: socket.socket) -> bool:
    """Whether the socket serves every address of the machine, present and future."""
    return udp.getsockname()[0] in ("0.0.0.0", "::")


def enable_pktinfo(udp: socket.socket) -> None:
    """Have the kernel add to each datagram the address to which it was sent."""
    if udp.family == socket.AF_INET6:
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        udp.setsockopt(_IPV4, IP_PKTINFO, 1)


def source_of_reply(received: Control) -> Control:
    """Return the ancillary data with which a reply leaves from the address to which the query was sent.

    The link is left to the routing table: it may be another than the query's.
    """
    if not received:
        return received
    level, kind, data = received[0]  # the socket asks for nothing else
    if level == _IPV4:  # struct in_pktinfo: link, local address, destination address
        return [(level, kind, _ANY_LINK + data[4:8] + _ANY_LINK)]
    return [(level, kind, data[:16] + _ANY_LINK)]  # struct in6_pktinfo: address, link
