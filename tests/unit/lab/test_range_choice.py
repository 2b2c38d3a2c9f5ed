"""The ranges of a lab: what is wanted, what an earlier run had, and what the machine is not in."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.lab.addressing import IPV4, IPV6, MAX_API_SERVERS, MAX_NODES, Ranges
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabConfig, plan_nodes, plan_servers
from bridgehead.lab.range_choice import Occupied, Role, choose_ranges, describe_ranges


def choose(fabric=None, pods=None, services=None, *, family="dual", before=None, occupied=()):
    wanted: dict[Role, str | None] = {"fabric": fabric, "pods": pods, "services": services}
    return choose_ranges(wanted, family, before, [Occupied(ip_network(each), f"on {each}") for each in occupied])


def lab(*ranges, family="dual"):
    return LabConfig(name="lab", nodes=2, port=6443, ip_family=family, chosen_ranges=ranges)


def test_a_new_lab_has_the_defaults():
    assert choose() == ((IPV4, IPV6), ())
    assert choose(family="ipv6") == ((IPV6,), ())


def test_each_family_can_have_its_own_range_and_the_rest_are_defaults():
    ranges, notes = choose("fd09::/64,10.9.0.0/16", "172.16.0.0/18", "192.168.5.0/28")
    assert ranges == (
        Ranges(version=4, fabric="10.9.0.0/16", pods="172.16.0.0/18", services="192.168.5.0/28"),
        Ranges(version=6, fabric="fd09::/64", pods=IPV6.pods, services=IPV6.services),
    )
    assert notes == ()
    node = plan_nodes(lab(*ranges))[1]
    assert node.addresses == ("10.9.0.202", "fd09::202")
    assert node.pod_ranges == ("172.16.2.0/24", "fd00:10:244:2::/64")
    assert (ranges[0].cluster_dns, ranges[0].balancer) == ("192.168.5.10", "10.9.0.10-10.9.0.50")
    assert describe_ranges(ranges[:1]) == ("nodes in 10.9.0.0/16, pods in 172.16.0.0/18, Services in 192.168.5.0/28")


@pytest.mark.parametrize(
    ("occupied", "fabric", "pods", "services"),
    [
        ("10.0.0.0/24", "172.30.0.0/24", IPV4.pods, IPV4.services),
        ("10.0.0.7/32", "172.30.0.0/24", IPV4.pods, IPV4.services),
        ("10.0.0.0/8", "172.30.0.0/24", "172.28.0.0/16", "172.29.0.0/16"),
        ("10.96.0.0/16", IPV4.fabric, IPV4.pods, "172.29.0.0/16"),
        ("192.0.2.0/24", IPV4.fabric, IPV4.pods, IPV4.services),
        ("0.0.0.0/1", "172.30.0.0/24", "172.28.0.0/16", "172.29.0.0/16"),
        ("0.0.0.0/0", IPV4.fabric, IPV4.pods, IPV4.services),  # there is no other range
    ],
)
def test_defaults_that_the_machine_is_in_are_avoided_and_named(occupied, fabric, pods, services):
    (ranges,), notes = choose(family="ipv4", occupied=[occupied])
    assert (ranges.fabric, ranges.pods, ranges.services) == (fabric, pods, services)
    pairs = zip((fabric, pods, services), (IPV4.fabric, IPV4.pods, IPV4.services), strict=True)
    assert notes == tuple(
        f"on {occupied}, so the lab has {now} instead of {then}." for now, then in pairs if now != then
    )


def test_ranges_that_are_wanted_may_be_the_machines():
    assert choose("10.0.0.0/24", family="ipv4", occupied=["10.0.0.0/24"]) == ((IPV4,), ())


def test_defaults_make_room_for_what_is_wanted():
    (ranges,), _ = choose(pods="10.0.0.0/16", family="ipv4")
    assert ranges == Ranges(version=4, fabric="172.30.0.0/24", pods="10.0.0.0/16", services=IPV4.services)


def test_a_lab_keeps_its_ranges():
    (mine,), _ = choose("10.9.0.0/24", family="ipv4")
    before = lab(mine, family="ipv4")
    assert choose(family="ipv4", before=before, occupied=["10.9.0.0/24"]) == ((mine,), ())
    assert choose("10.9.0.0/24", family="ipv4", before=before) == ((mine,), ())
    with pytest.raises(LabError, match=r"was made with --fabric-cidr 10\.9\.0\.0/24.*down --delete"):
        choose("10.8.0.0/24", family="ipv4", before=before)
    old = msgspec.json.decode(b'{"name": "lab", "nodes": 1, "port": 1}', type=LabConfig)
    assert choose(family="ipv4", before=old) == ((IPV4,), ())


@pytest.mark.parametrize(
    ("option", "text", "message"),
    [
        ("fabric", "", "'' is no range"),
        ("fabric", "nodes", "'nodes' is no range; give one such as 10.0.0.0/24"),
        ("fabric", "10.0.0.0/33", "is no range"),
        ("fabric", "10.0.0.5/24", "10.0.0.5/24 is an address in a range; the range is 10.0.0.0/24"),
        ("fabric", "10.0.0.0/25", "too small: its prefix length has to be from 8 to 24"),
        ("fabric", "fd00::/120", "from 16 to 112, as in fd00:10::/64"),
        ("pods", "10.0.0.0/19", "--pod-cidr: 10.0.0.0/19 is too small"),
        ("services", "10.0.0.0/8", "--service-cidr: 10.0.0.0/8 is too large"),
        ("services", "10.0.0.0/29", "too small"),
        ("pods", "10.1.0.0/16,10.2.0.0/16", "two ranges of IPv4"),
        ("pods", "127.0.0.0/16", "no host may have"),
        ("fabric", "169.254.7.0/24", "no host may have"),
        ("services", "ff02::/112", "no host may have"),
        ("pods", "x" * 1000, "longer than 200 characters"),
    ],
)
def test_bad_ranges_have_one_clear_line(option, text, message):
    with pytest.raises(LabError) as caught:
        choose(**{option: text})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_range_of_a_family_that_the_lab_has_not_is_refused():
    with pytest.raises(LabError, match=r"no IPv6 \(--ip-family ipv4\)"):
        choose("fd00::/64", family="ipv4")


def test_wanted_ranges_are_apart():
    with pytest.raises(LabError, match=r"--pod-cidr 10\.9\.0\.0/16 and --service-cidr 10\.9\.4\.0/24 share addresses"):
        choose(pods="10.9.0.0/16", services="10.9.4.0/24")


_OCTETS = st.integers(min_value=1, max_value=126)


@given(st.tuples(_OCTETS, _OCTETS, _OCTETS), st.lists(st.tuples(_OCTETS, st.integers(8, 24)), max_size=4))
def test_every_address_is_in_its_range_and_no_two_are_equal(octets, occupied):
    fabric, pods, services = octets
    if len(set(octets)) < 3:
        return
    wanted = (f"{fabric}.0.0.0/24,fd{fabric:02x}::/64", f"{pods}.64.0.0/18", f"{services}.0.0.0/28")
    ranges, _ = choose(*wanted, occupied=[f"{first}.0.0.0/{length}" for first, length in occupied])
    config = msgspec.structs.replace(lab(*ranges), nodes=MAX_NODES, api_servers=MAX_API_SERVERS)
    assert msgspec.json.decode(msgspec.json.encode(config), type=LabConfig) == config
    for index, each in enumerate(ranges):
        hosts = [node.addresses[index] for node in plan_nodes(config)]
        hosts += [server.addresses[index] for server in plan_servers(config)]
        first, last = (int(ip_address(end)) for end in each.balancer.split("-"))
        assert len(set(hosts)) == MAX_NODES + MAX_API_SERVERS
        assert all(ip_address(host) in ip_network(each.fabric) for host in hosts)
        assert not any(first <= int(ip_address(host)) <= last for host in hosts)
        of_nodes = [ip_network(node.pod_ranges[index]) for node in plan_nodes(config)]
        assert len(set(of_nodes)) == MAX_NODES
        assert all(each_pods.subnet_of(ip_network(each.pods)) for each_pods in of_nodes)  # type: ignore[arg-type]
        assert ip_address(each.cluster_dns) in ip_network(each.services)
