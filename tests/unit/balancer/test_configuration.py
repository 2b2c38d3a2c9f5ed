"""Compilation of MetalLB's and OpenELB's objects. The texts are MetalLB's where MetalLB has them."""

from __future__ import annotations

import contextlib
import ipaddress
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.compiled_configuration import (
    BgpAdvertisement,
    Configuration,
    Layer2Advertisement,
    NodeSelection,
    Peer,
    ServiceSelection,
    VrrpAdvertisement,
)
from bridgehead.balancer.configuration import (
    ConfigurationObjects,
    NodeFacts,
    compile_configuration,
    compile_for_start,
    compile_pools,
)
from bridgehead.balancer.errors import ConfigurationInvalid
from bridgehead.balancer.ranges import AddressRange, parse_range
from bridgehead.objects.metallb import BGPAdvertisementSpec, BGPPeerSpec, IPAddressPoolSpec
from bridgehead.objects.openelb import BgpPeerSpec, EipSpec
from bridgehead.objects.selectors import parse_label_selector

from .objects import config_map, eip, gather, obj, pool


def configuration(*objects: Any, **more: Any) -> Configuration:
    return compile_configuration(gather(*objects, **more)).configuration


def rejections(*objects: Any, **more: Any) -> list[tuple[str, str]]:
    compiled = compile_configuration(gather(*objects, **more))
    return [(rejection.about.name, rejection.message) for rejection in compiled.rejections]


NODES = {
    "node1": NodeFacts({"rack": "a"}, (ipaddress.ip_address("10.0.0.201"), ipaddress.ip_address("fd00:10::201"))),
    "node2": NodeFacts({"rack": "b"}, (ipaddress.ip_address("10.0.0.202"),)),
}
PEER: dict[str, Any] = {"myASN": 64500, "peerASN": 64501, "peerAddress": "10.0.0.2"}


def peer(name: str = "router", **changes: Any) -> Any:
    return obj("BGPPeer", name, **{key: value for key, value in {**PEER, **changes}.items() if value is not None})


# --- MetalLB: valid ----------------------------------------------------------------------------------------


def test_the_objects_of_the_tutorial() -> None:
    found = configuration(
        pool("localip-pool", "10.0.0.10-10.0.0.50", autoAssign=True, avoidBuggyIPs=True),
        obj("L2Advertisement", "localip-pool-l2a", ipAddressPools=["localip-pool"], interfaces=["eth0"]),
    )
    (one,) = found.pools
    assert one.ranges == (parse_range("10.0.0.10-10.0.0.50"),)
    assert one.avoid_buggy_ips
    assert one.layer2 == (Layer2Advertisement("localip-pool-l2a", interfaces=("eth0",)),)
    assert one.bgp == ()


@pytest.mark.parametrize(
    ("selection", "concerned"),
    [
        ({}, {"a", "b", "c"}),
        ({"ipAddressPools": ["a"]}, {"a"}),
        ({"ipAddressPools": ["a", "unknown"]}, {"a"}),
        ({"ipAddressPoolSelectors": [{"matchLabels": {"tier": "1"}}]}, {"b"}),
        ({"ipAddressPoolSelectors": [{"matchExpressions": [{"key": "tier", "operator": "Exists"}]}]}, {"b", "c"}),
        ({"ipAddressPools": ["b"], "ipAddressPoolSelectors": [{"matchLabels": {"tier": "1"}}]}, {"b"}),
        ({"ipAddressPoolSelectors": [{"matchLabels": {"tier": "9"}}]}, set()),
    ],
)
@pytest.mark.parametrize("kind", ["L2Advertisement", "BGPAdvertisement"])
def test_an_advertisement_concerns_named_and_selected_pools(kind: str, selection: Any, concerned: set[str]) -> None:
    found = configuration(
        pool("a", "10.0.1.0/24"),
        pool("b", "10.0.2.0/24", labels={"tier": "1"}),
        pool("c", "10.0.3.0/24", labels={"tier": "2"}),
        obj(kind, "advertisement", **selection),
    )
    assert {one.name for one in found.pools if one.layer2 or one.bgp} == concerned


def test_service_allocation() -> None:
    allocation = {
        "priority": 5,
        "namespaces": ["shop"],
        "namespaceSelectors": [{"matchLabels": {"team": "x"}}],
        "serviceSelectors": [{"matchLabels": {"app": "web"}}],
    }
    (one,) = configuration(pool("a", "10.0.1.0/24", serviceAllocation=allocation)).pools
    assert one.services == ServiceSelection(
        5, frozenset({"shop"}), (parse_label_selector("team=x"),), (parse_label_selector("app=web"),)
    )


