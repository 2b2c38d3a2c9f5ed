"""ARP over Ethernet: encoding and decoding of whole frames.

Pure: no I/O, no clock, no randomness. Source: RFC 826, RFC 5227.
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

from bridgehead.network.uapi.if_arp import ARPHRD_ETHER, ARPOP_REPLY, ARPOP_REQUEST
from bridgehead.network.uapi.if_ether import ETH_ALEN, ETH_P_ARP

BROADCAST: Final = b"\xff" * ETH_ALEN

_FRAME: Final = struct.Struct("!6s6s8sH6s4s6s4s")
_IPV4_PROTOCOL: Final = 0x0800
_IPV4_BYTES: Final = 4
# Bytes from the type in Ethernet's header to the lengths in that of ARP.
_IPV4_ON_ETHERNET: Final = struct.pack("!HHHBB", ETH_P_ARP, ARPHRD_ETHER, _IPV4_PROTOCOL, ETH_ALEN, _IPV4_BYTES)
_NO_MAC: Final = bytes(ETH_ALEN)
_NO_ADDRESS: Final = bytes(_IPV4_BYTES)
_SHORTEST_FRAME: Final = 60  # of Ethernet, without the checksum


class ArpPacket(NamedTuple):
    """An ARP packet with the Ethernet destination that it was sent to. Addresses are packed."""

    destination: bytes
    is_request: bool
    sender_mac: bytes
    sender: bytes
    target_mac: bytes
    target: bytes


def decode(frame: bytes) -> ArpPacket | None:
    """Return the packet; None for what is no ARP request or reply about IPv4 on Ethernet."""
    if len(frame) < _FRAME.size:
        return None
    destination, _, kind, operation, *addresses = _FRAME.unpack_from(frame)
    if kind != _IPV4_ON_ETHERNET or operation not in (ARPOP_REQUEST, ARPOP_REPLY):
        return None
    return ArpPacket(destination, operation == ARPOP_REQUEST, *addresses)


def encode(packet: ArpPacket) -> bytes:
    """Return the frame of a packet."""
    frame = _FRAME.pack(
        packet.destination,
        packet.sender_mac,
        _IPV4_ON_ETHERNET,
        ARPOP_REQUEST if packet.is_request else ARPOP_REPLY,
        packet.sender_mac,
        packet.sender,
        packet.target_mac,
        packet.target,
    )
    return frame.ljust(_SHORTEST_FRAME, b"\0")


def reply(request: ArpPacket, mac: bytes) -> bytes:
    """Return the frame that answers a request: the requested address is at `mac`."""
    return encode(ArpPacket(request.sender_mac, False, mac, request.target, request.sender_mac, request.sender))


def gratuitous(address: ipaddress.IPv4Address, mac: bytes) -> tuple[bytes, bytes]:
    """Return the frames that announce an address to all: a request and a reply, since systems differ in what they read.

    Source: RFC 5227, section 3; MetalLB sends both, too.
    """
    packed = address.packed
    return (
        encode(ArpPacket(BROADCAST, True, mac, packed, _NO_MAC, packed)),
        encode(ArpPacket(BROADCAST, False, mac, packed, BROADCAST, packed)),
    )


def probe(address: ipaddress.IPv4Address, mac: bytes) -> bytes:
    """Return the frame that asks whether another machine has the address, without claiming it (RFC 5227, 2.1.1)."""
    return encode(ArpPacket(BROADCAST, True, mac, _NO_ADDRESS, _NO_MAC, address.packed))
