"""Reasons why no node announces a Service's address."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Any

import pytest

from bridgehead.balancer.compiled_configuration import (
    BgpAdvertisement,
    Configuration,
    Layer2Advertisement,
    NodeSelection,
    Peer,
    Pool,
    VrrpAdvertisement,
)
from bridgehead.balancer.controller.unannounced_addresses import why_unannounced
from bridgehead.balancer.ranges import parse_range
from bridgehead.balancer.view import ClusterView, NodeView, Publication
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import parse_label_selector

RACK_1, RACK_2, NOWHERE = (NodeSelection((parse_label_selector(f"rack={number}"),)) for number in (1, 2, 3))
OTHERS = (parse_label_selector("app=other"),)
BGP = Pool("pool", "metallb", (parse_range("10.0.0.0/24"),), bgp=(BgpAdvertisement("all"),))
LAYER2 = replace(BGP, bgp=(), layer2=(Layer2Advertisement("all"),))
PEER = Peer("router", 64512, 64513, ipaddress.ip_address("10.9.0.1"))
NODES = {f"node{number}": NodeView(f"node{number}", {"rack": str(number)}) for number in (1, 2)}
ADDRESS = ipaddress.ip_address("10.0.0.10")


def publication(pool: Pool, **fields: Any) -> Publication:
    service = Publication(
        ObjectKey("default", "web"), "uid", {"app": "web"}, ((ADDRESS, pool),), False, frozenset(NODES), True
    )
    return replace(service, **fields)


def view(*peers: Peer, excluded: tuple[str, ...] = ()) -> ClusterView:
    nodes = {name: replace(node, is_excluded=name in excluded) for name, node in NODES.items()}
    return ClusterView("", Configuration(peers={peer.name: peer for peer in peers}), nodes)


@pytest.mark.parametrize(
    ("service", "cluster"),
    [
        (publication(LAYER2), view()),
        (publication(LAYER2), view(excluded=("node1",))),
        (publication(LAYER2, is_local=True, endpoint_nodes=frozenset({"node2"})), view()),
        (publication(replace(LAYER2, layer2=(), vrrp=(VrrpAdvertisement("eip", "eth0"),))), view()),
        (publication(BGP), view(PEER)),
        (publication(replace(BGP, layer2=LAYER2.layer2)), view()),  # layer 2 needs no peer
        (publication(LAYER2, addresses=()), view()),
    ],
)
def test_no_reason_where_a_node_announces(service, cluster):
    assert why_unannounced(cluster, service) is None


@pytest.mark.parametrize(
    ("service", "cluster", "reason", "text"),
    [
        (publication(replace(LAYER2, layer2=())), view(), "NoAdvertisement", 'in pool "pool"'),
        (
            publication(replace(LAYER2, layer2=(Layer2Advertisement("a", service_selectors=OTHERS),))),
            view(),
            "NoAdvertisement",
            "is for the Service",
        ),
        (publication(LAYER2, has_endpoints=False), view(), "NoEndpoints", "no ready endpoint"),
        (
            publication(replace(LAYER2, layer2=(Layer2Advertisement("a", nodes=NOWHERE),))),
            view(),
            "NoNode",
            "select no node",
        ),
        (publication(LAYER2), view(excluded=tuple(NODES)), "NoNode", "excluded from load balancers"),
        (
            publication(
                replace(LAYER2, layer2=(Layer2Advertisement("a", nodes=RACK_1),)),
                is_local=True,
                endpoint_nodes=frozenset({"node2"}),
            ),
            view(),
            "NoEndpoints",
            "externalTrafficPolicy is Local",
        ),
        (publication(replace(BGP, name="eip", source="openelb", bgp=())), view(), "NoPeer", 'for Eip "eip"'),
        (publication(BGP), view(), "NoPeer", "no BGP peer"),
        # All of MetalLB's peers, while only OpenELB's exist.
        (publication(replace(BGP, bgp=(BgpAdvertisement("a", peers=()),))), view(PEER), "NoPeer", "no BGP peer"),
        (publication(BGP), view(replace(PEER, nodes=NOWHERE)), "NoPeer", "no BGP peer"),
        (
            publication(replace(BGP, bgp=(BgpAdvertisement("a", nodes=RACK_1),))),
            view(replace(PEER, nodes=RACK_2)),
            "NoPeer",
            "no BGP peer",
        ),
        (publication(replace(BGP, bgp=(BgpAdvertisement("a", peers=("else",)),))), view(PEER), "NoPeer", "no BGP peer"),
    ],
)
def test_each_reason(service, cluster, reason, text):
    why = why_unannounced(cluster, service)
    assert why is not None
    assert why.reason == reason
    assert text in why.message
    assert why.message.startswith("no node announces 10.0.0.10: ")


def test_one_message_for_addresses_of_several_pools():
    other = replace(LAYER2, name="other", layer2=())
    addresses = tuple((ADDRESS + number, pool) for number, pool in enumerate((LAYER2, other, other)))
    why = why_unannounced(view(), publication(LAYER2, addresses=addresses))
    assert why is not None
    assert why.message == (
        'no node announces 10.0.0.11, 10.0.0.12: no advertisement is for the Service in pool "other"'
    )
    why = why_unannounced(view(), publication(LAYER2, addresses=addresses, has_endpoints=False))
    assert why is not None
    assert why.reason == "NoEndpoints"
    assert "no node announces 10.0.0.10: the Service has no ready endpoint; no node announces 10.0.0.11" in why.message