def test_a_bgp_advertisement() -> None:
    found = configuration(
        pool("a", "192.0.2.0/24"),
        peer(),
        obj("Community", "aliases", communities=[{"name": "no-advertise", "value": "65535:65282"}]),
        obj(
            "BGPAdvertisement",
            "routes",
            aggregationLength=26,
            localPref=100,
            communities=["no-advertise", "64500:1", "large:64500:1:2"],
            peers=["router"],
            nodeSelectors=[{"matchLabels": {"rack": "a"}}],
        ),
    )
    assert found.pools[0].bgp == (
        BgpAdvertisement(
            "routes",
            NodeSelection((parse_label_selector("rack=a"),)),
            aggregation_length=26,
            local_preference=100,
            communities=frozenset({(65535, 65282), (64500, 1), (64500, 1, 2)}),
            peers=("router",),
        ),
    )


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, {}),
        ({"peerPort": 1179}, {"port": 1179}),
        ({"peerASN": None, "dynamicASN": "external"}, {"peer_asn": "external"}),
        ({"holdTime": "90s"}, {"hold_time": 90, "keepalive_time": 30}),
        ({"keepaliveTime": "10s"}, {"hold_time": 30, "keepalive_time": 10}),
        ({"holdTime": "1m", "keepaliveTime": "15s"}, {"hold_time": 60, "keepalive_time": 15}),
        ({"holdTime": "0s"}, {"hold_time": 0, "keepalive_time": 0}),
        ({"connectTime": "5s"}, {"connect_time": 5}),
        ({"password": "secret"}, {"password": "secret"}),
        ({"passwordSecret": {"name": "bgp"}}, {"password_secret": ("metallb-system", "bgp")}),
        ({"sourceAddress": "10.0.0.9"}, {"source_address": ipaddress.ip_address("10.0.0.9")}),
        ({"routerID": "10.0.0.9"}, {"router_id": "10.0.0.9"}),
        ({"ebgpMultiHop": True}, {"ebgp_multi_hop": True}),
        ({"enableGracefulRestart": True}, {"graceful_restart": True}),
        ({"dualStackAddressFamily": True}, {"both_families": True}),
        (
            {"nodeSelectors": [{"matchLabels": {"rack": "a"}}]},
            {"nodes": NodeSelection((parse_label_selector("rack=a"),))},
        ),
    ],
)
def test_a_peer(changes: Any, fields: Any) -> None:
    expected = {"peer_asn": 64501, **fields}
    address = ipaddress.ip_address("10.0.0.2")
    assert configuration(peer(**changes)).peers == {"router": Peer("router", 64500, address=address, **expected)}


@pytest.mark.parametrize("changes", [{}, {"peerASN": None, "dynamicASN": "external"}, {"ebgpMultiHop": True}])
def test_the_as_number_for_one_peer(changes: Any) -> None:
    assert configuration(peer(localASN=65410, **changes)).peers["router"].my_asn == 65410


def test_bfd_profiles_have_the_defaults_of_frr() -> None:
    found = configuration(obj("BFDProfile", "fast", transmitInterval=100), peer(bfdProfile="fast"))
    profile = found.bfd_profiles["fast"]
    assert (profile.transmit_interval, profile.receive_interval, profile.detect_multiplier) == (100, 300, 3)
    assert found.peers["router"].bfd_profile == "fast"


def test_the_order_of_objects_does_not_matter() -> None:
    objects = [
        pool("b", "10.0.2.0/24"),
        pool("a", "10.0.1.0/24"),
        obj("L2Advertisement", "z"),
        obj("L2Advertisement", "y"),
    ]
    assert configuration(*objects) == configuration(*reversed(objects))


def test_a_fallback_pool_may_overlap_another_one() -> None:
    fallback = pool("lab", "10.0.0.10-10.0.0.50", annotations={"bridgehead.io/fallback-pool": "true"})
    found = configuration(fallback, pool("own", "10.0.0.20-10.0.0.30"))
    owners = {number: found.pool_of(ipaddress.ip_address(f"10.0.0.{number}")) for number in (10, 25, 51)}
    assert [owner and owner.name for owner in owners.values()] == ["lab", "own", None]


# --- MetalLB: refused --------------------------------------------------------------------------------------

