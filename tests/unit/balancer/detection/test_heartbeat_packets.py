"""Heartbeats on the network."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.detection.heartbeat_packets import LONGEST_AGE, Age, Heartbeat, decode, encode, node_id
from bridgehead.balancer.detection.process import ObservationClock

KEY = bytes(range(32))
PACKET = Heartbeat(
    node_id("node1"),
    node_id("node2"),
    123_456_789,
    987,
    is_leaving=True,
    wants_reply=True,
    ages=(Age(node_id("node3"), 0.25), Age(node_id("node4"), 1.5, is_leaving=True, is_fit=False)),
    is_active=True,
)


def test_a_packet_is_decoded_as_it_was_encoded():
    assert decode(encode(PACKET, KEY), KEY) == PACKET


def test_a_long_age_is_cut():
    packet = Heartbeat(node_id("a"), node_id("b"), 1, 0, ages=(Age(node_id("c"), 1e9),))
    decoded = decode(encode(packet, KEY), KEY)
    assert decoded is not None
    assert decoded.ages[0].seconds == LONGEST_AGE


@given(st.integers(0, len(encode(PACKET, KEY)) * 8 - 1))
def test_a_changed_bit_is_refused(bit):
    data = bytearray(encode(PACKET, KEY))
    data[bit // 8] ^= 1 << bit % 8
    assert decode(bytes(data), KEY) is None


def test_another_key_is_refused():
    assert decode(encode(PACKET, bytes(32)), KEY) is None


@given(st.binary(max_size=200))
def test_garbage_is_refused(data):
    assert decode(data, KEY) is None
    assert decode(b"BhHb" + data, KEY) is None


def test_the_observation_clock_leaves_out_delays_of_the_process():
    clock = ObservationClock(100.0)
    assert clock.advance(100.03, planned=100.05) == 0  # input woke the process
    assert clock.now == 100.03
    assert clock.advance(100.06, planned=100.05) == 0  # as late as usual
    assert clock.now == 100.06
    assert clock.advance(110.0, planned=100.1) == pytest.approx(9.9)
    assert clock.now == pytest.approx(100.1)
    assert clock.until(100.2, 110.0) == pytest.approx(0.1)
