"""Addresses of VRRP on nodes without keepalived."""

from __future__ import annotations

import ipaddress

from bridgehead.balancer.announcer import EventReport
from bridgehead.balancer.compiled_configuration import Configuration, Pool, VrrpAdvertisement
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.balancer.vrrp.announcer import MissingVrrp
from bridgehead.objects.meta import ObjectKey

POOL = Pool("eip", "openelb", (parse_range("10.1.0.0/24"),), vrrp=(VrrpAdvertisement("eip", "eth0"),))
WEB = ObjectKey("default", "web")


def test_one_node_reports_that_layer_2_announces_instead():
    web = Publication(WEB, "uid", {}, ((ipaddress.ip_address("10.1.0.1"), POOL),), False, frozenset(), True)
    nodes = {name: NodeView(name, {}) for name in ("node1", "node2")}
    events = {}
    for name in nodes:
        missing = MissingVrrp()
        view = ClusterView(name, Configuration(), nodes, frozenset(nodes))
        results = [missing.update(view, services, [WEB]) for services in ({WEB: web}, {WEB: web}, {})]
        events[name] = [event for result in results for event in result.events]
    message = "keepalived is not installed on node node1: layer 2 announces 10.1.0.1 instead"
    assert events == {"node1": [EventReport(WEB, "Warning", "VRRPUnavailable", message)], "node2": []}
