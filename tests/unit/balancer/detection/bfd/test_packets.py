"""BFD control packets: what RFC 5880 accepts and discards, and the socket filter."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.detection.bfd.messages import (
    Change,
    Neighbor,
    SessionSettings,
    read_change,
    read_request,
    report_change,
    request_sessions,
)
from bridgehead.balancer.detection.bfd.packet_filter import render_filter
from bridgehead.balancer.detection.bfd.packets import (
    BadPacket,
    ControlPacket,
    Diagnostic,
    State,
    parse_packet_untrusted,
    render_packet,
)
from bridgehead.balancer.detection.bfd.session import Timing

UP = ControlPacket(State.UP, 0x01020304, 0x05060708, 3, 100_000, 300_000, diagnostic=Diagnostic.NONE)


def test_the_bytes_are_those_of_the_rfc():
    data = render_packet(UP._replace(diagnostic=Diagnostic.NEIGHBOR_SIGNALED_DOWN, poll=True))
    assert data == bytes.fromhex("23e00318 01020304 05060708 000186a0 000493e0 00000000")


NUMBERS = st.integers(0, 2**32 - 1)


@given(
    st.builds(
        ControlPacket,
        st.sampled_from(State),
        st.integers(1, 2**32 - 1),
        st.integers(1, 2**32 - 1),
        st.integers(1, 255),
        NUMBERS,
        NUMBERS,
        NUMBERS,
        st.integers(0, 31),
        st.booleans(),
        st.booleans(),
        st.booleans(),
    )
)
def test_a_packet_survives_encoding(packet):
    assert parse_packet_untrusted(render_packet(packet)) == packet


@given(st.binary(max_size=60))
def test_garbage_raises_nothing_else(data):
    with contextlib.suppress(BadPacket):
        parse_packet_untrusted(data)


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (0, 0x40, "version 2"),
        (1, 0xC4, "authentication"),
        (1, 0xC1, "multipoint"),
        (2, 0, "detect multiplier 0"),
        (3, 23, "length 23"),
        (3, 25, "length 25"),
    ],
)
def test_a_bad_packet_is_discarded_with_its_reason(position, value, reason):
    data = bytearray(render_packet(UP))
    data[position] = value
    with pytest.raises(BadPacket, match=reason):
        parse_packet_untrusted(bytes(data))


def test_discriminators_of_zero_are_discarded():
    with pytest.raises(BadPacket, match="discriminator 0"):
        parse_packet_untrusted(render_packet(UP._replace(my_discriminator=0)))
    with pytest.raises(BadPacket, match="state UP without"):
        parse_packet_untrusted(render_packet(UP._replace(your_discriminator=0)))
    assert parse_packet_untrusted(render_packet(UP._replace(your_discriminator=0, state=State.DOWN)))


def test_messages_survive_encoding():
    wanted = {
        Neighbor("10.0.0.1"): SessionSettings(Timing(0.1, 0.2, 5, True)),
        Neighbor("fd00::1", "fd00::2", True): SessionSettings(minimum_ttl=250),
    }
    assert read_request(request_sessions(wanted)) == wanted
    change = Change(Neighbor("10.0.0.1"), State.UP, Diagnostic.NONE, True, "no route")
    assert read_change(report_change(change)) == change


# --- The socket filter ----------------------------------------------------------------------------------------------


def is_accepted(program: bytes, header: bytes) -> bool:
    """Interpret the instructions that the filter uses. Source: linux/filter.h, networking/filter.rst."""
    instructions = [struct.unpack_from("=HBBI", program, offset) for offset in range(0, len(program), 8)]
    accumulator = position = 0
    while True:
        code, if_true, if_false, operand = instructions[position]
        position += 1
        offset = (operand + 0x100000) & 0xFFFFFFFF
        if code == 0x20:
            accumulator = int.from_bytes(header[offset : offset + 4], "big")
        elif code == 0x30:
            accumulator = header[offset]
        elif code == 0x15:
            position += if_true if accumulator == operand else if_false
        elif code == 0x35:
            position += if_true if accumulator >= operand else if_false
        elif code == 0x06:
            return bool(operand)
        else:
            raise AssertionError(hex(code))


def header4(source: str, ttl: int) -> bytes:
    return bytes(8) + bytes([ttl]) + bytes(3) + bytes(int(part) for part in source.split("."))


def header6(last: int, hop_limit: int) -> bytes:
    return bytes(7) + bytes([hop_limit]) + bytes.fromhex("fd00") + bytes(13) + bytes([last])


def test_only_neighbours_with_a_sufficient_ttl_pass_the_filter():
    program = render_filter({"10.0.0.1": 255, "10.0.0.2": 250})
    assert is_accepted(program, header4("10.0.0.1", 255))
    assert not is_accepted(program, header4("10.0.0.1", 254))
    assert is_accepted(program, header4("10.0.0.2", 250))
    assert not is_accepted(program, header4("10.0.0.2", 249))
    assert not is_accepted(program, header4("10.0.0.3", 255))
    program = render_filter({"fd00::1": 255, "fd00::2%eth0": 255})
    assert is_accepted(program, header6(1, 255))
    assert is_accepted(program, header6(2, 255))
    assert not is_accepted(program, header6(2, 64))
    assert not is_accepted(program, header6(3, 255))
    assert not is_accepted(render_filter({}), header4("10.0.0.1", 255))
