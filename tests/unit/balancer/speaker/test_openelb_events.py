"""OpenELB's Events about announcements."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

from bridgehead.balancer.announcer import EventReport
from bridgehead.balancer.compiled_configuration import (
    BgpAdvertisement,
    Configuration,
    Layer2Advertisement,
    Pool,
    VrrpAdvertisement,
)
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.speaker.openelb_events import OpenElbEvents, missing_interface
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.objects.meta import ObjectKey

WEB = ObjectKey("default", "web")
NODES = {name: NodeView(name, {}) for name in ("node1", "node2", "node3")}
LAYER2 = Pool(
    "eip", "openelb", (parse_range("10.1.0.0/24"),), layer2=(Layer2Advertisement("eip", interfaces=("eth0",)),)
)
OTHER = Pool("pool", "metallb", (parse_range("10.2.0.0/24"),), layer2=(Layer2Advertisement("all"),))


def view(node: str = "node1", *pools: Pool) -> ClusterView:
    return ClusterView(node, Configuration(pools or (LAYER2,)), NODES, frozenset(NODES))


def web(*addresses: str, pool: Pool = LAYER2, **fields: Any) -> dict[ObjectKey, Publication]:
    pairs = tuple((ipaddress.ip_address(address), pool) for address in addresses)
    return {WEB: replace(Publication(WEB, "uid", {}, pairs, False, frozenset(), True), **fields)}


def test_next_hops_that_come_change_and_go():
    events, seen = OpenElbEvents(), view()
    assert events.update(replace(seen, members=frozenset()), {}, []) == []  # the members are not known yet
    # The first member is received by the others only a moment after it receives them.
    assert events.update(replace(seen, members=seen.members - {"node1"}), {}, []) == []
    assert events.update(seen, {}, []) == [
        EventReport("eip", "Normal", "ConfigSpeaker", "config openelb layer2 speaker successfully")
    ]
    added = EventReport(WEB, "Normal", "SetBalancer", "success to add nexthops [node1, node2, node3]")
    assert events.update(seen, web("10.1.0.1"), [WEB]) == [added]
    assert events.update(seen, web("10.1.0.1"), [WEB]) == []
    local: dict[str, Any] = {
        "is_local": True,
        "endpoint_nodes": frozenset({"node2"}),
        "ready_nodes": frozenset({"node2"}),
    }
    moved = EventReport(WEB, "Normal", "SetBalancer", "success to add nexthops [node2]")
    assert events.update(seen, web("10.1.0.1", **local), [WEB]) == [moved]
    # A node that is excluded later is not among the next hops, although no Service has changed.
    without = replace(seen, nodes=NODES | {"node2": NodeView("node2", {}, is_excluded=True)})
    none = "delete balancer with no available nodes for service ip 10.1.0.1:default/web."
    assert events.update(without, web("10.1.0.1", **local), []) == [EventReport(WEB, "Warning", "SetBalancer", none)]
    gone = EventReport(WEB, "Normal", "DelBalancer", "success to withdraw announcement for service")
    assert events.update(without, {}, [WEB]) == [gone]
    assert events.update(without, {}, [WEB]) == []


def test_a_new_service_whose_pods_are_not_ready_has_no_warning():
    events, seen = OpenElbEvents(), view()
    events.update(seen, {}, [])
    waiting = web("10.1.0.1", has_endpoints=False)
    assert events.update(seen, waiting, [WEB]) == []
    assert events.update(seen, waiting, [WEB]) == []
    added = EventReport(WEB, "Normal", "SetBalancer", "success to add nexthops [node1, node2, node3]")
    assert events.update(seen, web("10.1.0.1"), [WEB]) == [added]
    none = "delete balancer with no available nodes for service ip 10.1.0.1:default/web."
    assert events.update(seen, waiting, [WEB]) == [EventReport(WEB, "Warning", "SetBalancer", none)]


def test_only_the_first_member_records_and_only_about_eips():
    events = OpenElbEvents()
    seen = view("node2")
    assert events.update(seen, web("10.1.0.1"), [WEB]) == []
    # When node1 has died, node2 goes on where node1 has stopped.
    seen = replace(seen, members=frozenset({"node2", "node3"}))
    assert events.update(seen, web("10.1.0.1"), []) == []
    assert [report.reason for report in events.update(seen, {}, [WEB])] == ["DelBalancer"]
    assert OpenElbEvents().update(view("node1", OTHER), web("10.2.0.1", pool=OTHER), [WEB]) == []


def test_eips_that_are_configured_otherwise():
    events = OpenElbEvents()
    protocols = {
        "layer2": LAYER2,
        "vip": replace(LAYER2, layer2=(), vrrp=(VrrpAdvertisement("eip", "eth0"),)),
        "bgp": replace(LAYER2, layer2=(), bgp=(BgpAdvertisement("eip"),)),
    }
    found = [report.message for pool in protocols.values() for report in events.update(view("node1", pool), {}, [])]
    found += [report.message for report in events.update(view("node1", OTHER), {}, [])]
    assert found == [
        "config openelb layer2 speaker successfully",
        "unconfig openelb layer2 speaker successfully",
        "config openelb vip speaker successfully",
        "unconfig openelb vip speaker successfully",
        "config openelb bgp speaker successfully",
        "unconfig openelb bgp speaker successfully",
    ]
    message = "interface eth0: no such network interface on node node3"
    assert missing_interface(LAYER2, "node3") == EventReport("eip", "Warning", "ConfigSpeakerFailed", message)
