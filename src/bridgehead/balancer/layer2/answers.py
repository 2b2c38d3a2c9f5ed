"""Answers to ARP and neighbour discovery packets, and the packets that claim addresses of this node.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from bridgehead.network.uapi.if_ether import ETH_P_ARP

from . import arp, ndp

IsHeld = Callable[[bytes], bool]  # whether this node holds a packed address on the interface


class Answer(NamedTuple):
    """A frame to send back, about the packed address `address`."""

    address: bytes
    frame: bytes


class Claim(NamedTuple):
    """Another machine that sends as the owner of the packed address."""

    address: bytes
    mac: bytes


def answer(frame: bytes, protocol: int, mac: bytes, is_held: IsHeld) -> Answer | Claim | None:
    """Return the answer to a frame of a protocol (ETH_P_*), or the claim that it contains.

    `mac`: the interface's own address. A request counts if it was broadcast, or sent to this interface.
    """
    return _answer_arp(frame, mac, is_held) if protocol == ETH_P_ARP else _answer_ndp(frame, mac, is_held)


def _answer_arp(frame: bytes, mac: bytes, is_held: IsHeld) -> Answer | Claim | None:
    packet = arp.decode(frame)
    if packet is None or packet.sender_mac == mac or packet.destination not in (arp.BROADCAST, mac):
        return None
    if is_held(packet.sender):
        return Claim(packet.sender, packet.sender_mac)
    if packet.is_request and is_held(packet.target):
        return Answer(packet.target, arp.reply(packet, mac))
    return None


def _answer_ndp(frame: bytes, mac: bytes, is_held: IsHeld) -> Answer | Claim | None:
    packet = ndp.decode(frame)
    if packet is None or packet.sender_mac == mac or not is_held(packet.target):
        return None
    is_multicast = packet.destination[:2] == b"\x33\x33"
    if not is_multicast and packet.destination != mac:
        return None
    if not packet.is_solicitation:
        return Claim(packet.target, packet.sender_mac)
    return Answer(packet.target, ndp.advertisement(packet, mac))
