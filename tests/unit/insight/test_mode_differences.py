"""Differences between modes: only those that a Service of the cluster has, with the Services named."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.expectations import expect_node
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.mode_differences import Aspect, compare_modes
from bridgehead.proxy.config import MODES
from tests.unit.examples import examples

from .rulesets.clusters import cluster, clusters, endpoint, service, slice_


def differences(state: ClusterState, first: str, second: str, *only: str) -> list[Aspect]:
    return compare_modes(
        expect_node(state, "node1", mode=first), expect_node(state, "node1", mode=second), only or None
    )


def names(found: list[Aspect]) -> set[str]:
    return {aspect.name for aspect in found}


PLAIN = service("plain", clusterIPs=["10.96.0.10"])
PLAIN_SLICE = slice_("plain", endpoint("10.244.1.2"))

CASES: dict[str, tuple[dict[str, Any], str, str]] = {
    "SCTP": ({"ports": [{"port": 80, "protocol": "SCTP"}]}, "nftables", "userspace"),
    "addresses of node ports": (
        {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]},
        "nftables",
        "iptables",
    ),
    "session affinity": ({"sessionAffinity": "ClientIP"}, "nftables", "iptables"),
    "the cluster IP on an interface": ({}, "nftables", "ipvs"),
    "ping to the cluster IP": ({}, "iptables", "ipvs"),
    "client address that pods see, cluster IP": ({}, "iptables", "userspace"),
    "external IP or load-balancer IP on an interface": ({"externalIPs": ["198.51.100.1"]}, "iptables", "ipvs"),
    "externalTrafficPolicy Local": (
        {"externalIPs": ["198.51.100.1"], "externalTrafficPolicy": "Local"},
        "nftables",
        "userspace",
    ),
    "a backend that does not answer": ({}, "ipvs", "userspace"),
    "idle TCP connections": ({}, "ipvs", "iptables"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_difference_names_the_services_that_have_it(name: str) -> None:
    spec, first, second = CASES[name]
    protocol = spec.get("ports", [{}])[0].get("protocol", "TCP")
    web = service("web", **{"clusterIPs": ["10.96.0.11"], **spec})
    state = cluster([PLAIN, web], [PLAIN_SLICE, slice_("web", endpoint("10.244.1.3"), protocol=protocol)])
    (aspect,) = (one for one in differences(state, first, second) if one.name == name)
    expected = ("default/plain", "default/web") if not spec else ("default/web",)
    assert aspect.services == expected
    assert len(set(aspect.behaviours)) == 2
    if spec:
        assert name not in names(differences(state, first, second, "default/plain"))


def test_the_choice_differs_only_with_several_backends() -> None:
    one, two = endpoint("10.244.1.2"), endpoint("10.244.2.2", "node2")
    assert "choice of a backend" not in names(differences(cluster([PLAIN], [PLAIN_SLICE]), "nftables", "ipvs"))
    (aspect,) = (
        each
        for each in differences(cluster([PLAIN], [slice_("plain", one, two)]), "nftables", "ipvs")
        if each.name == "choice of a backend"
    )
    assert "50%" in aspect.behaviours[0]
    assert "in turn" in aspect.behaviours[1]


def test_without_ranges_of_cluster_ips_mode_iptables_rejects_no_undefined_ports() -> None:
    state = cluster([PLAIN], [PLAIN_SLICE], service_cidrs=())
    assert "ports of the cluster IP that no Service has" in names(differences(state, "nftables", "iptables"))
    assert "ports of the cluster IP that no Service has" not in names(
        differences(cluster([PLAIN], [PLAIN_SLICE]), "nftables", "iptables")
    )


@examples(15)
@given(st.data())
def test_a_mode_does_not_differ_from_itself(data: st.DataObject) -> None:
    state = data.draw(clusters("nftables"))
    for mode in MODES:
        assert differences(state, mode, mode) == []
    for first, second in itertools.combinations(MODES, 2):
        there, back = differences(state, first, second), differences(state, second, first)
        assert names(there) == names(back)
        assert all(text for aspect in there for text in aspect.behaviours)
