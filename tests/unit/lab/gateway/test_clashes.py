"""Reasons why a machine cannot have routes to a lab."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from bridgehead.lab.addressing import IPV4, IPV6
from bridgehead.lab.gateway.clashes import find_clash, taken_networks
from bridgehead.network.rtnetlink_listing import LinkRecord, RouteRecord


def link(*addresses: str, name: str = "eth0") -> LinkRecord:
    return LinkRecord(2, name, 1500, True, "", addresses)


def route(destination: str, device: str = "eth0", via: str = "", kind: str = "unicast") -> RouteRecord:
    family = 6 if ":" in destination or ":" in via else 4
    return RouteRecord(family, destination, device, via, kind, "main", 0, "")


HARMLESS = [
    route("default", via="192.0.2.1"),
    route("0.0.0.0/1", "tun0"),
    route("128.0.0.0/1", "tun0"),
    route("192.0.2.0/24"),
    route("172.17.0.0/16", "docker0"),
    route("default", via="fe80::1"),
    route("fe80::/64"),
    route("10.0.0.255/32", kind="broadcast"),
    route("10.1.0.0/16", via="fe80::1"),
]


@pytest.mark.parametrize(
    ("links", "routes", "servers", "reason"),
    [
        ((link("192.0.2.2/24", "fe80::2/64"),), HARMLESS, ("192.0.2.53", "fe80::53"), ""),
        ((link("10.0.0.5/8"),), (), (), "the address 10.0.0.5 (eth0), and the lab's network is 10.0.0.0/24;"),
        (
            (link("10.100.0.1/32"),),
            (),
            (),
            "the address 10.100.0.1 (eth0), and the lab's Service range is 10.96.0.0/12;",
        ),
        ((link("fd00:10:244::7/64"),), (), (), "the address fd00:10:244::7 (eth0), and the lab's pod range"),
        ((), (route("10.244.0.0/16", "cni0"),), (), "a route to 10.244.0.0/16 through cni0, and the lab's pod range"),
        ((), (route("10.96.0.10/32", "", kind="blackhole"),), (), "a route to 10.96.0.10/32, and"),
        ((), (route("10.0.0.0/8", "wg0"),), (), "a route to 10.0.0.0/8 through wg0, and the lab's network"),
        (
            (),
            (route("10.0.0.0/24", "bh-other"),),
            (),
            "a route to 10.0.0.0/24 through bh-other, the link of another lab",
        ),
        ((), (route("default", via="10.0.0.254"),), (), "the router 10.0.0.254 (eth0) of its route to default"),
        ((), (), ("10.0.0.53",), "the name server 10.0.0.53 (/etc/resolv.conf)"),
    ],
)
def test_the_machine_needs_an_address_itself(links, routes, servers, reason: str) -> None:
    text = find_clash((IPV4, IPV6), links, routes, servers)
    assert text.startswith(f"this machine has {reason}") if reason else text == ""


@pytest.mark.parametrize(
    ("address", "option"),
    [("10.0.0.5/8", "--fabric-cidr"), ("10.244.9.9/32", "--pod-cidr"), ("fd00:10:96::3/128", "--service-cidr")],
)
def test_the_option_that_helps_is_named(address: str, option: str) -> None:
    assert find_clash((IPV4, IPV6), [link(address)], (), ()).endswith(f"{option} chooses another")


def test_families_that_the_machine_does_not_get_cannot_clash() -> None:
    assert find_clash((IPV4,), [link("fd00:10::1/64")], (), ()) == ""


def test_networks_of_the_machine() -> None:
    found = taken_networks(
        [link("169.254.192.9/30")], [route(each) for each in ("default", "128.0.0.0/1", "169.254.200.0/24")]
    )
    assert found == [ip_network("169.254.192.9"), ip_network("169.254.192.8/30"), ip_network("169.254.200.0/24")]
