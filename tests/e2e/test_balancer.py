"""W16 to W21, W42: load-balancer addresses of the lab, by MetalLB's and OpenELB's objects.

Pools are objects of the whole cluster. Tests that make some belong to this file, whose tests one worker runs in turn.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
from collections.abc import Iterator

import pytest

from . import fabric
from .conftest import Lab, Namespace, curl, eventually
from .test_services import ANSWER, POD_TEST, make_myweb, service

pytestmark = pytest.mark.usefixtures("speakers")

NODES = {"node1": "10.0.0.201", "node2": "10.0.0.202", "node3": "10.0.0.203"}
LAB_POOL = (ipaddress.IPv4Address("10.0.0.10"), ipaddress.IPv4Address("10.0.0.50"))


def address_of(ns: Namespace, name: str) -> str:
    """The IPv4 address of a Service's status, "" as long as it has none."""
    ingress = ns.get("services", name)["status"]["loadBalancer"].get("ingress") or []
    return next((entry["ip"] for entry in ingress if ":" not in entry["ip"]), "")


def holder_of(lab: Lab, address: str) -> str:
    """The node whose hardware address the lab has learned for `address`; "" without an answer."""
    lab.inside("ip", "neigh", "flush", "to", address)
    curl(lab, f"http://{address}/", "--max-time", "5")
    lines = lab.inside("ip", "-json", "neigh", "show", "to", address).stdout
    learned = {entry.get("lladdr") for entry in json.loads(lines or "[]")} - {None}
    for node, ip in NODES.items():
        curl(lab, f"http://{ip}:10256/healthz", "--max-time", "2")
        known = json.loads(lab.inside("ip", "-json", "neigh", "show", "to", ip).stdout or "[]")
        if learned & {entry.get("lladdr") for entry in known}:
            return node
    return ""


def events(ns: Namespace, name: str) -> str:
    return ns.kubectl("get", "events", f"--field-selector=involvedObject.name={name}")


@contextlib.contextmanager
def applied(lab: Lab, manifest: str) -> Iterator[None]:
    result = lab.kubectl("apply", "-f", "-", stdin=manifest)
    assert result.returncode == 0, result.stderr
    try:
        yield
    finally:
        # An object that others use is refused as long as the balancer still sees these.
        eventually(lambda: lab.kubectl("delete", "--ignore-not-found", "-f", "-", stdin=manifest).returncode == 0)


