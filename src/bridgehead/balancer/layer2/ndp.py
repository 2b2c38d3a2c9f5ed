"""IPv6 neighbour discovery: solicitations and advertisements, as whole Ethernet frames.

Pure: no I/O, no clock, no randomness. Source: RFC 4861, RFC 4291 (2.7.1), RFC 2464 (7).
"""

from __future__ import annotations

import ipaddress
import struct
from typing import Final, NamedTuple

from bridgehead.network.uapi.icmp6 import (
    ND_NEIGHBOR_ADVERT,
    ND_NEIGHBOR_SOLICIT,
    ND_OPT_SOURCE_LINKADDR,
    ND_OPT_TARGET_LINKADDR,
)
from bridgehead.network.uapi.if_ether import ETH_P_IPV6

_ETHERNET: Final = struct.Struct("!6s6sH")
_IPV6: Final = struct.Struct(
    "!IHBB16s16s"
)  # version, class and flow; payload length; next header; hop limit; addresses
_MESSAGE: Final = struct.Struct("!BBHI16s")  # type, code, checksum, flags, target
_OPTION: Final = struct.Struct("!BB")  # type, length in units of 8 bytes
_ICMPV6: Final = 58
_VERSION_6: Final = 6 << 28
_HOP_LIMIT: Final = 255  # a packet with less has passed a router
_SOLICITED, _OVERRIDE = 0x40000000, 0x20000000
_UNSPECIFIED: Final = bytes(16)
ALL_NODES: Final = ipaddress.IPv6Address("ff02::1").packed
_SOLICITED_NODE: Final = ipaddress.IPv6Address("ff02::1:ff00:0").packed[:13]


class NeighbourPacket(NamedTuple):
    """A solicitation or an advertisement. Addresses are packed.

    `destination`: the Ethernet address that it was sent to. `sender_mac`: that of the link-layer option, otherwise the
    Ethernet source.
    """

    destination: bytes
    is_solicitation: bool
    sender_mac: bytes
    source: bytes
    target: bytes


def solicited_node(address: ipaddress.IPv6Address) -> bytes:
    """Return the multicast group to which solicitations of an address are sent."""
    return _SOLICITED_NODE + address.packed[13:]


def multicast_mac(group: bytes) -> bytes:
    """Return the Ethernet address of an IPv6 multicast group."""
    return b"\x33\x33" + group[12:]


def decode(frame: bytes) -> NeighbourPacket | None:
    """Return the packet; None for another one, or one that RFC 4861 (7.1) has discarded."""
    if len(frame) < _ETHERNET.size + _IPV6.size + _MESSAGE.size:
        return None
    destination, source_mac, kind = _ETHERNET.unpack_from(frame)
    version, length, next_header, hop_limit, source, _ = _IPV6.unpack_from(frame, _ETHERNET.size)
    if kind != ETH_P_IPV6 or version >> 28 != 6 or next_header != _ICMPV6 or hop_limit != _HOP_LIMIT:
        return None
    begin = _ETHERNET.size + _IPV6.size
    message = frame[begin : begin + length]
    if len(message) != length or length < _MESSAGE.size or _checksum(frame[22:54], message):
        return None
    message_type, code, _, _, target = _MESSAGE.unpack_from(message)
    wanted = {ND_NEIGHBOR_SOLICIT: ND_OPT_SOURCE_LINKADDR, ND_NEIGHBOR_ADVERT: ND_OPT_TARGET_LINKADDR}
    if message_type not in wanted or code or target[0] == 0xFF:
        return None
    mac = _link_layer_address(message[_MESSAGE.size :], wanted[message_type])
    if mac is None:
        return None
    return NeighbourPacket(destination, message_type == ND_NEIGHBOR_SOLICIT, mac or source_mac, source, target)


def _link_layer_address(options: bytes, wanted: int) -> bytes | None:
    """Return the address of an option, b"" without it; None if an option has the length 0 or is cut off."""
    found, offset = b"", 0
    while offset < len(options):
        if offset + _OPTION.size > len(options):
            return None
        kind, units = _OPTION.unpack_from(options, offset)
        if units == 0 or offset + 8 * units > len(options):
            return None
        if kind == wanted and units == 1:
            found = options[offset + _OPTION.size : offset + 8]
        offset += 8 * units
    return found


def _checksum(addresses: bytes, message: bytes) -> int:
    """Return the checksum of RFC 4443 (2.3); 0 for a message that contains the right one."""
    data = addresses + struct.pack("!II", len(message), _ICMPV6) + message
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return int(~total & 0xFFFF)


def _frame(destination_mac: bytes, mac: bytes, source: bytes, destination: bytes, message: bytes) -> bytes:
    checksum = _checksum(source + destination, message)
    message = message[:2] + struct.pack("!H", checksum) + message[4:]
    header = _IPV6.pack(_VERSION_6, len(message), _ICMPV6, _HOP_LIMIT, source, destination)
    return _ETHERNET.pack(destination_mac, mac, ETH_P_IPV6) + header + message


def _advertisement(target: bytes, mac: bytes, flags: int) -> bytes:
    option = _OPTION.pack(ND_OPT_TARGET_LINKADDR, 1) + mac
    return _MESSAGE.pack(ND_NEIGHBOR_ADVERT, 0, 0, flags, target) + option


def advertisement(solicitation: NeighbourPacket, mac: bytes) -> bytes:
    """Return the frame that answers a solicitation: the target is at `mac`.

    A solicitation without a source comes from duplicate address detection; its answer goes to all nodes (7.2.4).
    """
    target, source = solicitation.target, solicitation.source
    if source == _UNSPECIFIED:
        return _frame(multicast_mac(ALL_NODES), mac, target, ALL_NODES, _advertisement(target, mac, _OVERRIDE))
    message = _advertisement(target, mac, _SOLICITED | _OVERRIDE)
    return _frame(solicitation.sender_mac, mac, target, source, message)


def unsolicited(address: ipaddress.IPv6Address, mac: bytes) -> bytes:
    """Return the frame that announces an address to all nodes (7.2.6)."""
    message = _advertisement(address.packed, mac, _OVERRIDE)
    return _frame(multicast_mac(ALL_NODES), mac, address.packed, ALL_NODES, message)


def solicitation(address: ipaddress.IPv6Address, mac: bytes) -> bytes:
    """Return the frame that asks whether another machine has the address, without claiming it (RFC 4862, 5.4.2)."""
    group = solicited_node(address)
    message = _MESSAGE.pack(ND_NEIGHBOR_SOLICIT, 0, 0, 0, address.packed)
    return _frame(multicast_mac(group), mac, _UNSPECIFIED, group, message)
