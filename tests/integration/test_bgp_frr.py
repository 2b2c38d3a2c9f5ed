"""BGP announcements to FRR."""

from __future__ import annotations

import ipaddress
from dataclasses import replace

import pytest

from bridgehead.balancer.compiled_configuration import BgpAdvertisement, Peer, Pool
from bridgehead.balancer.ranges import parse_range

from .bgp_node import Node, configuration, publication
from .bird_router import ROUTER4, eventually, make_fabric, node_address
from .frr_router import Frr, takes_ipv6_routes
from .namespaced import in_namespace

pytestmark = pytest.mark.integration

CONFIGURATION = f"""
router bgp 64513
 bgp router-id {ROUTER4}
 no bgp ebgp-requires-policy
 no bgp network import-check
 neighbor nodes peer-group
 neighbor nodes remote-as 64512
 neighbor nodes timers connect 1
 neighbor {node_address(1)} peer-group nodes
 neighbor {node_address(2)} peer-group nodes
"""
IPV6 = """\
 address-family ipv6 unicast
  neighbor nodes activate
 exit-address-family
"""
ADVERTISEMENT = BgpAdvertisement("all", communities=frozenset({(64512, 7), (64512, 1, 2)}))
POOL = Pool("pool", "metallb", (parse_range("10.1.0.0/16"), parse_range("fd00:b::/64")), bgp=(ADVERTISEMENT,))
PEER = Peer(
    "router",
    my_asn=64512,
    peer_asn=64513,
    address=ipaddress.ip_address(ROUTER4),
    keepalive_time=1,
)


@in_namespace
def test_routes_with_attributes_come_and_go() -> None:
    make_fabric(2)
    addresses = ipaddress.ip_address("10.1.0.10"), ipaddress.ip_address("fd00:b::10")
    web = publication("web", *addresses, pool=POOL)
    with_ipv6 = takes_ipv6_routes()
    peer = replace(PEER, both_families=with_ipv6)
    with Frr(CONFIGURATION + IPV6 * with_ipv6) as frr, Node("node1") as node1, Node("node2") as node2:
        for node in (node1, node2):
            node.update(configuration(peer), {web.key: web})
            node.await_established("router")
        both = [node_address(1), node_address(2)]
        eventually(lambda: frr.next_hops("10.1.0.10/32") == both, "the routes of both nodes")
        if with_ipv6:
            eventually(lambda: frr.next_hops("fd00:b::10/128") == [node_address(1, 6), node_address(2, 6)], "with IPv6")
        path = frr.route("10.1.0.10/32")["paths"][0]
        assert path["community"]["string"] == "64512:7"
        assert path["largeCommunity"]["string"] == "64512:1:2"

        # Without keepaliveTime there is one in 30 seconds.
        eventually(lambda: frr.keepalives_of(node_address(1)) > 3, "keepalives each second", 25)

        local = replace(web, is_local=True, endpoint_nodes=frozenset({"node2"}), ready_nodes=frozenset({"node2"}))
        for node in (node1, node2):
            node.update(configuration(peer), {web.key: local}, web.key)
        eventually(lambda: frr.next_hops("10.1.0.10/32") == [node_address(2)], "the endpoint's node alone")
        # A session that the router's operator resets comes back with its routes.
        frr.ask("clear bgp *")
        eventually(lambda: frr.next_hops("10.1.0.10/32") == [node_address(2)], "the route after a reset")
        node2.update(configuration(peer), {}, web.key)
        eventually(lambda: frr.next_hops("10.1.0.10/32") == [], "no route")
