"""Addresses of VRRP on nodes without keepalived."""

from __future__ import annotations

import ipaddress

from bridgehead.balancer.model import Configuration, Pool, VrrpAdvertisement
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp.announcer import MissingVrrp
from bridgehead.objects.meta import ObjectKey

POOL = Pool("eip", "openelb", (parse_range("10.1.0.0/24"),), vrrp=(VrrpAdvertisement("eip", "eth0"),))
WEB = ObjectKey("default", "web")


class Recorder:
    def __init__(self) -> None:
        self.events: list[tuple[ObjectKey, str, str]] = []

    def record(self, service: ObjectKey, *, type: str = "Warning", reason: str, message: str) -> None:
        self.events.append((service, reason, message))


def test_one_node_reports_that_layer_2_announces_instead():
    web = Publication(WEB, "uid", {}, ((ipaddress.ip_address("10.1.0.1"), POOL),), False, frozenset(), True)
    nodes = {name: NodeView(name, {}) for name in ("node1", "node2")}
    recorders = {}
    for name in nodes:
        recorder = recorders[name] = Recorder()
        missing = MissingVrrp(recorder)
        view = ClusterView(name, Configuration(), nodes, frozenset(nodes))
        for _ in range(2):
            missing.update(view, {WEB: web}, [WEB])
        missing.update(view, {}, [WEB])
    message = "keepalived is not installed on node node1: layer 2 announces 10.1.0.1 instead"
    assert recorders["node1"].events == [(WEB, "VRRPUnavailable", message)]
    assert recorders["node2"].events == []