INVALID = [
    ([pool("a")], "parsing address pool a: pool has no prefixes defined"),
    ([pool("a", "10.0.0.1")], 'parsing address pool a: invalid CIDR "10.0.0.1" in pool "a": '),
    ([pool("a", "10.0.0.9-10.0.0.1")], 'invalid IP range "10.0.0.9-10.0.0.1": start 10.0.0.9 is after end 10.0.0.1'),
    ([pool("a", "10.0.0.9-fd00::1")], "start and end are of different families"),
    ([pool("a", "10.0.0.0/33")], 'invalid CIDR address: "10.0.0.0/33"'),
    ([pool("a", "10.1.0.0/255.255.255.0")], 'invalid CIDR address: "10.1.0.0/255.255.255.0"'),
    ([pool("a", "x-y")], 'invalid IP range "x-y"'),
    (
        [pool("a", "10.7.0.0/24"), pool("b", "10.7.0.128-10.7.1.9")],
        'CIDR "10.7.0.128-10.7.1.9" in pool "b" overlaps with already defined CIDR "10.7.0.0/24"',
    ),
    ([pool("a", "10.7.0.0/24", "10.7.0.0/25")], 'CIDR "10.7.0.0/25" in pool "a" overlaps'),
    ([pool("a", "10.0.0.0/24")], 'pool a: "10.0.0.0/24" contains 10.0.0.201, the address of node "node1"'),
    ([pool("a", "fd00:10::/64")], 'contains fd00:10::201, the address of node "node1"'),
    ([pool("a", "172.16.0.0/16")], "contains 172.16.5.5, an address of the API server"),
    ([pool("a", "10.1.0.0/24", "224.0.0.8/30")], '"224.0.0.8/30" contains 224.0.0.8, a multicast address'),
    ([pool("a", "126.0.0.0-128.0.0.0")], '"126.0.0.0-128.0.0.0" contains 127.0.0.0, a loopback address'),
    ([pool("a", "fe80::1:0/112")], '"fe80::1:0/112" contains fe80::1:0, a link-local address'),
    (
        [pool("a", "10.1.0.0/24", serviceAllocation={"namespaces": ["x", "x"]})],
        "duplicate definition in namespaces field",
    ),
    (
        [pool("a", "10.1.0.0/24", serviceAllocation={"serviceSelectors": [{"matchLabels": {"a": "b"}}] * 2})],
        'duplicate definition of serviceSelectors "a=b"',
    ),
    ([obj("L2Advertisement", "l", ipAddressPools=["p", "p"])], 'duplicate definition of ipAddressPools "p"'),
    (
        [obj("L2Advertisement", "l", nodeSelectors=[{"matchExpressions": [{"key": "a", "operator": "Near"}]}])],
        "'Near' is not a valid label selector operator",
    ),
    (
        [obj("L2Advertisement", "l", nodeSelectors=[{"matchExpressions": [{"key": "a", "operator": "In"}]}])],
        "for 'in', 'notin' operators, values set can't be empty",
    ),
    (
        [
            obj(
                "L2Advertisement",
                "l",
                nodeSelectors=[{"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}],
            )
        ],
        "values set must be empty for exists and does not exist",
    ),
    (
        [
            obj(
                "L2Advertisement",
                "l",
                nodeSelectors=[
                    {"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]}
                ],
            )
        ],
        'duplicate definition of match expressions "a"',
    ),
    ([obj("BGPAdvertisement", "b", communities=["1:2", "1:2"])], 'duplicate definition of community "1:2"'),
    (
        [obj("BGPAdvertisement", "b", communities=["alias"])],
        'invalid community "alias" in BGP advertisement: invalid community format: alias',
    ),
    (
        [obj("BGPAdvertisement", "b", communities=["1:70000"])],
        'invalid community value: invalid section "70000" of community "1:70000": not a number of 16 bits',
    ),
    (
        [obj("BGPAdvertisement", "b", communities=["large:1:2:-3"])],
        'invalid section "-3" of community "large:1:2:-3": not a number of 32 bits',
    ),
    (
        [obj("BGPAdvertisement", "b", communities=["big:1:2:3"])],
        'expected community to be of format large:<uint32>:<uint32>:<uint32> but got "big:1:2:3" instead',
    ),
    ([obj("BGPAdvertisement", "b", aggregationLength=33)], "invalid aggregation length 33 for IPv4"),
    ([obj("BGPAdvertisement", "b", aggregationLengthV6=129)], "invalid aggregation length 129 for IPv6"),
    (
        [obj("BGPAdvertisement", "b", aggregationLength=24, serviceSelectors=[{}])],
        "serviceSelectors and aggregationLength are mutually exclusive, both cannot be set in b",
    ),
    (
        [pool("a", "192.0.2.0/24"), obj("BGPAdvertisement", "b", aggregationLength=20)],
        "length 20: prefix 24 in this pool is more specific than the aggregation length for addresses 192.0.2.0/24",
    ),
    (
        [pool("a", "192.0.2.1-192.0.2.3"), obj("BGPAdvertisement", "b", aggregationLength=20)],
        "prefix 31 in this pool is more specific than the aggregation length for addresses 192.0.2.1-192.0.2.3",
    ),
    (
        [
            pool("a", "192.0.2.0/24"),
            obj("BGPAdvertisement", "b", localPref=1),
            obj("BGPAdvertisement", "c", localPref=2),
        ],
        "invalid local preference 2: local preference 1 was already set",
    ),
    (
        [obj("Community", "c", communities=[{"name": "x", "value": "1"}])],
        'parsing community "x": invalid community format: 1',
    ),
    (
        [obj("Community", "c", communities=[{"name": "x", "value": "1:1"}, {"name": "x", "value": "1:2"}])],
        'duplicate definition of community "x"',
    ),
    ([peer(myASN=0)], "parsing peer router missing local ASN"),
    ([peer(peerASN=None)], "missing peer ASN and dynamicASN"),
    ([peer(dynamicASN="internal")], "both peer ASN and dynamicASN specified"),
    ([peer(peerASN=None, dynamicASN="other")], "invalid dynamicASN other"),
    ([peer(peerASN=64500, ebgpMultiHop=True)], "invalid ebgp-multihop parameter set for an ibgp peer"),
    ([peer(peerAddress=None)], "peer has no Address or Interface specified"),
    ([peer(peerAddress="router")], 'invalid BGPPeer address "router"'),
    ([peer(peerAddress="fe80::1%eth0")], 'invalid BGPPeer address "fe80::1%eth0"'),
    ([peer(interface="eth0")], "has interface set, which is not supported"),
    ([peer(vrf="red")], "has vrf set, which is not supported"),
    ([peer(localASN=9, peerASN=64500)], "parsing peer router has localASN set, which is for external peers only"),
    ([peer(localASN=9, peerASN=None, dynamicASN="internal")], "which is for external peers only"),
    ([peer(localASN=64501)], "has the peer's AS number as localASN"),
    ([peer(holdTime="2s")], 'invalid BGPPeer timers: invalid hold time "2s": must be 0 or >=3s'),
    ([peer(holdTime="9s", keepaliveTime="10s")], 'invalid keepaliveTime "10s", must be lower than holdTime "9s"'),
    ([peer(holdTime="soon")], 'invalid hold time "soon"'),
    ([peer(routerID="fd00::1")], 'invalid router ID "fd00::1"'),
    ([peer(sourceAddress="x")], 'invalid source IP "x"'),
    (
        [peer(password="a", passwordSecret={"name": "b"})],
        "can not have both password and secret ref set in peer config",
    ),
    ([peer(password="a\nb")], "contains invalid characters"),
    ([peer("a"), peer("b")], "parsing peer b is a duplicate: on some nodes peer a has its address 10.0.0.2, too"),
    ([peer(bfdProfile="none")], "peer router referencing non existing bfd profile none"),
    (
        [obj("BFDProfile", "f", detectMultiplier=1)],
        "invalid detect multiplier value: invalid value 1, must be in 2-255 range",
    ),
    (
        [
            pool("a", "2001:db8::/120"),
            obj("BGPAdvertisement", "b"),
            obj("BFDProfile", "echo", echoMode=True),
            peer(bfdProfile="echo"),
        ],
        "pool a has bgpadvertisement b which references peer router which has bfd echo enabled, which is not possible",
    ),
    (
        [
            config_map('address-pools: [{name: a, protocol: layer2, addresses: ["10.7.0.0/24"]}]'),
            pool("a", "10.8.0.0/24"),
        ],
        'duplicate definition of pool "a"',
    ),
    ([config_map("address-pools: [{name: a, protocol: rip}]")], 'parsing address pool a: unknown protocol "rip"'),
    ([config_map("address-pools: [{protocol: layer2}]")], "parsing address pool #1: missing pool name"),
    ([config_map("address-pools: 1")], "parsing the ConfigMap config: Expected `array | null`, got `str`"),
    ([config_map("{")], "parsing the ConfigMap config: yaml: line 1: did not find expected node content"),
]


@pytest.mark.parametrize(("objects", "text"), INVALID, ids=[text[:60] for _, text in INVALID])
def test_an_invalid_configuration_names_its_fault(objects: list[Any], text: str) -> None:
    reserved = ((parse_range("172.16.5.5/32"), "an address of the API server"),)
    with pytest.raises(ConfigurationInvalid) as caught:
        compile_configuration(gather(*objects, nodes=NODES, reserved=reserved))
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_pools_are_valid_whatever_announces_them() -> None:
    valid = [pool("a", "10.1.0.0/24"), eip("e", "10.2.0.1")]
    faults = [
        peer(bfdProfile="none"),
        obj("BGPAdvertisement", "b", communities=["alias"]),
        obj("L2Advertisement", "l", ipAddressPools=["a", "a"]),
        obj("Community", "c", communities=[{"name": "x", "value": "1"}]),
        obj("BFDProfile", "f", detectMultiplier=1),
    ]
    for fault in faults:
        objects = gather(*valid, fault)
        with pytest.raises(ConfigurationInvalid):
            compile_configuration(objects)
        assert [(one.name, one.layer2) for one in compile_pools(objects)[:1]] == [("a", ())]
        assert [one.name for one in compile_pools(objects)] == ["a", "e"]
    with pytest.raises(ConfigurationInvalid, match="overlaps with already defined CIDR"):
        compile_pools(gather(*valid, pool("b", "10.1.0.0/25")))


def test_a_speaker_that_begins_with_an_invalid_peer_announces_by_layer_2() -> None:
    objects = [pool("a", "10.1.0.0/24"), obj("L2Advertisement", "l"), obj("BGPAdvertisement", "b")]
    (one,) = compile_for_start(gather(*objects, peer(bfdProfile="none"))).pools
    assert ([found.name for found in one.layer2], one.bgp) == (["l"], ())
    assert compile_for_start(gather(*objects, pool("b", "10.1.0.0/25"))) == Configuration()


def test_the_error_refers_to_the_object_at_fault() -> None:
    with pytest.raises(ConfigurationInvalid) as caught:
        configuration(pool("good", "10.1.0.0/24"), pool("bad", "10.1.0.1"))
    assert caught.value.about is not None
    assert (caught.value.about.kind, caught.value.about.name, caught.value.about.uid) == (
        "IPAddressPool",
        "bad",
        "uid-bad",
    )
    assert caught.value.about.api_version == "metallb.io/v1beta1"
    with pytest.raises(ConfigurationInvalid) as caught:
        configuration(config_map("address-pools: [{name: a, protocol: layer2, addresses: [1]}]"))
    assert caught.value.about is not None
    with pytest.raises(ConfigurationInvalid) as caught:
        configuration(config_map('address-pools: [{name: a, protocol: layer2, addresses: ["1"]}]'))
    assert caught.value.about is not None
    assert (caught.value.about.kind, caught.value.about.name) == ("ConfigMap", "config")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"peers": ["x"]}, {"peers": ["y"]}),
        ({"aggregationLength": 32}, {"aggregationLength": 28}),
        ({"nodeSelectors": [{"matchLabels": {"rack": "a"}}]}, {"nodeSelectors": [{"matchLabels": {"rack": "b"}}]}),
        ({"serviceSelectors": [{"matchLabels": {"app": "a"}}]}, {}),
    ],
)
def test_different_local_preferences_of_different_routes_are_valid(one: Any, other: Any) -> None:
    configuration(
        pool("a", "192.0.2.0/24"),
        obj("BGPAdvertisement", "b", localPref=1, **one),
        obj("BGPAdvertisement", "c", localPref=2, **other),
        nodes=NODES,
    )


