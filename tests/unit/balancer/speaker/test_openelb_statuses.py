"""Statuses of OpenELB's BgpPeers."""

from __future__ import annotations

import ipaddress

from bridgehead.balancer.bgp.announcer import PeerState
from bridgehead.balancer.bgp.exabgp import SessionSettings
from bridgehead.balancer.speaker.openelb_statuses import peer_status

ROUTER = ipaddress.ip_address("10.0.0.1")
SETTINGS = SessionSettings(ipaddress.ip_address("10.0.0.201"), ROUTER, 179, 64512, 64513, "10.0.0.201", hold_time=30)


def test_a_session_that_is_up_shows_both_ends_and_its_timers():
    state = PeerState("router", ROUTER, 179, "established", 0.0, "", "", 1, 0, 1, SETTINGS)
    assert peer_status(state) == {
        "peerState": {
            "neighborAddress": "10.0.0.1",
            "sessionState": "ESTABLISHED",
            "localAs": 64512,
            "peerAs": 64513,
            "peerType": 1,
            "routerId": "10.0.0.201",
        },
        "timersState": {"holdTime": "30", "keepaliveInterval": "10", "uptime": "1970-01-01T00:00:00Z"},
    }


def test_a_session_that_never_began_shows_the_neighbor():
    state = PeerState("router", ROUTER, 179, "waiting", 0.0, "no route", "", 0, 0, 0)
    assert peer_status(state) == {
        "peerState": {"neighborAddress": "10.0.0.1", "sessionState": "IDLE"},
        "timersState": {"downtime": "1970-01-01T00:00:00Z"},
    }


def test_a_session_within_the_as_is_internal():
    settings = SETTINGS._replace(peer_asn=64512)
    state = PeerState("router", ROUTER, 179, "connecting", 0.0, "", "", 0, 0, 0, settings)
    assert peer_status(state)["peerState"]["peerType"] == 0
