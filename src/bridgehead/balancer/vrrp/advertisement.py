"""An advertisement of VRRPv3 by which a master resigns: its priority is 0, and another node takes over at once.

keepalived sends one only when it ends or leaves a group, and has then given the addresses up. `send_resignation` is for
a master that goes on, with a low priority, in case there is no other node. Source: RFC 5798, RFC 1071.
"""

from __future__ import annotations

import ipaddress
import socket
import struct
from typing import Final

from bridgehead.balancer.ranges import IpAddress

VRRP: Final = 112  # protocol number
_GROUPS: Final = {4: "224.0.0.18", 6: "ff02::12"}
_VERSION_AND_TYPE: Final = 0x31
_TTL: Final = 255
_HEADER: Final = struct.Struct("!BBBBHH")
_CHECKSUM_OFFSET: Final = 6
_PSEUDO_HEADER: Final = struct.Struct("!4s4sxBH")


def encode_resignation(router_id: int, address: IpAddress, interval: float, source: str) -> bytes:
    """Return the message. `interval`: seconds between advertisements. `address`: the one that the group advertises.

    `source`: this node's IPv4 address. For IPv6, the kernel fills in the checksum.
    """
    centiseconds = round(interval * 100)
    message = _HEADER.pack(_VERSION_AND_TYPE, router_id, 0, 1, centiseconds, 0) + address.packed
    if address.version == 6:
        return message
    source_packed, group = ipaddress.IPv4Address(source).packed, ipaddress.IPv4Address(_GROUPS[4]).packed
    checksum = _checksum(_PSEUDO_HEADER.pack(source_packed, group, VRRP, len(message)) + message)
    return message[:_CHECKSUM_OFFSET] + checksum.to_bytes(2, "big") + message[_CHECKSUM_OFFSET + 2 :]


def send_resignation(link: int, router_id: int, address: IpAddress, interval: float, source: str) -> None:
    """Send the message on a link, given by its number. Raises OSError."""
    message = encode_resignation(router_id, address, interval, source)
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    with socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, VRRP) as sock:
        if address.version == 6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_CHECKSUM, _CHECKSUM_OFFSET)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, _TTL)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_LOOP, 0)
            sock.sendto(message, (_GROUPS[6], 0, 0, link))
        else:
            sock.bind((source, 0))
            # struct ip_mreqn: group, local address, link
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=4s4si", bytes(4), bytes(4), link))
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, _TTL)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
            sock.sendto(message, (_GROUPS[4], 0))


def _checksum(data: bytes) -> int:
    """Return the Internet checksum of data of an even length."""
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
