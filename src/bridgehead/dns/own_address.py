"""Replies by UDP from the address that was asked, where one socket serves every address of the machine.

Left alone, the kernel takes the one of its addresses that is nearest to the client, who accepts no answer but from that
which he asked. `server.py` calls this. TCP connections keep their addresses by themselves.
"""

from __future__ import annotations

import socket

_IPV4 = int(socket.IPPROTO_IP)
_IP_PKTINFO = 8  # linux/in.h; Python has no name for it
_ANY_LINK = bytes(4)
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
        udp.setsockopt(_IPV4, _IP_PKTINFO, 1)


def answer_from(told: Control) -> Control:
    """What to say to `sendmsg` so that the reply to a datagram of which `told` was heard leaves from its address.

    Only from there: by which link is the routing table's business, and may be another than it came by.
    """
    if not told:
        return told
    level, kind, data = told[0]  # nothing else was asked for
    if level == _IPV4:  # struct in_pktinfo: link, address of ours, address in the header
        return [(level, kind, _ANY_LINK + data[4:8] + _ANY_LINK)]
    return [(level, kind, data[:16] + _ANY_LINK)]  # struct in6_pktinfo: address, link
