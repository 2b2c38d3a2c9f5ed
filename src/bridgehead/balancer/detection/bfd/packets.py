"""BFD control packets. Source: RFC 5880, section 4.1.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
import struct
from typing import NamedTuple

SINGLE_HOP_PORT = 3784  # RFC 5881
MULTI_HOP_PORT = 4784  # RFC 5883
SINGLE_HOP_TTL = 255  # sent, and demanded of what is received over one hop (RFC 5881, section 5)

_VERSION = 1
_FORMAT = struct.Struct("!BBBBIIIII")
_POLL, _FINAL, _AUTHENTICATION, _DEMAND, _MULTIPOINT = 0x20, 0x10, 0x04, 0x02, 0x01


class State(enum.IntEnum):
    """State of a session."""

    ADMIN_DOWN = 0
    DOWN = 1
    INIT = 2
    UP = 3


class Diagnostic(enum.IntEnum):
    """Reason of a session's last change from Up."""

    NONE = 0
    DETECTION_TIME_EXPIRED = 1
    ECHO_FAILED = 2
    NEIGHBOR_SIGNALED_DOWN = 3
    FORWARDING_PLANE_RESET = 4
    PATH_DOWN = 5
    CONCATENATED_PATH_DOWN = 6
    ADMINISTRATIVELY_DOWN = 7
    REVERSE_CONCATENATED_PATH_DOWN = 8


class BadPacket(Exception):
    """The datagram is not a control packet that a session may take. The text has the reason."""


class ControlPacket(NamedTuple):
    """The fields of a control packet. Intervals in microseconds, as in the packet.

    `diagnostic` is a number, since receivers must accept reserved values.
    """

    state: State
    my_discriminator: int
    your_discriminator: int
    detect_multiplier: int
    desired_min_tx: int
    required_min_rx: int
    required_min_echo_rx: int = 0
    diagnostic: int = Diagnostic.NONE
    poll: bool = False
    final: bool = False
    demand: bool = False


def render_packet(packet: ControlPacket) -> bytes:
    """Encode a control packet."""
    flags = packet.state << 6
    flags |= _POLL if packet.poll else 0
    flags |= _FINAL if packet.final else 0
    flags |= _DEMAND if packet.demand else 0
    return _FORMAT.pack(
        _VERSION << 5 | packet.diagnostic,
        flags,
        packet.detect_multiplier,
        _FORMAT.size,
        packet.my_discriminator,
        packet.your_discriminator,
        packet.desired_min_tx,
        packet.required_min_rx,
        packet.required_min_echo_rx,
    )


def parse_packet_untrusted(datagram: bytes) -> ControlPacket:
    """Decode a datagram. Raises BadPacket for what RFC 5880, section 6.8.6 discards before a session is looked up."""
    if len(datagram) < _FORMAT.size:
        raise BadPacket(f"{len(datagram)} bytes are too few")
    first, flags, multiplier, length, mine, yours, min_tx, min_rx, min_echo_rx = _FORMAT.unpack_from(datagram)
    if first >> 5 != _VERSION:
        raise BadPacket(f"version {first >> 5}")
    if not _FORMAT.size <= length <= len(datagram):
        raise BadPacket(f"length {length} in a datagram of {len(datagram)} bytes")
    if flags & _AUTHENTICATION:
        raise BadPacket("authentication, which is not configured")
    if flags & _MULTIPOINT:
        raise BadPacket("the multipoint bit")
    if not multiplier:
        raise BadPacket("detect multiplier 0")
    if not mine:
        raise BadPacket("discriminator 0")
    state = State(flags >> 6)
    if not yours and state not in (State.DOWN, State.ADMIN_DOWN):
        raise BadPacket(f"state {state.name} without a receiver's discriminator")
    return ControlPacket(
        state, mine, yours, multiplier, min_tx, min_rx, min_echo_rx, first & 0x1F,
        bool(flags & _POLL), bool(flags & _FINAL), bool(flags & _DEMAND),
    )  # fmt: skip
