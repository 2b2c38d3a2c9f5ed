"""ARP and neighbour discovery packets, and the answers to them."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.layer2 import arp, ndp
from bridgehead.balancer.layer2.answers import Answer, Conflict, DropReason, answer
from bridgehead.network.link_states import Link
from bridgehead.network.uapi.if_ether import ETH_P_ARP, ETH_P_IPV6

OWN, CLIENT, FOREIGN = (bytes.fromhex(text) for text in ("0200000000aa", "0200000000bb", "0200000000cc"))
VIP4, CLIENT4 = ipaddress.IPv4Address("10.0.0.10"), ipaddress.IPv4Address("10.0.0.1")
VIP6, CLIENT6 = ipaddress.IPv6Address("fd00:10::10"), ipaddress.IPv6Address("fd00:10::1")
ELSEWHERE4, ELSEWHERE6 = ipaddress.IPv4Address("10.0.0.12"), ipaddress.IPv6Address("fd00:10::12")
ETH0 = Link(2, "eth0", OWN, master=0, transmits=True, resolves=True)
HELD = {
    VIP4.packed: frozenset({"eth0"}),
    VIP6.packed: frozenset[str](),
    ELSEWHERE4.packed: frozenset({"eth1"}),
    ELSEWHERE6.packed: frozenset({"eth1"}),
}


def arp_request(
    target: ipaddress.IPv4Address, *, destination: bytes = arp.BROADCAST, sender: bytes = CLIENT4.packed
) -> bytes:
    """A request as a client sends it."""
    return (
        destination
        + CLIENT
        + bytes.fromhex("0806 0001 0800 06 04 0001")
        + CLIENT
        + sender
        + bytes(6)
        + target.packed
        + bytes(18)
    )


def ask(frame: bytes, protocol: int) -> Answer | Conflict | DropReason:
    return answer(frame, protocol, ETH0, HELD)


def test_the_bytes_of_a_reply():
    found = ask(arp_request(VIP4), ETH_P_ARP)
    assert isinstance(found, Answer)
    assert found.frame.hex(" ", 2).replace(" ", "") == (
        "0200000000bb" "0200000000aa" "0806" "0001" "0800" "06" "04" "0002"
        "0200000000aa" "0a00000a" "0200000000bb" "0a000001" + "00" * 18
    )  # fmt: skip


@pytest.mark.parametrize(
    "frame",
    [
        arp_request(VIP4),
        arp_request(VIP4, destination=OWN),  # a client that checks whether the address still is there
        arp_request(VIP4, sender=bytes(4)),  # a machine that wants the address probes for it
    ],
)
def test_requests_for_held_addresses_are_answered(frame):
    assert isinstance(ask(frame, ETH_P_ARP), Answer)


def test_gratuitous_arp_is_a_claim_for_other_holders():
    for frame in arp.gratuitous(VIP4, FOREIGN):
        assert ask(frame, ETH_P_ARP) == Conflict(VIP4.packed, FOREIGN)
    request, reply = (arp.decode(frame) for frame in arp.gratuitous(VIP4, OWN))
    assert request is not None
    assert reply is not None
    assert (request.is_request, reply.is_request) == (True, False)
    assert request.sender == request.target == VIP4.packed


def test_an_arp_probe_claims_nothing():
    packet = arp.decode(arp.probe(VIP4, FOREIGN))
    assert packet is not None
    assert packet.sender == bytes(4)
    assert isinstance(ask(arp.probe(VIP4, FOREIGN), ETH_P_ARP), Answer)


def neighbour_solicitation(target: ipaddress.IPv6Address = VIP6, *, destination: bytes = b"", hops: int = 255) -> bytes:
    """A solicitation as a client sends it, with its own link-layer address."""
    group = ndp.solicited_node(target)
    message = bytes([135, 0, 0, 0, 0, 0, 0, 0]) + target.packed + bytes([1, 1]) + CLIENT
    frame = ndp._frame(destination or ndp.multicast_mac(group), CLIENT, CLIENT6.packed, group, message)
    return frame[:21] + bytes([hops]) + frame[22:]


def test_solicitations_are_answered_by_solicited_advertisements():
    found = ask(neighbour_solicitation(), ETH_P_IPV6)
    assert isinstance(found, Answer)
    packet = ndp.decode(found.frame)
    assert packet == ndp.NeighbourPacket(CLIENT, False, OWN, VIP6.packed, VIP6.packed)
    flags = found.frame[14 + 40 + 4]
    assert flags == 0x60  # solicited, override
    assert isinstance(ask(neighbour_solicitation(destination=OWN), ETH_P_IPV6), Answer)


def test_duplicate_address_detection_of_another_machine_is_answered_to_all():
    found = ask(ndp.solicitation(VIP6, FOREIGN), ETH_P_IPV6)
    assert isinstance(found, Answer)
    assert found.frame[:6] == ndp.multicast_mac(ndp.ALL_NODES)
    assert found.frame[14 + 40 + 4] == 0x20  # override, not solicited


def test_an_unsolicited_advertisement_is_a_claim():
    assert ask(ndp.unsolicited(VIP6, FOREIGN), ETH_P_IPV6) == Conflict(VIP6.packed, FOREIGN)


DROPPED = [
    (ETH_P_ARP, arp_request(VIP4)[:41], DropReason.MALFORMED),
    (ETH_P_ARP, arp.gratuitous(VIP4, OWN)[0], DropReason.OWN_FRAME),
    (ETH_P_ARP, arp.gratuitous(VIP4, OWN)[1], DropReason.OWN_FRAME),
    (ETH_P_ARP, arp_request(VIP4, destination=FOREIGN), DropReason.ETHERNET_DESTINATION),
    (ETH_P_ARP, arp.gratuitous(CLIENT4, FOREIGN)[1], DropReason.ARP_REPLY),
    (ETH_P_ARP, arp_request(ipaddress.IPv4Address("10.0.0.11")), DropReason.ADDRESS_NOT_HELD),
    (ETH_P_ARP, arp_request(ELSEWHERE4), DropReason.OTHER_INTERFACE),
    (ETH_P_IPV6, neighbour_solicitation(hops=254), DropReason.MALFORMED),
    (ETH_P_IPV6, ndp.unsolicited(VIP6, OWN), DropReason.OWN_FRAME),
    (ETH_P_IPV6, neighbour_solicitation(destination=FOREIGN), DropReason.ETHERNET_DESTINATION),
    (ETH_P_IPV6, ndp.unsolicited(CLIENT6, FOREIGN), DropReason.NEIGHBOUR_ADVERTISEMENT),
    (ETH_P_IPV6, neighbour_solicitation(CLIENT6), DropReason.ADDRESS_NOT_HELD),
    (ETH_P_IPV6, neighbour_solicitation(ELSEWHERE6), DropReason.OTHER_INTERFACE),
]


@pytest.mark.parametrize(("protocol", "frame", "reason"), DROPPED)
def test_dropped_frames_have_a_reason(protocol, frame, reason):
    assert ask(frame, protocol) is reason


def test_each_reason_of_a_drop_has_a_frame():
    assert {reason for _, _, reason in DROPPED} == set(DropReason)


def test_groups_and_their_ethernet_addresses():
    group = ndp.solicited_node(ipaddress.IPv6Address("2001:db8::1234:5678"))
    assert ipaddress.IPv6Address(group) == ipaddress.IPv6Address("ff02::1:ff34:5678")
    assert ndp.multicast_mac(group).hex(":") == "33:33:ff:34:56:78"


VALID = {
    ETH_P_ARP: arp_request(VIP4),
    ETH_P_IPV6: neighbour_solicitation(),
}


@given(st.sampled_from(sorted(VALID)), st.binary(max_size=120))
def test_garbage_is_ignored(protocol, garbage):
    assert isinstance(ask(garbage, protocol), DropReason) or protocol == ETH_P_ARP
    # An option of the length 0, and options that are cut off, make a message invalid.
    for size in (14, 20, 42, 54, 78):
        ask(VALID[protocol][:size] + garbage, protocol)


@given(st.sampled_from(sorted(VALID)), st.integers(0, 10_000), st.integers(0, 255))
def test_a_changed_byte_never_raises(protocol, offset, value):
    frame = bytearray(VALID[protocol])
    frame[offset % len(frame)] = value
    ask(bytes(frame), protocol)


@pytest.mark.parametrize("options", ["0100", "01", "0102" + "00" * 6, "0101" + "00" * 3])
def test_invalid_options_make_a_message_invalid(options):
    message = bytes([135, 0, 0, 0, 0, 0, 0, 0]) + VIP6.packed + bytes.fromhex(options)
    group = ndp.solicited_node(VIP6)
    assert ndp.decode(ndp._frame(ndp.multicast_mac(group), CLIENT, CLIENT6.packed, group, message)) is None
