"""The proxies of a lab: what an operator reads in their log, and in a Service's Events."""

from __future__ import annotations

import json

from .conftest import Lab, Namespace, eventually
from .proxy_modes import configure
from .test_services import service


def log_of(lab: Lab, node: str) -> str:
    pods = lab.kubectl(
        "get",
        "pods",
        "-n",
        "kube-system",
        "-l",
        "k8s-app=kube-proxy",
        "-o",
        "name",
        f"--field-selector=spec.nodeName={node}",
    )
    return lab.kubectl("logs", "-n", "kube-system", *pods.stdout.split()).stdout


def has_event(ns: Namespace, service: str, reason: str) -> str:
    """Return what kubectl describes, once it shows an Event for this reason."""
    described = ns.kubectl("describe", "service", service)
    return described if reason in described else ""


def test_the_log_names_the_process_that_removed_the_rules(lab: Lab, ns: Namespace) -> None:
    assert lab.inside("nft", "delete", "table", "ip", "bridgehead", node="node3").returncode == 0
    eventually(lambda: "nft (process " in log_of(lab, "node3"))
    assert " changed our rules; repaired tables or rules and " in log_of(lab, "node3")
    assert "map services" in lab.inside("nft", "list", "table", "ip", "bridgehead", node="node3").stdout


def test_a_misspelled_mode_in_the_configuration_stops_no_proxy(lab: Lab) -> None:
    try:
        configure(lab, "iptabels")  # waits for the rollout
        status = eventually(lambda: shown if (shown := lab.command("status").stdout).count("not iptabels") == 3 else "")
        eventually(lambda: "ProxyModeUnavailable" in lab.kubectl("describe", "node", "node1").stdout)
    finally:
        configure(lab, "nftables")
    assert "node1, node2, node3: the service proxy warns: 'iptabels' is no proxy mode" in status
    assert 'did you mean "iptables"?; services are served in mode nftables' in status
    eventually(lambda: "not iptabels" not in lab.command("status").stdout)
    eventually(lambda: "ProxyModeUnavailable" not in lab.kubectl("describe", "node", "node1").stdout)


def test_a_conflict_of_a_service_is_reported_as_an_event(lab: Lab, ns: Namespace) -> None:
    for name in ("first", "second"):
        ns.apply(service(name, externalIPs=["203.0.113.7"]))
    described = eventually(lambda: has_event(ns, "second", "Conflict"))
    assert f"203.0.113.7:80/tcp belongs to {ns.name}/first" in described


def test_a_service_cannot_take_addresses_of_nodes_or_the_api_server(lab: Lab, ns: Namespace) -> None:
    """CVE-2020-8554."""
    ports = [{"port": 6443, "name": "api"}, {"port": 10250, "name": "kubelet"}]
    ns.apply(service("thief", externalIPs=["10.0.0.1", "10.0.0.202", "10.0.0.87"], ports=ports))

    for text in ("10.0.0.1 in externalIPs, an address of the API server", "10250/tcp is not published"):
        eventually(lambda text=text: text in (has_event(ns, "thief", "ReservedAddress") or ""))
    ns.programmed("thief")  # the Events may be of another node's proxy
    for node, published in (
        ("node1", False),
        ("node2", True),
    ):  # node2 serves its own address, but for the kubelet's port
        rules = lab.inside("nft", "list", "map", "ip", "bridgehead", "services", node=node).stdout
        assert "10.0.0.87 . tcp . 6443" in rules
        assert "10.0.0.1 . tcp" not in rules
        assert ("10.0.0.202 . tcp . 6443" in rules) == published
        assert "10.0.0.202 . tcp . 10250" not in rules


def test_addresses_of_an_added_range_are_dropped_on_every_node(lab: Lab, ns: Namespace) -> None:
    metadata, added = {"name": "added"}, {"cidrs": ["192.0.2.0/24"]}
    ns.apply(
        json.dumps({"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": metadata, "spec": added})
    )

    def drops(node: str) -> str:
        chain = lab.inside("nft", "list", "chain", "ip", "bridgehead", "filter-prerouting", node=node).stdout
        return next((line for line in chain.splitlines() if "192.0.2.0/24" in line), "")

    try:
        for node in ("node1", "node2", "node3"):
            rule = eventually(lambda node=node: drops(node))
            assert "10.96.0.0/12" in rule, "the first range stays"
    finally:
        lab.kubectl("delete", "servicecidr", "added")
    eventually(lambda: not drops("node1"))