def test_w42_a_fresh_lab_gives_an_address_that_answers(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("create", "deployment", "web", f"--image={POD_TEST}")
    ns.rolled_out("deployment/web")
    ns.kubectl("expose", "deployment", "web", "--type=LoadBalancer", "--port=80")
    address = eventually(lambda: address_of(ns, "web"))
    assert LAB_POOL[0] <= ipaddress.IPv4Address(address) <= LAB_POOL[1]
    eventually(lambda: ANSWER.match(curl(lab, f"http://{address}/").stdout))
    assert re.search(rf"web +LoadBalancer +\S+ +{re.escape(address)}", ns.kubectl("get", "svc", "web"))
    holder = eventually(lambda: holder_of(lab, address))
    announced = rf"nodeAssigned .*announcing from node \"{holder}\" with protocol \"layer2\""
    eventually(lambda: re.search(announced, events(ns, "web")), message=events(ns, "web"))
    eventually(lambda: re.search(r"IPAllocated .*Assigned IP", events(ns, "web")))
    held = re.compile(rf"^{re.escape(address)} +{ns.name}/web +layer2 +{holder} +\S+ ago +eth0 ", re.M)

    def shows_everything() -> bool:
        shown = lab.command("balancer", "status").stdout
        members = re.findall(r"^node\d +ready +node1,node2,node3 ", shown, re.M)
        return held.search(shown) is not None and len(members) == 3

    eventually(shows_everything, message=lab.command("balancer", "status").stdout)


def test_w17_w21_a_service_is_pending_until_its_address_is_free(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns, 1)
    ns.apply(service("outside", type="LoadBalancer", loadBalancerIP="10.0.0.90"))
    ns.apply(service("asked", type="LoadBalancer", loadBalancerIP="10.0.0.48"))
    assert eventually(lambda: address_of(ns, "asked")) == "10.0.0.48"
    ns.apply(service("waiting", type="LoadBalancer", loadBalancerIP="10.0.0.48"))
    eventually(lambda: "AllocationFailed" in events(ns, "waiting"))
    eventually(lambda: "AllocationFailed" in events(ns, "outside"))
    table = ns.kubectl("get", "service", "outside", "waiting")
    assert len(re.findall(r"<pending> +80:3\d{4}/TCP", table)) == 2, table
    # It works as a NodePort meanwhile, and gets the address the moment it is free.
    port = ns.get("services", "waiting")["spec"]["ports"][0]["nodePort"]
    eventually(lambda: ANSWER.match(curl(lab, f"http://{NODES['node1']}:{port}/").stdout))
    ns.kubectl("delete", "service", "asked")
    assert eventually(lambda: address_of(ns, "waiting")) == "10.0.0.48"
    eventually(lambda: ANSWER.match(curl(lab, "http://10.0.0.48/").stdout))


METALLB = """
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: localip-pool, namespace: metallb-system}
spec:
  addresses: [10.0.0.10-10.0.0.50]
  autoAssign: true
  avoidBuggyIPs: true
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: localip-pool-l2a, namespace: metallb-system}
spec:
  ipAddressPools: [localip-pool]
  interfaces: [eth0]
"""


def test_w18_a_pool_of_metallb_and_a_holder_that_dies(lab: Lab, ns: Namespace) -> None:
    with applied(lab, METALLB):
        make_myweb(ns, 3)
        ns.apply(service("web", type="LoadBalancer"))
        address = eventually(lambda: address_of(ns, "web"))
        assert (
            ns.get("services", "web")["metadata"]["annotations"]["metallb.io/ip-allocated-from-pool"] == "localip-pool"
        )
        holder = eventually(lambda: holder_of(lab, address))
        # The pods go to other nodes, so that each connection can be answered while the holder is cut off.
        patch = {"spec": {"template": {"spec": {"affinity": away_from(holder)}}}}
        ns.kubectl("patch", "deployment", "myweb", "-p", json.dumps(patch))
        ns.rolled_out("deployment/myweb")
        ns.wait_endpoints("web", 3)
        with fabric.black_holed(lab, holder):
            eventually(lambda: ANSWER.match(curl(lab, f"http://{address}/", "--max-time", "1").stdout))
            others = set(NODES) - {holder}
            assert eventually(lambda: holder_of(lab, address)) in others
        eventually(lambda: node_is_ready(lab, holder))


def away_from(node: str) -> dict[str, object]:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def node_is_ready(lab: Lab, node: str) -> bool:
    return " Ready" in lab.kubectl("get", "node", node).stdout


EIP = """
apiVersion: network.kubesphere.io/v1alpha2
kind: Eip
metadata:
  name: eip-pool
  annotations: {eip.openelb.kubesphere.io/is-default-eip: "true"}
spec:
  address: 10.0.0.60-10.0.0.100
  protocol: layer2
  interface: eth0
  disable: false
"""


def test_w19_an_eip_of_openelb(lab: Lab, ns: Namespace) -> None:
    with applied(lab, EIP):
        table = eventually(
            lambda: re.search(r"eip-pool +10\.0\.0\.60-10\.0\.0\.100 +(\d*) +41", eips(lab)), message=eips(lab)
        )
        assert table
        make_myweb(ns, 1)
        manifest = json.loads(service("web", type="LoadBalancer"))
        manifest["metadata"]["annotations"] = {
            "lb.kubesphere.io/v1alpha1": "openelb",
            "eip.openelb.kubesphere.io/v1alpha2": "eip-pool",
        }
        ns.apply(json.dumps(manifest))
        address = eventually(lambda: address_of(ns, "web"))
        assert address == "10.0.0.60"
        eventually(lambda: ANSWER.match(curl(lab, f"http://{address}/").stdout))
        eventually(lambda: re.search(r"eip-pool +\S+ +1 +41", eips(lab)))
        ns.kubectl("delete", "service", "web")


def eips(lab: Lab) -> str:
    return lab.kubectl("get", "eip").stdout


def test_a_change_that_breaks_the_configuration_is_refused(lab: Lab) -> None:
    pool = "apiVersion: metallb.io/v1beta1\nkind: IPAddressPool\nmetadata: {name: bad, namespace: metallb-system}\n"
    result = lab.kubectl("apply", "-f", "-", stdin=pool + "spec: {addresses: [10.0.0.250-10.0.0.240]}")
    assert result.returncode == 1
    assert "denied the request: parsing address pool bad" in result.stderr


def test_a_speaker_that_is_not_privileged_sets_strict_arp(lab: Lab) -> None:
    """The kernel of a test may lack IPVS: any link of the name of kube-proxy's will do."""
    lab.inside("ip", "link", "add", "kube-ipvs0", "type", "bridge", node="node2")
    try:
        for name, value in (("arp_ignore", "1"), ("arp_announce", "2")):
            path = f"/proc/sys/net/ipv4/conf/all/{name}"
            eventually(lambda path=path, value=value: lab.inside("cat", path, node="node2").stdout.strip() == value)
    finally:
        lab.inside("ip", "link", "delete", "kube-ipvs0", node="node2")


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_an_address_without_endpoints_is_withdrawn(lab: Lab, ns: Namespace, policy: str) -> None:
    make_myweb(ns, 1)
    ns.apply(service("web", type="LoadBalancer", externalTrafficPolicy=policy))
    address = eventually(lambda: address_of(ns, "web"))
    eventually(lambda: ANSWER.match(curl(lab, f"http://{address}/").stdout))
    if policy == "Local":
        home = ns.pods("app=myweb")[0]["spec"]["nodeName"]
        eventually(lambda: holder_of(lab, address) == home)
    ns.kubectl("scale", "deployment/myweb", "--replicas=0")

    def is_silent() -> bool:
        lab.inside("ip", "neigh", "flush", "to", address)
        return curl(lab, f"http://{address}/", "--max-time", "5").returncode == 7  # no host has the address

    eventually(is_silent)
    eventually(lambda: "NotAnnounced" in events(ns, "web"))
    # On a busy machine the Event may be one of the start, when the pods took more than five seconds.
    row = re.compile(rf"^{re.escape(address)}\S* +{ns.name}/web +NoEndpoints +no node announces", re.M)
    eventually(lambda: row.search(lab.command("balancer", "status").stdout))


def test_metrics_are_for_pods_with_a_token_that_may_read_them(lab: Lab, ns: Namespace) -> None:
    ns.client_pod()
    ns.kubectl("create", "serviceaccount", "prometheus")
    binding = f"prometheus-{ns.name}"
    account = f"--serviceaccount={ns.name}:prometheus"
    ns.kubectl("create", "clusterrolebinding", binding, "--clusterrole=bridgehead:metrics-reader", account)
    try:
        with_token = ("-H", f"Authorization: Bearer {ns.kubectl('create', 'token', 'prometheus').strip()}")
        balancer = Namespace(lab, "kube-system").pods("k8s-app=bridgehead-balancer")[0]["status"]["podIP"]

        def read(url: str, *options: str) -> str:
            return ns.execute("client", "curl", "-sk", "-m", "20", *options, url).stdout

        for ip, metric in ((NODES["node1"], "metallb_speaker_announced"), (balancer, "metallb_allocator_addresses")):
            assert "needs TLS and a token, at port 9120" in read(f"http://{ip}:7472/metrics", *with_token)
            assert read(f"https://{ip}:9120/metrics") == "Unauthorized\n"
            assert metric in eventually(lambda ip=ip: read(f"https://{ip}:9120/metrics", *with_token))
            assert read(f"http://{ip}:7472/healthz") == "ok"
        assert "needs TLS" in read(f"http://{NODES['node1']}:7472/status")
    finally:
        ns.kubectl("delete", "clusterrolebinding", binding)