def test_bfd_echo_is_valid_for_peers_without_ipv6_routes() -> None:
    configuration(
        pool("four", "192.0.2.0/24"),
        pool("six", "2001:db8::/120", labels={"family": "6"}),
        obj("BGPAdvertisement", "others", peers=["plain"]),
        obj("BGPAdvertisement", "four", ipAddressPools=["four"]),
        obj("BFDProfile", "echo", echoMode=True),
        peer(bfdProfile="echo"),
        peer("plain", peerAddress="10.0.0.3"),
    )


def test_one_address_is_a_peer_of_different_nodes_twice() -> None:
    racks = [{"nodeSelectors": [{"matchLabels": {"rack": rack}}]} for rack in ("a", "b")]
    assert len(configuration(peer("one", **racks[0]), peer("two", **racks[1]), nodes=NODES).peers) == 2
    with pytest.raises(ConfigurationInvalid, match="parsing peer two is a duplicate"):
        configuration(peer("one", **racks[0]), peer("two"), nodes=NODES)
    zone = {"nodeSelectors": [{"matchLabels": {"zone": "x"}}]}
    in_both = {"node1": NodeFacts({"rack": "a", "zone": "x"})}
    with pytest.raises(ConfigurationInvalid, match="parsing peer two is a duplicate"):
        configuration(peer("one", **racks[0]), peer("two", **zone), nodes=in_both)


