"""Answers to ARP and neighbour discovery packets, conflicting packets, and reasons to drop packets.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from bridgehead.network.link_states import Link
from bridgehead.network.uapi.if_ether import ETH_P_ARP

from . import arp, ndp
from .interfaces import is_announced_on

Held = Mapping[bytes, frozenset[str]]  # packed addresses of this node, and the interfaces for each (empty: all)


class Answer(NamedTuple):
    """A frame to send back, about the packed address `address`."""

    address: bytes
    frame: bytes


class Conflict(NamedTuple):
    """Another machine that sends as the owner of the packed address."""

    address: bytes
    mac: bytes


class DropReason(StrEnum):
    """Reasons why a frame has no answer, as labels of a metric. Source: MetalLB's dropReason, in internal/layer2."""

    MALFORMED = "malformed"  # no valid packet of ARP about IPv4 on Ethernet, or of neighbour discovery
    OWN_FRAME = "own_frame"  # from an interface of this node
    ETHERNET_DESTINATION = "ethernet_destination"  # to another machine; a promiscuous interface passes it
    ARP_REPLY = "arp_reply"
    NEIGHBOUR_ADVERTISEMENT = "neighbour_advertisement"
    ADDRESS_NOT_HELD = "address_not_held"  # a request for an address that this node does not hold
    OTHER_INTERFACE = "other_interface"  # a request for an address that this node announces on other interfaces only


def answer(frame: bytes, protocol: int, link: Link, held: Held) -> Answer | Conflict | DropReason:
    """Return the answer to a frame of a protocol (ETH_P_*) on a link, the conflict that it shows, or why it is dropped.

    A request counts if it was broadcast, or sent to this interface.
    """
    return _answer_arp(frame, link, held) if protocol == ETH_P_ARP else _answer_ndp(frame, link, held)


def _answer_arp(frame: bytes, link: Link, held: Held) -> Answer | Conflict | DropReason:
    packet = arp.decode(frame)
    if packet is None:
        return DropReason.MALFORMED
    if packet.sender_mac == link.mac:
        return DropReason.OWN_FRAME
    if packet.destination not in (arp.BROADCAST, link.mac):
        return DropReason.ETHERNET_DESTINATION
    if _is_held(packet.sender, link, held):
        return Conflict(packet.sender, packet.sender_mac)
    if not packet.is_request:
        return DropReason.ARP_REPLY
    if _is_held(packet.target, link, held):
        return Answer(packet.target, arp.reply(packet, link.mac))
    return DropReason.OTHER_INTERFACE if packet.target in held else DropReason.ADDRESS_NOT_HELD


def _answer_ndp(frame: bytes, link: Link, held: Held) -> Answer | Conflict | DropReason:
    packet = ndp.decode(frame)
    if packet is None:
        return DropReason.MALFORMED
    if packet.sender_mac == link.mac:
        return DropReason.OWN_FRAME
    is_multicast = packet.destination[:2] == b"\x33\x33"
    if not is_multicast and packet.destination != link.mac:
        return DropReason.ETHERNET_DESTINATION
    is_held = _is_held(packet.target, link, held)
    if not packet.is_solicitation:
        return Conflict(packet.target, packet.sender_mac) if is_held else DropReason.NEIGHBOUR_ADVERTISEMENT
    if is_held:
        return Answer(packet.target, ndp.advertisement(packet, link.mac))
    return DropReason.OTHER_INTERFACE if packet.target in held else DropReason.ADDRESS_NOT_HELD


def _is_held(address: bytes, link: Link, held: Held) -> bool:
    interfaces = held.get(address)
    return interfaces is not None and is_announced_on(interfaces, link)
