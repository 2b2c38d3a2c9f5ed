"""Replies by UDP from the address that was asked, where one socket serves every address of the machine.

Left alone, the kernel takes the one of its addresses that is nearest to the client, who accepts no answer but from that
which he asked. `server.py` calls this. TCP connections keep their addresses by themselves.
"""

from __future__ import annotations

import socket

_IP_PKTINFO = 8  # linux/in.h; Python has no name for it
CONTROL_BYTES = 64  # room for what the kernel tells of a datagram

Control = list[tuple[int, int, bytes]]


def is_every_address(udp: socket.socket) -> bool:
    """Whether the socket serves whatever addresses the machine has, now or later."""
    return udp.getsockname()[0] in ("0.0.0.0", "::")


def tell_addresses(udp: socket.socket) -> None:
    """Have the kernel tell of each datagram to which address it came."""
    if udp.family == socket.AF_INET6:
        udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        udp.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)


def answer_from(told: Control) -> Control:
    """What to say to `sendmsg` so that the reply to a datagram of which `told` was heard leaves from its address.

    Only from there: by which link is the routing table's business, and may be another than it came by.
    """
    for level, kind, data in told:
        if (
            level == socket.IPPROTO_IP and kind == _IP_PKTINFO
        ):  # struct in_pktinfo: link, address of ours, as in the header
            return [(level, kind, bytes(4) + data[4:8] + bytes(4))]
        if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:  # struct in6_pktinfo: address, link
            return [(level, kind, data[:16] + bytes(4))]
    return []
