"""Tables of `bridgehead balancer status`."""

from __future__ import annotations

from typing import Any

import pytest

from bridgehead.balancer.controller.service_patches import CONDITION
from bridgehead.insight.speakers import (
    SpeakerReport,
    address_rows,
    age,
    session_rows,
    silent_rows,
    speaker_rows,
    takeover_rows,
)
from bridgehead.objects.core import LoadBalancerIngress, LoadBalancerStatus, Service, ServiceStatus
from bridgehead.objects.meta import Condition, ObjectMeta

NOW = 1_800_000_000.0
HELD = {
    "address": "10.0.0.10",
    "service": "default/web",
    "protocol": "layer2",
    "since": NOW - 90,
    "detail": ["eth0"],
    "why": "highest of 3 candidates",
}


def page(**fields: Any) -> dict[str, Any]:
    return {"notReady": "", "members": ["node1", "node2"], "isolated": False, "held": [], **fields}


REPORTS = [
    SpeakerReport(
        "node1",
        page(
            held=[HELD],
            takeovers=[
                {"at": NOW - 600, "nodes": ["node2"], "addresses": 1, "seconds": 0.3514, "reason": "no heartbeats"},
                {"at": NOW - 60, "nodes": ["node3"], "addresses": 4, "seconds": 0.012, "reason": "planned"},
            ],
            sections={
                "bgp": [
                    {
                        "peer": "router",
                        "address": "10.0.0.2:179",
                        "state": "established",
                        "since": NOW - 7300,
                        "bfd": "up",
                        "announced": 2,
                        "reason": "",
                    }
                ]
            },
        ),
    ),
    SpeakerReport("node2", page(isolated=True)),
    SpeakerReport("node3", problem="no answer within 5 s"),
]


def test_every_speaker_has_a_row() -> None:
    assert speaker_rows(REPORTS)[1:] == [
        ("node1", "ready", "node1,node2", "1"),
        ("node2", "isolated: receives no other speaker", "node1,node2", "0"),
        ("node3", "no answer within 5 s", "-", "0"),
    ]


def test_addresses_sessions_and_takeovers() -> None:
    assert address_rows(REPORTS, NOW)[1:] == [
        ("10.0.0.10", "default/web", "layer2", "node1", "90s ago", "eth0", "highest of 3 candidates")
    ]
    assert session_rows(REPORTS, NOW)[1:] == [
        ("router", "10.0.0.2:179", "node1", "established", "2h ago", "up", "2", "-")
    ]
    assert [row[1:] for row in takeover_rows(REPORTS, NOW)[1:]] == [
        ("node1", "node3", "4", "12 ms", "planned"),
        ("node1", "node2", "1", "351 ms", "no heartbeats"),
    ]


def test_services_whose_addresses_nobody_announces() -> None:
    def service(name: str, *ips: str, reason: str = "", message: str = "why") -> Service:
        ingress = tuple(LoadBalancerIngress(ip=ip) for ip in ips)
        condition = Condition(type=CONDITION, status="False", reason=reason, message=message)
        status = ServiceStatus(
            load_balancer=LoadBalancerStatus(ingress=ingress), conditions=(condition,) if reason else ()
        )
        return Service(metadata=ObjectMeta(name=name, namespace="default"), status=status)

    both, second = (f"no node announces {ips}: why" for ips in ("10.0.0.1, fd00::1", "fd00::1"))
    services = [
        service("c", "10.0.0.1", "fd00::1", reason="NoNode", message=second),  # the first one is announced
        service("b", "10.0.0.1", "fd00::1", reason="NoEndpoints", message=both),
        service("a", reason="NoPool"),
    ]
    assert silent_rows([*services, service("d", "10.0.0.2")])[1:] == [
        ("<pending>", "default/a", "NoPool", "why"),
        ("10.0.0.1,fd00::1", "default/b", "NoEndpoints", both),
        ("fd00::1", "default/c", "NoNode", second),
    ]


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (7200, "2h"), (172800, "2d")]
)
def test_ages(seconds: float, text: str) -> None:
    assert age(seconds) == text
