"""Metrics and status of BGP sessions."""

from __future__ import annotations

import ipaddress

from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from bridgehead.balancer.bgp.announcer import PeerState
from bridgehead.balancer.bgp.session_reports import session_metrics, status_section

ROUTER = ipaddress.ip_address("10.0.0.1")
ROUTER6 = ipaddress.ip_address("fd00:10::1")
UP = PeerState("router", ROUTER, 179, "established", 1000.5, "", "up", 2, 3, 7)
DOWN = PeerState("router6", ROUTER6, 1179, "active", 1001.0, "connection refused", "", 0, 3, 0)


class Sessions:
    def collect(self):
        return session_metrics([UP, DOWN])


def test_metrics_have_the_names_and_peers_of_metallb():
    registry = CollectorRegistry()
    registry.register(Sessions())
    lines = generate_latest(registry).decode().splitlines()
    assert [line for line in lines if not line.startswith("#")] == [
        'metallb_bgp_session_up{peer="10.0.0.1:179"} 1.0',
        'metallb_bgp_session_up{peer="[fd00:10::1]:1179"} 0.0',
        'metallb_bgp_updates_total{peer="10.0.0.1:179"} 7.0',
        'metallb_bgp_updates_total{peer="[fd00:10::1]:1179"} 0.0',
        'metallb_bgp_announced_prefixes_total{peer="10.0.0.1:179"} 2.0',
        'metallb_bgp_announced_prefixes_total{peer="[fd00:10::1]:1179"} 0.0',
        'metallb_bgp_pending_prefixes_total{peer="10.0.0.1:179"} 3.0',
        'metallb_bgp_pending_prefixes_total{peer="[fd00:10::1]:1179"} 3.0',
        'metallb_bfd_session_up{peer="10.0.0.1"} 1.0',
    ]


def test_the_status_page_gives_state_and_reason():
    assert status_section([DOWN]) == [
        {
            "peer": "router6",
            "address": "[fd00:10::1]:1179",
            "state": "active",
            "since": 1001.0,
            "reason": "connection refused",
            "bfd": "",
            "announced": 0,
        }
    ]