# --- Objects that do not count -----------------------------------------------------------------------------


def test_objects_of_other_namespaces_do_not_count() -> None:
    found = rejections(pool("stray", "10.1.0.0/24", ns="default"))
    assert found == [("stray", "resource must be created in metallb-system namespace")]


def test_an_unknown_peer_is_named() -> None:
    found = rejections(peer(), obj("BGPAdvertisement", "b", peers=["router", "nobody"]))
    assert found == [("b", "bgpadvertisement b names the peer nobody, which does not exist")]


# --- The ConfigMap -----------------------------------------------------------------------------------------

CONFIG = """
peers:
- peer-address: 10.0.0.2
  peer-asn: 64501
  my-asn: 64500
  hold-time: 90s
  node-selectors:
  - match-labels: {rack: a}
    match-expressions: [{key: zone, operator: In, values: [x]}]
  bfd-profile: fast
address-pools:
- name: first
  protocol: layer2
  addresses: [10.0.0.10-10.0.0.50]
- name: second
  protocol: bgp
  auto-assign: false
  avoid-buggy-ips: true
  addresses: [192.0.2.0/24]
  bgp-advertisements:
  - aggregation-length: 32
    localpref: 100
    communities: [no-advertise]
  - aggregation-length: 24
- name: third
  protocol: bgp
  addresses: [198.51.100.0/24]
bgp-communities: {no-advertise: "65535:65282"}
bfd-profiles: [{name: fast, receive-interval: 100, minimum-ttl: 10}]
"""


