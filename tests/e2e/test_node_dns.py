"""The cluster's DNS on each node: the DaemonSet that `up --node-dns` installs, here in a lab that began without it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import yaml

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabFiles
from bridgehead.lab.system_objects import system_manifests

from .conftest import Lab, Namespace, curl, eventually
from .test_discovery import CLUSTER_DNS, TOOLS, pod, sh

pytestmark = pytest.mark.needs("dig", "busybox", "conntrack")

NODE = "node1"
PAIRS = 20


@pytest.fixture
def system(lab: Lab) -> Iterator[Namespace]:
    """kube-system, while it has the DaemonSet."""
    system = Namespace(lab, "kube-system")
    config = state_directories.read_config(LabFiles(lab.state_dir))
    assert config is not None
    manifest = yaml.safe_dump_all(system_manifests("node-dns.yaml", config))
    system.apply(manifest)
    try:
        system.rolled_out("daemonset/bridgehead-node-dns")
        yield system
    finally:
        system.kubectl("delete", "daemonset", "bridgehead-node-dns", "--ignore-not-found")


def answered_on_the_node(lab: Lab) -> int:
    """Queries for addresses that the node's own DNS has had."""
    page = curl(lab, "http://127.0.0.1:9253/metrics", node=NODE).stdout
    found = re.findall(r'^coredns_dns_requests_total\{.*type="A(?:AAA)?"\} (\S+)$', page, re.MULTILINE)
    return sum(int(float(count)) for count in found)


def test_queries_reach_the_dns_of_the_node_untracked(lab: Lab, ns: Namespace, system: Namespace) -> None:
    for name, image in (("tools", TOOLS), ("box", "busybox")):
        ns.apply(pod(name, image, nodeName=NODE))
    ns.ready()
    lab.inside("conntrack", "-D", "-d", CLUSTER_DNS, node=NODE)  # of tests before
    before = answered_on_the_node(lab)

    name = "kubernetes.default.svc.cluster.local"
    assert "Address: 10.96.0.1" in sh(ns, "box", f"nslookup {name}").replace("Address 1", "Address")
    assert sh(ns, "tools", f"dig +short +tcp {name}").split() == ["10.96.0.1"]
    # glibc sends both questions from one socket at once; with one attempt a lost answer fails the lookup.
    ask = f"getent ahosts {name} >/dev/null && echo found"
    found = sh(ns, "tools", f"export RES_OPTIONS=attempts:1; for i in $(seq {PAIRS}); do {ask}; done")

    assert found.split() == ["found"] * PAIRS
    assert answered_on_the_node(lab) - before >= 2 * PAIRS + 2
    assert lab.inside("conntrack", "-L", "-d", CLUSTER_DNS, node=NODE).stdout == ""
    assert lab.inside("dig", "+short", f"@{CLUSTER_DNS}", name, node=NODE).stdout.split() == ["10.96.0.1"]

    system.kubectl("delete", "daemonset", "bridgehead-node-dns")
    eventually(lambda: not system.pods("k8s-app=bridgehead-node-dns"))
    assert "bridgehead-dns" not in lab.inside("nft", "list", "tables", node=NODE).stdout
    assert CLUSTER_DNS not in lab.inside("ip", "route", "show", "table", "local", node=NODE).stdout
    assert sh(ns, "tools", ask).split() == ["found"], "by the Deployment"
