"""The canonical form of Endpoints subsets, in the notation `1.1.1.1,!1.1.1.2 : http=80,443` (! is not ready)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.controllers.endpoints.subsets import repack_subsets, truncate_subsets
from bridgehead.objects.core import EndpointAddress, EndpointPort, EndpointSubset
from bridgehead.objects.meta import ObjectReference


def parse(text: str) -> EndpointSubset:
    hosts, _, numbers = text.partition(":")
    ready, not_ready = [], []
    for host in filter(None, hosts.strip().split(",")):
        (not_ready if host.startswith("!") else ready).append(EndpointAddress(ip=host.strip("!")))
    ports = []
    for number in filter(None, numbers.strip().split(",")):
        name, _, number = number.rpartition("=")
        ports.append(EndpointPort(name=name, port=int(number)))
    return EndpointSubset(addresses=tuple(ready), not_ready_addresses=tuple(not_ready), ports=tuple(ports))


def show(subset: EndpointSubset) -> str:
    hosts = [a.ip for a in subset.addresses] + [f"!{a.ip}" for a in subset.not_ready_addresses]
    ports = [f"{port.name}={port.port}" if port.name else str(port.port) for port in subset.ports]
    return f"{','.join(hosts)} : {','.join(ports)}".strip()


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([], []),
        (["1.1.1.1 : 80"], ["1.1.1.1 : 80"]),
        (["1.1.1.2 : 80", "1.1.1.1 : 80"], ["1.1.1.1,1.1.1.2 : 80"]),
        (["1.1.1.1 : 80", "1.1.1.1 : 443"], ["1.1.1.1 : 80,443"]),
        (["1.1.1.1,1.1.1.2 : 80,443"], ["1.1.1.1,1.1.1.2 : 80,443"]),
        (["1.1.1.1 : 80,443", "1.1.1.2 : 80"], ["1.1.1.1,1.1.1.2 : 80", "1.1.1.1 : 443"]),
        (["1.1.1.1 : b=80,a=81"], ["1.1.1.1 : a=81,b=80"]),
        (["!1.1.1.1 : 80", "1.1.1.2 : 80"], ["1.1.1.2,!1.1.1.1 : 80"]),
        (["1.1.1.1 : 80", "!1.1.1.1 : 80"], ["!1.1.1.1 : 80"]),
        (["1.1.1.1 : 80", "!1.1.1.1 : 443"], ["1.1.1.1 : 80", "!1.1.1.1 : 443"]),
        (["1.1.1.1 :", "1.1.1.2 :"], ["1.1.1.1,1.1.1.2 :"]),
        (["1.1.1.1 : 80", " : 80"], ["1.1.1.1 : 80"]),
        (["1.1.1.10 : 80", "1.1.1.2 : 80"], ["1.1.1.10,1.1.1.2 : 80"]),
    ],
)
def test_subsets_are_repacked_as_kubernetes_does(given, wanted):
    subsets = [parse(text) for text in given]
    assert sorted(map(show, repack_subsets(subsets))) == sorted(wanted)
    assert repack_subsets(reversed(subsets)) == repack_subsets(subsets), "order must not matter"


def test_pods_that_share_an_address_stay_separate():
    pods = [EndpointAddress(ip="10.0.0.201", target_ref=ObjectReference(kind="Pod", uid=uid)) for uid in ("b", "a")]
    subsets = [EndpointSubset(addresses=(pod,), ports=(EndpointPort(port=80),)) for pod in pods]
    assert repack_subsets(subsets)[0].addresses == (pods[1], pods[0])


addresses = st.sets(st.integers(1, 6).map(lambda n: EndpointAddress(ip=f"1.1.1.{n}")), max_size=4).map(tuple)
ports = st.sets(st.integers(80, 83).map(lambda n: EndpointPort(port=n)), min_size=1, max_size=3).map(tuple)
subsets = st.lists(
    st.builds(EndpointSubset, addresses=addresses, not_ready_addresses=addresses, ports=ports), max_size=6
)


def offers(subsets):
    """(address, port) -> ready"""
    found = {}
    for subset in subsets:
        for ready, group in ((True, subset.addresses), (False, subset.not_ready_addresses)):
            for address in group:
                for port in subset.ports:
                    found[address.ip, port.port] = found.get((address.ip, port.port), True) and ready
    return found


@given(subsets)
def test_repacking_keeps_every_address_and_port_once(given):
    packed = repack_subsets(given)
    assert offers(packed) == offers(given)
    assert sum(len(s.ports) * (len(s.addresses) + len(s.not_ready_addresses)) for s in packed) == len(offers(given))
    assert repack_subsets(packed) == packed


def count(subsets):
    return [(len(s.addresses), len(s.not_ready_addresses)) for s in subsets]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([(600, 400)], None),
        ([(1001, 0)], [(1000, 0)]),
        ([(600, 600)], [(600, 400)]),
        ([(1200, 600)], [(1000, 0)]),
        ([(1000, 0), (1000, 5)], [(500, 0), (500, 0)]),
        ([(900, 0), (0, 300)], [(900, 0), (0, 100)]),
        ([(0, 2), (0, 1000), (0, 2)], [(0, 2), (0, 997), (0, 1)]),
    ],
)
def test_subsets_have_at_most_a_thousand_addresses_and_ready_ones_first(given, wanted):
    subsets = [
        EndpointSubset(
            addresses=tuple(EndpointAddress(ip=f"r{n}") for n in range(ready)),
            not_ready_addresses=tuple(EndpointAddress(ip=f"n{n}") for n in range(not_ready)),
        )
        for ready, not_ready in given
    ]
    cut, truncated = truncate_subsets(subsets)
    assert (count(cut), truncated) == (wanted or given, wanted is not None)