def test_the_config_map_of_old_versions_is_read_with_a_hint() -> None:
    compiled = compile_configuration(gather(config_map(CONFIG)))
    found = compiled.configuration
    pools = {one.name: one for one in found.pools}
    assert [advertisement.name for advertisement in pools["first"].layer2] == ["l2advertisement1"]
    assert (pools["second"].auto_assign, pools["second"].avoid_buggy_ips) == (False, True)
    assert [(one.aggregation_length, one.local_preference) for one in pools["second"].bgp] == [(32, 100), (24, 0)]
    assert pools["second"].bgp[0].communities == {(65535, 65282)}
    assert [one.aggregation_length for one in pools["third"].bgp] == [32]
    assert found.peers["peer1"].hold_time == 90
    assert found.peers["peer1"].nodes.matches({"rack": "a", "zone": "x"})
    assert found.bfd_profiles["fast"].receive_interval == 100
    ((rejection),) = compiled.rejections
    assert (rejection.about.kind, rejection.message[:40]) == ("ConfigMap", "the ConfigMap format is that of MetalLB ")


def test_the_config_map_and_objects_are_judged_together() -> None:
    with pytest.raises(ConfigurationInvalid, match="overlaps with already defined CIDR"):
        configuration(config_map(CONFIG), pool("new", "10.0.0.20/32"))


def test_scalars_of_the_config_map_are_what_their_fields_are() -> None:
    """A community such as 64512:1 is a sexagesimal number in YAML 1.1."""
    text = """
peers:
- {my-asn: 64500, peer-asn: 64501, peer-address: 10.0.0.2, password: 012345, node-selectors: [{match-labels: {r: 7}}]}
address-pools:
- name: 2024-01-01
  protocol: bgp
  addresses: [192.0.2.0/24]
  auto-assign: no
  bgp-advertisements: [{localpref: 100, communities: [vpn, 64512:1]}]
bgp-communities: {vpn: 1234:1}
"""
    found = configuration(config_map(text))
    (one,) = found.pools
    assert (one.name, one.auto_assign) == ("2024-01-01", False)
    assert (one.bgp[0].local_preference, one.bgp[0].communities) == (100, {(1234, 1), (64512, 1)})
    assert found.peers["peer1"].password == "012345"
    assert found.peers["peer1"].nodes.matches({"r": "7"})


def test_an_empty_config_map_configures_nothing() -> None:
    assert configuration(config_map("")).pools == ()


# --- OpenELB -----------------------------------------------------------------------------------------------


