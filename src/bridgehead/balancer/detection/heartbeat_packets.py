"""Heartbeats as they are on the network: encoding, decoding, authentication.

    magic 4 | version 1 | flags 1 | number of ages 2 | sender 6 | destination 6 | timestamp 8 | echo 8
    ages: node 6 | flags and milliseconds 2 | ...
    tag 16: the first bytes of HMAC-SHA256 over all before, with the key that the speakers share

All numbers are in network byte order. Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

MAX_BYTES: Final = 9000

_MAGIC: Final = b"BhHb"
_VERSION: Final = 1
_HEADER: Final = struct.Struct("!4sBBH6s6sQQ")
_AGE: Final = struct.Struct("!6sH")
_TAG_BYTES: Final = 16
_LEAVING, _UNFIT, _REPLY_WANTED, _ACTIVE = 1, 2, 4, 8  # flags of the header
_AGE_LEAVING, _AGE_UNFIT, _AGE_MASK = 0x8000, 0x4000, 0x3FFF
LONGEST_AGE: Final = _AGE_MASK / 1000


class Age(NamedTuple):
    """Age of the last heartbeat that the sender received from another node."""

    node: bytes
    seconds: float
    is_leaving: bool = False
    is_fit: bool = True


class Heartbeat(NamedTuple):
    """One packet. Nodes are written by `node_id`.

    `timestamp`: the sender's observation clock in microseconds. `echo`: the timestamp of the last packet that the
    sender received from the destination; 0 before the first. Only a recent echo shows that the packet is new, and that
    packets pass in both directions. `is_fit`: the sender can announce addresses. `is_leaving`: the sender ends soon, as
    planned. `wants_reply`: the destination should send its next heartbeat at once. `is_active`: heartbeats have the
    pace of takeovers, because some node has an address to announce.
    """

    sender: bytes
    destination: bytes
    timestamp: int
    echo: int
    is_leaving: bool = False
    is_fit: bool = True
    wants_reply: bool = False
    is_active: bool = False
    ages: Sequence[Age] = ()


def node_id(name: str) -> bytes:
    """Return the identifier of a node in packets: 6 bytes of a hash of its name."""
    return hashlib.sha256(name.encode()).digest()[:6]


def encode(heartbeat: Heartbeat, key: bytes) -> bytes:
    """Return the packet."""
    flags = (
        (_LEAVING if heartbeat.is_leaving else 0)
        | (0 if heartbeat.is_fit else _UNFIT)
        | (_REPLY_WANTED if heartbeat.wants_reply else 0)
        | (_ACTIVE if heartbeat.is_active else 0)
    )
    header = _HEADER.pack(
        _MAGIC,
        _VERSION,
        flags,
        len(heartbeat.ages),
        heartbeat.sender,
        heartbeat.destination,
        heartbeat.timestamp,
        heartbeat.echo,
    )
    ages = (
        _AGE.pack(
            age.node,
            min(int(age.seconds * 1000), _AGE_MASK)
            | (_AGE_LEAVING if age.is_leaving else 0)
            | (0 if age.is_fit else _AGE_UNFIT),
        )
        for age in heartbeat.ages
    )
    data = header + b"".join(ages)
    return data + hmac.digest(key, data, "sha256")[:_TAG_BYTES]


def decode(data: bytes, key: bytes) -> Heartbeat | None:
    """Return the heartbeat; None for a packet that is malformed, or was not made with this key."""
    if len(data) < _HEADER.size + _TAG_BYTES or not data.startswith(_MAGIC):
        return None
    body, tag = data[:-_TAG_BYTES], data[-_TAG_BYTES:]
    if not hmac.compare_digest(hmac.digest(key, body, "sha256")[:_TAG_BYTES], tag):
        return None
    _, version, flags, count, sender, destination, timestamp, echo = _HEADER.unpack_from(body)
    if version != _VERSION or len(body) != _HEADER.size + count * _AGE.size:
        return None
    ages = tuple(
        Age(node, (value & _AGE_MASK) / 1000, bool(value & _AGE_LEAVING), not value & _AGE_UNFIT)
        for node, value in _AGE.iter_unpack(body[_HEADER.size :])
    )
    return Heartbeat(
        sender,
        destination,
        timestamp,
        echo,
        is_leaving=bool(flags & _LEAVING),
        is_fit=not flags & _UNFIT,
        wants_reply=bool(flags & _REPLY_WANTED),
        is_active=bool(flags & _ACTIVE),
        ages=ages,
    )
