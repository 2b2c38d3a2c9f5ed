"""The proxies of a lab: what an operator reads in their log, and in a Service's Events."""

from __future__ import annotations

from .conftest import Lab, Namespace, eventually
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


def test_who_removes_our_rules_is_named(lab: Lab, ns: Namespace) -> None:
    assert lab.inside("nft", "delete", "table", "ip", "bridgehead", node="node3").returncode == 0
    eventually(lambda: "nft (process " in log_of(lab, "node3"))
    assert " changed our rules; repaired tables or rules and " in log_of(lab, "node3")
    assert "map services" in lab.inside("nft", "list", "table", "ip", "bridgehead", node="node3").stdout


def test_what_is_wrong_with_a_service_is_an_event_of_it(lab: Lab, ns: Namespace) -> None:
    for name in ("first", "second"):
        ns.apply(service(name, externalIPs=["203.0.113.7"]))
    eventually(lambda: "belongs to " in ns.kubectl("describe", "service", "second"))
    told = ns.kubectl("describe", "service", "second")
    assert f"203.0.113.7:80/tcp belongs to {ns.name}/first" in told
    assert "Conflict" in told


def test_no_service_takes_over_a_nodes_or_the_api_servers_address(lab: Lab, ns: Namespace) -> None:
    """CVE-2020-8554."""
    ports = [{"port": 6443, "name": "api"}, {"port": 10250, "name": "kubelet"}]
    ns.apply(service("thief", externalIPs=["10.0.0.1", "10.0.0.202", "10.0.0.87"], ports=ports))

    eventually(lambda: "ReservedAddress" in ns.kubectl("describe", "service", "thief"))

    told = ns.kubectl("describe", "service", "thief")
    assert "10.0.0.1 in externalIPs, an address of the API server" in told
    assert "10.0.0.202 in externalIPs, an address of node node2" in told
    rules = lab.inside("nft", "list", "map", "ip", "bridgehead", "services", node="node1").stdout
    assert "10.0.0.87 . tcp . 6443" in rules
    assert "10.0.0.1 . tcp" not in rules
    assert "10.0.0.202 . tcp" not in rules