def test_eips() -> None:
    bgp_conf: dict[str, Any] = {"as": 64500, "routerId": "10.0.0.9", "gracefulRestart": {"enabled": True}}
    found = configuration(
        eip("layer2", "10.0.0.10-10.0.0.50", default=True, priority=3),
        eip("bgp", "192.0.2.0/24", protocol="", namespaces=["shop"]),
        eip("vip", "10.0.0.60", protocol="vip", disable=True, namespaceSelector={"team": "x"}),
        obj("BgpConf", "default", **bgp_conf),
        obj(
            "BgpPeer",
            "tor",
            conf={"peerAs": 64501, "neighborAddress": "10.0.0.2", "authPassword": "p"},
            timers={"config": {"holdTime": "90", "keepaliveInterval": "30", "connectRetry": "5.5"}},
            transport={"passiveMode": True, "remotePort": 1179},
            nodeSelector={"matchLabels": {"rack": "a"}},
        ),
        pool("metallb", "198.51.100.0/24"),
        obj("BGPAdvertisement", "to-nobody"),
    )
    pools = {one.name: one for one in found.pools}
    assert pools["layer2"].layer2 == (Layer2Advertisement("layer2", interfaces=("eth0",)),)
    assert pools["layer2"].is_default
    assert pools["layer2"].services is None
    assert pools["bgp"].bgp == (BgpAdvertisement("bgp", peers=("tor",)),)
    assert pools["bgp"].services == ServiceSelection(0, frozenset({"shop"}))
    assert pools["vip"].vrrp == (VrrpAdvertisement("vip", "eth0"),)
    assert pools["vip"].is_disabled
    assert pools["vip"].ranges == (AddressRange(4, *[int(ipaddress.ip_address("10.0.0.60"))] * 2),)
    assert pools["metallb"].bgp == (BgpAdvertisement("to-nobody", peers=()),)  # OpenELB's peer is for Eips only
    assert found.peers["tor"] == Peer(
        "tor",
        64500,
        64501,
        ipaddress.ip_address("10.0.0.2"),
        port=1179,
        hold_time=90,
        keepalive_time=30,
        connect_time=5,
        router_id="10.0.0.9",
        nodes=NodeSelection((parse_label_selector("rack=a"),)),
        password="p",
        graceful_restart=True,
        listen_port=179,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.1.0.7", "10.1.0.7/32"),
        ("10.1.0.7/30", "10.1.0.4/30"),
        ("10.1.0.7/255.255.255.252", "10.1.0.4/30"),
        ("10.1.0.0/255.255.255.255", "10.1.0.0/32"),
        ("fd00::7/126", "fd00::4/126"),
        ("10.1.0.4-10.1.0.7", "10.1.0.4/30"),
    ],
)
def test_the_address_of_an_eip(text: str, expected: str) -> None:
    assert configuration(eip("e", text)).pools[0].ranges == (parse_range(expected),)


def test_pools_and_peers_may_have_the_same_name() -> None:
    neighbor = obj("BgpPeer", "b", conf={"localAs": 1, "peerAs": 2, "neighborAddress": "10.0.0.3"})
    found = configuration(peer("a"), eip("a", "10.0.0.1"), pool("b", "10.1.0.0/24"), neighbor)
    assert {one.name for one in found.pools} == found.peers.keys() == {"a", "b"}


