"""The Frontends that a node should have: configuration, conflicts, host ports, and what was not read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bridgehead.insight.expectations import expect_node
from bridgehead.insight.facts.cluster_state import by_key
from bridgehead.insight.facts.network_state import Listening, NetworkState, Route
from bridgehead.insight.findings import Unseen
from bridgehead.objects.core import ConfigMap, Pod, Volume
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import FrontendKey, Reason

from .rulesets.clusters import cluster, endpoint, service, slice_

WEB = service("web", type="NodePort", clusterIPs=["10.96.0.10"], ports=[{"port": 80, "nodePort": 30080}])
SLICE = slice_("web", endpoint("10.244.1.2"), endpoint("10.244.2.2", "node2"))


def config_map(text: str, name: str = "kube-proxy") -> dict[ObjectKey, ConfigMap]:
    document = {"metadata": {"name": name, "namespace": "kube-system"}, "data": {"config.conf": text}}
    return by_key([msgspec.convert(document, ConfigMap)])


def pod(pod_name: str, **spec: Any) -> Pod:
    document = {
        "metadata": {"name": pod_name, "namespace": spec.pop("namespace", "default"), "labels": spec.pop("labels", {})},
        "spec": {"nodeName": "node1", "containers": [spec]},
        "status": {"phase": "Running", "podIP": "10.244.1.9", "podIPs": [{"ip": "10.244.1.9"}]},
    }
    return msgspec.convert(document, Pod)


def test_a_service_has_a_frontend_for_each_address() -> None:
    found = expect_node(cluster([WEB], [SLICE]), "node1")
    assert {frontend.key for frontend in found.frontends_of(WEB.key)} == {
        FrontendKey("10.96.0.10", "tcp", 80),
        FrontendKey("0.0.0.0", "tcp", 30080),
    }
    assert found.settings.own_pod_cidrs == ("10.244.1.0/24",)
    assert found.settings.cluster_cidrs == ("10.244.0.0/16", "fd00:244::/32")
    assert (found.mode, found.is_bridgehead, found.config_problem) == ("nftables", True, "")


@pytest.mark.parametrize(
    ("mode", "addresses", "localhost"),
    [("nftables", ("10.0.0.201/32", "::/0"), False), ("iptables", None, True), ("ipvs", None, False)],
)
def test_settings_follow_the_mode(mode: str, addresses: tuple[str, ...] | None, localhost: bool) -> None:
    settings = expect_node(cluster([WEB], [SLICE]), "node1", mode=mode).settings
    assert (settings.node_port_cidrs, settings.localhost_node_ports) == (addresses, localhost)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "config.conf of ConfigMap kube-system/kube-proxy: "),
        ("kind: Else", "is no KubeProxyConfiguration"),
        ("apiVersion: x\nkind: KubeProxyConfiguration", "apiVersion"),
        ("", ""),
    ],
)
def test_an_unusable_configuration_is_a_problem_and_defaults_are_assumed(text: str, problem: str) -> None:
    state = cluster([WEB], [SLICE], is_bridgehead=False)
    found = expect_node(replace(state, config_maps=config_map(text)), "node1")
    assert problem in found.config_problem
    assert (found.mode, found.is_bridgehead) == ("iptables", False)  # kube-proxy's default
    assert len(found.frontends_of(WEB.key)) == 2


@pytest.mark.parametrize(("node", "cidrs"), [("node1", ("10.9.0.0/16",)), ("node2", ("10.244.0.0/16",))])
def test_the_configuration_is_that_of_the_nodes_own_proxy(node: str, cidrs: tuple[str, ...]) -> None:
    """In a cluster where the chart's proxy serves some nodes, and kube-proxy the others."""
    kind = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: "
    config_maps = config_map(f"{kind}10.244.0.0/16") | config_map(f"{kind}10.9.0.0/16", "bridgehead-proxy")
    proxy = pod("proxy", name="p", namespace="kube-system", labels={"k8s-app": "bridgehead-proxy"})
    volume = msgspec.convert({"name": "config", "configMap": {"name": "bridgehead-proxy"}}, Volume)
    proxy = msgspec.structs.replace(proxy, spec=msgspec.structs.replace(proxy.spec, volumes=(volume,)))
    state = replace(cluster([WEB], [SLICE], pods=[proxy]), config_maps=config_maps)
    assert expect_node(state, node).config.cluster_cidrs == cidrs


def test_of_two_claims_one_is_granted() -> None:
    older = service("a", clusterIPs=["10.96.0.20"], externalIPs=["198.51.100.1"])
    younger = service("b", clusterIPs=["10.96.0.21"], externalIPs=["198.51.100.1"])
    found = expect_node(cluster([younger, older]), "node1")
    assert len(found.frontends_of(older.key)) == 2
    assert len(found.frontends_of(younger.key)) == 1
    assert [problem.reason for problem in found.problems[younger.key]] == [Reason.CONFLICT]
    assert older.key not in found.problems


def test_addresses_of_routers_and_ports_of_the_node_are_reserved() -> None:
    web = service("web", clusterIPs=["10.96.0.10"], ports=[{"port": 22}], externalIPs=["10.0.0.1", "10.0.0.201"])
    listening = Listening(protocol="tcp", address="0.0.0.0", port=22)
    route = Route(destination="default", via="10.0.0.1", device="eth0")
    network = NetworkState(listeners=(listening,), routes=(route,))
    assert len(expect_node(cluster([web]), "node1", network).frontends_of(web.key)) == 1
    assert len(expect_node(cluster([web]), "node1").frontends_of(web.key)) == 3


@pytest.mark.parametrize("option", ["--host-ports", ""])
def test_host_ports_are_expected_if_the_proxy_maps_them(option: str) -> None:
    proxy = pod("kube-proxy-1", name="p", args=[option], namespace="kube-system", labels={"k8s-app": "kube-proxy"})
    web = pod("web", name="web", ports=[{"containerPort": 80, "hostPort": 8080}])
    found = expect_node(cluster([], pods=[proxy, web]), "node1")
    keys = {frontend.key for frontend in found.table}
    assert keys == ({FrontendKey(a, "tcp", 8080) for a in ("0.0.0.0", "127.0.0.1")} if option else set())


def test_services_whose_slices_were_not_read_are_named() -> None:
    other = service("web", "other", clusterIPs=["10.96.0.30"])
    found = expect_node(replace(cluster([WEB, other], [SLICE]), namespace="default"), "node1")
    assert found.unread == {other.key}
    second = service("second", clusterIPs=["10.96.0.31"])
    named = replace(cluster([WEB, second], [SLICE]), namespace="default", names=frozenset(("web",)))
    assert expect_node(named, "node1").unread == {second.key}
    unseen = replace(cluster([WEB], []), unseen=(Unseen("endpointslices", "forbidden"),))
    assert expect_node(unseen, "node1").unread == {WEB.key}


def test_a_node_that_is_unknown_has_frontends_without_addresses() -> None:
    found = expect_node(cluster([WEB], [SLICE]), "node9")
    assert found.facts.addresses == ()
    assert len(found.frontends_of(WEB.key)) == 2
