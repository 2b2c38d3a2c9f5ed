"""Frames that arrive at the sockets of layer 2, and their counters in the speaker's metrics."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any

import pytest

from bridgehead.balancer.layer2 import arp
from bridgehead.balancer.layer2 import responder as module
from bridgehead.balancer.layer2.responder import Responder
from bridgehead.balancer.ranges import IpAddress
from bridgehead.balancer.speaker.metrics import layer2_metrics
from bridgehead.network.link_states import Link
from bridgehead.network.uapi.if_ether import ETH_P_ARP, ETH_P_IPV6

from .test_packets import CLIENT4, ETH0, FOREIGN, VIP4, arp_request

ETH1 = Link(3, "eth1", bytes.fromhex("0200000000ab"), master=0, transmits=True, resolves=True)


class Frames:
    """Frames that have arrived, in the place of a PacketSocket."""

    def __init__(self, *frames: bytes) -> None:
        self.frames = frames
        self.sent: list[bytes] = []

    def receive(self, limit: int) -> Iterator[bytes]:
        return iter(self.frames)

    def send(self, frame: bytes) -> bool:
        self.sent.append(frame)
        return True


@pytest.fixture
def claims() -> list[tuple[IpAddress, bytes, Link]]:
    return []


@pytest.fixture
def responder(monkeypatch, claims) -> Responder:
    monkeypatch.setattr(module.Responder, "_open_socket", lambda *arguments: None)
    responder = Responder(lambda *claim: claims.append(claim))
    responder._links = {link.number: link for link in (ETH0, ETH1)}
    responder.hold(VIP4, frozenset({"eth0"}))
    return responder


def receive(responder: Responder, link: Link, *frames: bytes) -> list[bytes]:
    """Let frames arrive on a link. Return the answers."""
    sock: Any = Frames(*frames)
    key = link.number, ETH_P_ARP
    responder._sockets[key] = sock
    responder._read(key)
    return sock.sent


def test_requests_are_answered_and_claims_of_other_machines_reported(responder, claims):
    [frame] = receive(responder, ETH0, arp_request(VIP4), *arp.gratuitous(VIP4, FOREIGN))
    answered = arp.decode(frame)
    assert answered is not None
    assert answered.sender == VIP4.packed
    assert claims == [(VIP4, FOREIGN, ETH0)] * 2
    assert set(responder.dropped.values()) == {0}


def test_an_announcement_of_another_interface_of_this_node_is_no_claim(responder, claims):
    assert receive(responder, ETH0, *arp.gratuitous(VIP4, ETH1.mac)) == []
    assert claims == []
    assert responder.dropped["own_frame"] == 2


def test_dropped_frames_are_counted_by_reason(responder):
    other = arp_request(ipaddress.IPv4Address("10.0.0.11"))
    assert receive(responder, ETH0, other, b"short", other) == []
    assert receive(responder, ETH1, arp_request(VIP4), arp.gratuitous(CLIENT4, FOREIGN)[1]) == []
    *_, dropped = layer2_metrics(responder)
    assert dropped.name == "bridgehead_layer2_dropped_frames"
    assert {sample.labels["reason"]: sample.value for sample in dropped.samples} == {
        "malformed": 1,
        "own_frame": 0,
        "ethernet_destination": 0,
        "arp_reply": 1,
        "neighbour_advertisement": 0,
        "address_not_held": 2,
        "other_interface": 1,
    }


async def test_frames_are_received_from_the_first_address_on(monkeypatch):
    opened: list[tuple[int, int]] = []
    monkeypatch.setattr(
        module.Responder, "_open_socket", lambda self, link, protocol: opened.append((link.number, protocol))
    )
    responder = Responder(lambda *claim: None)
    responder.set_links({ETH0.number: ETH0})
    assert opened == []
    responder.listen()
    responder.listen()
    assert opened == [(ETH0.number, ETH_P_ARP), (ETH0.number, ETH_P_IPV6)]
    responder.set_links({ETH0.number: ETH0, ETH1.number: ETH1})
    assert opened[2:] == [(ETH1.number, ETH_P_ARP), (ETH1.number, ETH_P_IPV6)]