@pytest.mark.parametrize(
    ("objects", "name", "text"),
    [
        ([eip("e", "10.0.0.300")], "e", 'invalid eip e: invalid address "10.0.0.300"'),
        ([eip("e", "10.0.0.9-10.0.0.1")], "e", "is after end"),
        ([eip("e", "fd00::/255.0.0.0")], "e", 'invalid CIDR address: "fd00::/255.0.0.0"'),
        ([eip("e", "10.1.0.0/0.0.0.255")], "e", 'invalid CIDR address: "10.1.0.0/0.0.0.255"'),
        ([eip("e", "10.0.0.201")], "e", 'contains 10.0.0.201, the address of node "node1"'),
        ([eip("e", "127.0.0.1")], "e", '"127.0.0.1" contains 127.0.0.1, a loopback address'),
        ([eip("e", "10.0.0.1", interface="")], "e", "interface is required for protocol layer2 and vip"),
        ([eip("e", "10.0.0.1", protocol="rip")], "e", 'unknown protocol "rip"'),
        ([eip("a", "10.0.0.1"), eip("e", "10.0.0.0/30")], "e", "eip address 10.0.0.0/30 overlaps with 10.0.0.1 of a"),
        ([pool("p", "10.1.0.0/24"), eip("e", "10.1.0.1")], "e", "overlaps with 10.1.0.0/24 of p"),
        ([pool("e", "10.1.0.0/24"), eip("e", "10.2.0.1")], "e", 'a pool named "e" exists already'),
        ([eip("a", "10.0.0.1", default=True), eip("e", "10.0.0.2", default=True)], "e", "already exists a default EIP"),
        ([obj("BgpConf", "other")], "other", "only the BgpConf default is read"),
        (
            [obj("BgpPeer", "e", conf={"peerAs": 1, "neighborAddress": "10.0.0.2"})],
            "e",
            "the BgpConf default has no AS number",
        ),
        ([obj("BgpPeer", "e", conf={"localAs": 1, "neighborAddress": "10.0.0.2"})], "e", "conf.peerAs is missing"),
        ([obj("BgpPeer", "e", conf={"localAs": 1, "peerAs": 2})], "e", 'invalid neighborAddress ""'),
        ([obj("BgpPeer", "e", conf={"neighborInterface": "eth0"})], "e", "neighborInterface and vrf are not supported"),
        (
            [
                obj(
                    "BgpPeer",
                    "e",
                    conf={"localAs": 1, "peerAs": 2, "neighborAddress": "10.0.0.2"},
                    timers={"config": {"holdTime": "x"}},
                )
            ],
            "e",
            'invalid holdTime "x"',
        ),
        ([peer("e"), obj("BgpPeer", "e")], "e", 'a peer named "e" exists already'),
        (
            [peer("a"), obj("BgpPeer", "e", conf={"localAs": 1, "peerAs": 2, "neighborAddress": "10.0.0.2"})],
            "e",
            "invalid bgppeer e: is a duplicate: on some nodes peer a has its address 10.0.0.2, too",
        ),
    ],
)
def test_an_invalid_object_of_openelb_is_left_out_alone(objects: list[Any], name: str, text: str) -> None:
    compiled = compile_configuration(gather(*objects, eip("good", "10.9.0.1"), nodes=NODES))
    assert "good" in {one.name for one in compiled.configuration.pools}
    ((rejection),) = compiled.rejections
    assert rejection.about.name == name
    assert text in rejection.message


# --- Anything ----------------------------------------------------------------------------------------------

_TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(["", "10.0.0.0/8", "10.0.0.1-10.0.0.9", "::/0", "1:2", "9s", "layer2"])
)
_YAML = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), _TEXT),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(["peers", "address-pools", "name", "protocol", "addresses", "bgp-communities", "my-asn"]),
            inner,
        ),
    ),
    max_leaves=8,
)


def specs(type_: Any) -> st.SearchStrategy[Any]:
    """Specs of which every text field is arbitrary."""
    texts = [f.encode_name for f in msgspec.structs.fields(type_) if f.type in (str, str | None)]
    lists = [f.encode_name for f in msgspec.structs.fields(type_) if f.type == tuple[str, ...]]
    return st.fixed_dictionaries(
        {}, optional={**dict.fromkeys(texts, _TEXT), **{name: st.lists(_TEXT, max_size=3) for name in lists}}
    )


@given(
    pools=st.lists(specs(IPAddressPoolSpec), max_size=3),
    bgp=st.lists(specs(BGPAdvertisementSpec), max_size=2),
    peers=st.lists(specs(BGPPeerSpec), max_size=2),
    eips=st.lists(specs(EipSpec), max_size=3),
    neighbors=st.lists(specs(BgpPeerSpec), max_size=1),
    text=st.one_of(_TEXT, _YAML.map(lambda value: msgspec.json.encode(value).decode())),
)
def test_nothing_raises_another_error(pools: Any, bgp: Any, peers: Any, eips: Any, neighbors: Any, text: str) -> None:
    objects: list[Any] = [config_map(text)]
    for kind, found in (("IPAddressPool", pools), ("BGPAdvertisement", bgp), ("Eip", eips), ("BgpPeer", neighbors)):
        objects += [obj(kind, f"{kind.lower()}{number}", **spec) for number, spec in enumerate(found)]
    objects += [obj("BGPPeer", f"peer{number}", myASN=1, peerASN=2, **spec) for number, spec in enumerate(peers)]
    with contextlib.suppress(ConfigurationInvalid):
        compile_configuration(gather(*objects, nodes=NODES))


def test_no_objects_are_a_valid_configuration() -> None:
    assert compile_configuration(ConfigurationObjects()).configuration == Configuration()
