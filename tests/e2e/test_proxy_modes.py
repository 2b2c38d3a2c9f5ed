"""W30 and W34: the proxy's mode is changed through the ConfigMap of kube-proxy and a rollout restart."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from .conftest import Lab, Namespace, curl, eventually

NODES = ("node1", "node2", "node3")


def switch(lab: Lab, mode: str) -> None:
    """As a user does it: edit the ConfigMap, restart the DaemonSet, wait."""
    found = lab.kubectl("-n", "kube-system", "get", "configmap", "kube-proxy", "-o", "json")
    config = json.loads(found.stdout)
    for old in ("iptables", "nftables"):
        config["data"]["config.conf"] = config["data"]["config.conf"].replace(f"mode: {old}", f"mode: {mode}")
    for result in (
        lab.kubectl("apply", "-f", "-", stdin=json.dumps(config)),
        lab.kubectl("-n", "kube-system", "rollout", "restart", "daemonset/kube-proxy"),
        lab.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout=60s"),
    ):
        assert result.returncode == 0, result.stderr


def rules(lab: Lab, node: str) -> tuple[str, str]:
    """What is in nftables' own table, and what iptables prints."""
    ours = lab.inside("sh", "-c", "nft list table ip bridgehead 2>/dev/null || true", node=node)
    return ours.stdout, lab.inside("iptables-save", node=node).stdout


@pytest.fixture
def iptables_lab(lab: Lab) -> Iterator[Lab]:
    switch(lab, "iptables")
    yield lab
    switch(lab, "nftables")
    for node in NODES:
        eventually(
            lambda node=node: rules(lab, node)[0] and "KUBE-" not in rules(lab, node)[1],  # type: ignore[misc]
            message="something of iptables mode is left",
        )


def test_w34_switching_the_mode_leaves_no_rule_of_the_old(iptables_lab: Lab, ns: Namespace) -> None:
    ns.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2")
    ns.kubectl("expose", "deployment", "web", "--port=80", "--type=NodePort")
    ns.rolled_out("deployment/web")
    ns.wait_endpoints("web", 2)
    port = ns.get("service", "web")["spec"]["ports"][0]["nodePort"]

    for node in NODES:
        eventually(lambda node=node: not rules(iptables_lab, node)[0])  # type: ignore[misc]
        assert curl(iptables_lab, f"http://{ns.cluster_ip('web')}/", node=node).returncode == 0
    for number in (201, 202, 203):
        assert curl(iptables_lab, f"http://10.0.0.{number}:{port}/").returncode == 0


def test_w30_the_chains_have_the_names_that_everybody_knows(iptables_lab: Lab) -> None:
    service = {"kind": "Service", "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 80}],
        "endpoints": [{"addresses": [address]} for address in ("10.244.1.2", "10.244.2.4", "10.244.3.4")],
    }
    for document in (
        {"apiVersion": "v1", "metadata": {"name": "nginx"}} | service,
        slice_ | {"metadata": {"name": "nginx-1", "labels": {"kubernetes.io/service-name": "nginx"}}},
    ):
        result = iptables_lab.kubectl("-n", "default", "apply", "-f", "-", stdin=json.dumps(document))
        assert result.returncode == 0, result.stderr
    try:
        eventually(lambda: "KUBE-SEP-UXHBWR5XIMVGXW3H" in rules(iptables_lab, "node1")[1])
        saved = rules(iptables_lab, "node1")[1]
    finally:
        iptables_lab.kubectl("-n", "default", "delete", "service/nginx", "endpointslice/nginx-1")

    for chain, chance, backend in (
        ("10.244.1.2:80", " -m statistic --mode random --probability 0.333", "KUBE-SEP-UXHBWR5XIMVGXW3H"),
        ("10.244.2.4:80", " -m statistic --mode random --probability 0.500", "KUBE-SEP-TOYRWPNILILHH3OR"),
        ("10.244.3.4:80", " -j KUBE-SEP-6QCC2MHJZP35QQAR", "KUBE-SEP-6QCC2MHJZP35QQAR"),
    ):
        start = f'-A KUBE-SVC-4N57TFCL4MD7ZTDA -m comment --comment "default/nginx: -> {chain}"{chance}'
        assert any(line.startswith(start) and line.endswith(backend) for line in saved.splitlines()), saved
