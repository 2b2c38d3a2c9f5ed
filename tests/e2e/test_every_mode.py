"""The walkthroughs of Services and publishing (W4, W8, W9, W10, W13 to W17, W21, W34, W36) in every mode of the proxy.

The lab's proxies are switched as a user does it: the ConfigMap is edited and the DaemonSet restarted. The mode ipvs
needs a kernel that has it; its part of these promises is kept by the tests in a guest kernel.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from .conftest import PATIENCE, Lab, Namespace, curl, curl_many, eventually, no_request_lost
from .proxy_modes import HIDES_THE_CLIENT, MODES, configure
from .test_services import ANSWER, make_myweb, parts_of, service

NODES = {"node1": "10.0.0.201", "node2": "10.0.0.202", "node3": "10.0.0.203"}
MANY = 60  # connections reach each of three pods, although chance chooses: but for one of 10,000,000,000 times


# Rules of default/nginx that `Web.rules` shows (W30: seeds/002; W32: the README of the mode).
EXPECTED_RULES = {
    "iptables": (
        r'^-A KUBE-SERVICES -d {address}/32 -p tcp .*"default/nginx: cluster IP".* -j KUBE-SVC-4N57TFCL4MD7ZTDA$',
        r'^-A KUBE-SERVICES -d 12.12.12.12/32 -p tcp .*nginx: loadbalancer IP".* -j KUBE-EXT-4N57TFCL4MD7ZTDA$',
        r'^-A KUBE-NODEPORTS .*--comment "default/nginx:".* --dport {port} -j KUBE-EXT-4N57TFCL4MD7ZTDA$',
        r"^-A KUBE-SVC-4N57TFCL4MD7ZTDA .*> 10.244.1.2:80\" .*--probability 0.333\d* -j KUBE-SEP-UXHBWR5XIMVGXW3H$",
        r"^-A KUBE-SVC-4N57TFCL4MD7ZTDA .*> 10.244.2.4:80\" .*--probability 0.50* -j KUBE-SEP-TOYRWPNILILHH3OR$",
        r'^-A KUBE-SVC-4N57TFCL4MD7ZTDA .*> 10.244.3.4:80" -j KUBE-SEP-6QCC2MHJZP35QQAR$',
        r"^-A KUBE-SEP-UXHBWR5XIMVGXW3H -p tcp .*-j DNAT --to-destination 10.244.1.2:80$",
    ),
    "nftables": (
        r"^table ip bridgehead \{{$",
        r'\b{address} \. tcp \. 80 (comment "default/nginx:" )?: goto one-of-3-or-fewer\b',
        r"\b12.12.12.12 \. tcp \. 80 .*: goto one-of-3-or-fewer\b",
        r"\b{address} \. tcp \. 80 \. 1:3 .*: 10.244.[123].[24] \. 80\b",
    ),
    "userspace": (
        r'\b{address} \. tcp \. 80 (comment "default/nginx:" )?: goto one-of-3-or-fewer\b',
        r"\b12.12.12.12 \. tcp \. 80 .*: goto one-of-3-or-fewer\b",
        r"\b{address} \. tcp \. 80 \. 1:1 .*: 169.254.98.104 \. \d+",
    ),
}


@dataclass
class Web:
    """A lab in one mode, with three pods behind the label app=myweb, one on each node, and a client pod."""

    mode: str
    lab: Lab
    ns: Namespace

    @property
    def hides_the_client(self) -> bool:
        return self.mode in HIDES_THE_CLIENT

    def publish(self, name: str, endpoints: int = 3, **spec: object) -> str:
        """Make a Service for the pods; its cluster IP, when every node has it."""
        self.ns.apply(service(name, **spec))
        self.ns.wait_endpoints(name, endpoints)
        return self.ns.cluster_ip(name)

    def answers(self, url: str, node: str | None = None) -> re.Match[str]:
        return eventually(
            lambda: ANSWER.match(curl(self.lab, url, node=node).stdout), message=f"{url} never answered {node or 'lab'}"
        )

    def from_pod(self, url: str) -> subprocess.CompletedProcess[str]:
        return self.ns.execute("client", "curl", "-sS", "-m", "20", url)

    def node_port(self, name: str) -> int:
        return self.ns.get("services", name)["spec"]["ports"][0]["nodePort"]

    def rules(self, node: str) -> str:
        """The rules of this mode on a node."""
        commands = {
            "iptables": "iptables-save",
            "nftables": "nft list table ip bridgehead",
            "userspace": "nft list ruleset",
        }
        return self.lab.inside("sh", "-c", commands[self.mode], node=node).stdout


@pytest.fixture(scope="module", params=MODES)
def web(changeable_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Web]:
    lab, mode = changeable_lab, request.param
    configure(lab, mode)
    ns = Namespace(lab, f"every-mode-{mode}")
    ns.create()
    make_myweb(ns)
    assert len({pod["spec"]["nodeName"] for pod in ns.pods("app=myweb")}) == 3
    ns.client_pod()
    yield Web(mode, lab, ns)
    ns.kubectl("delete", "services", "--all")  # at once, so that the next mode may use their addresses
    ns.delete()


def test_w34_rules_of_other_modes_are_removed(web: Web) -> None:
    signs: dict[str, Callable[[str], bool]] = {
        "nftables": lambda ruleset: bool(re.search(r"table ip6? bridgehead \{", ruleset)),
        "iptables": lambda ruleset: "chain KUBE-" in ruleset,
        "userspace": lambda ruleset: "table ip bridgehead-userspace" in ruleset,
    }
    for node in NODES:

        def modes(node: str = node) -> set[str]:
            ruleset = web.lab.inside("nft", "list", "ruleset", node=node).stdout
            return {mode for mode, is_there in signs.items() if is_there(ruleset)}

        eventually(lambda modes=modes: modes() == {web.mode}, message=f"{node} has rules of {modes()}")


def test_w30_w32_the_rules_match_those_of_kube_proxy_and_the_documented_ruleset(web: Web) -> None:
    """The Service is default/nginx; names of chains are hashes of names and addresses."""
    lab = web.lab
    # Its address is written by hand, so it is of a class that the lab's balancer leaves to others.
    spec = {"type": "LoadBalancer", "loadBalancerClass": "example.com/other", "ports": [{"port": 80}]}
    service = {"kind": "Service", "spec": spec}
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
        result = lab.kubectl("-n", "default", "apply", "-f", "-", stdin=json.dumps(document))
        assert result.returncode == 0, result.stderr
    try:
        ingress = json.dumps({"status": {"loadBalancer": {"ingress": [{"ip": "12.12.12.12"}]}}})
        path = "/api/v1/namespaces/default/services/nginx/status"
        assert lab.api.call("PATCH", path, ingress, "application/merge-patch+json")[0] == 200
        found = json.loads(lab.kubectl("-n", "default", "get", "service", "nginx", "-o", "json").stdout)
        address, port = found["spec"]["clusterIP"], found["spec"]["ports"][0]["nodePort"]
        for pattern in EXPECTED_RULES[web.mode]:
            wanted = re.compile(pattern.format(address=address, port=port), re.M)
            eventually(lambda wanted=wanted: wanted.search(web.rules("node1")), message=f"no {wanted.pattern}")
    finally:
        lab.kubectl("-n", "default", "delete", "service/nginx", "endpointslice/nginx-1")


def test_w4_a_service_without_endpoints_refuses_connections_at_once(web: Web) -> None:
    ns = web.ns
    ports = [{"port": 3306, "targetPort": 80}]
    ns.apply(json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db"}, "spec": {"ports": ports}}))
    url = f"http://{ns.cluster_ip('db')}:3306/"
    for node in (None, *NODES):
        eventually(lambda node=node: curl(web.lab, url, node=node).returncode == 7, message=f"{node}: never refused")
    assert web.from_pod(url).returncode == 7
    assert curl(web.lab, f"http://{ns.cluster_ip('db')}:3307/").returncode == 7, "a port that is not defined"

    pod = ns.pods("app=myweb")[0]["status"]["podIP"]
    subsets = [{"addresses": [{"ip": pod}], "ports": [{"port": 80}]}]
    ns.apply(json.dumps({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "db"}, "subsets": subsets}))
    for node in (None, *NODES):
        assert web.answers(url, node)[3] == pod
    assert ANSWER.match(web.from_pod(url).stdout)
    mirrored = ns.slices("db")
    assert [item["endpoints"][0]["addresses"] for item in mirrored] == [[pod]]
    managed_by = mirrored[0]["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"]
    assert managed_by == "endpointslicemirroring-controller.k8s.io"


def test_w8_a_headless_service_has_no_rule(web: Web) -> None:
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{"port": 80}],
        "metadata": {"name": "bare-1", "labels": {"kubernetes.io/service-name": "bare"}},
        "endpoints": [{"addresses": ["10.99.9.9"]}],
    }  # fmt: skip
    bare = {"clusterIP": "None", "ports": [{"port": 80}]}
    web.ns.apply(json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "bare"}, "spec": bare}))
    web.ns.apply(json.dumps(slice_))
    web.publish("after-bare")  # which shows that what came before it is done, too
    assert "10.99.9.9" not in web.rules("node1")
    assert not re.search(r"\bbare\b(?!-)", web.rules("node1").replace("after-bare", ""))


def test_w9_a_client_keeps_its_pod_until_the_affinity_timeout(web: Web) -> None:
    address = web.publish(
        "sticky", sessionAffinity="ClientIP", sessionAffinityConfig={"clientIP": {"timeoutSeconds": 2}}
    )

    def group() -> set[str]:
        return {parts_of(line)[1] for line in curl_many(web.lab, f"http://{address}/", 4, node="node1")}

    seen = set()

    def another_pod() -> bool:
        begun = time.monotonic()
        found = group()
        if time.monotonic() - begun < 2:  # else this machine may have paused for so long that the client was forgotten
            assert len(found) == 1, "the same pod within each group"
        seen.update(found)
        if len(seen) < 2:
            # The timeout itself is what is tested: the client has to be silent for longer.
            web.lab.inside("sleep", "2.5", node="node1")
        return len(seen) > 1

    eventually(another_pod, message="the client is never forgotten")


def test_w13_w14_node_ports_answer_and_local_policy_keeps_the_clients_address(web: Web) -> None:
    address = web.publish("published", type="NodePort")
    port = web.node_port("published")
    for node in (None, *NODES):
        web.answers(f"http://{address}/", node)
    node_addresses = {node: f"http://{ip}:{port}/" for node, ip in NODES.items()}
    for node, url in node_addresses.items():
        clients = {parts_of(line)[0] for line in curl_many(web.lab, url, 4)}
        # The pod on the node itself may see its own gateway's address there, others see the node's on the fabric.
        assert clients
        assert "10.0.0.1" not in clients, node
    assert ANSWER.match(web.from_pod(node_addresses["node2"]).stdout)
    web.answers(node_addresses["node3"], "node1")

    web.ns.kubectl("patch", "service", "published", "-p", '{"spec":{"externalTrafficPolicy":"Local"}}')
    names = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in web.ns.pods("app=myweb")}
    for node, url in node_addresses.items():

        def is_served_here(node: str = node, url: str = url) -> bool:
            found = [ANSWER.fullmatch(line) for line in curl_many(web.lab, url, 5)]
            own = all(match and names[match[2]] == node for match in found)
            return own and (web.hides_the_client or all(match and match[1] == "10.0.0.1" for match in found))

        eventually(is_served_here, message=f"{url} is not served by the pod of {node}, with the client's own address")
    web.answers(f"http://{address}/", "node1")


def test_w15_with_local_policy_only_nodes_with_a_pod_answer_and_pass_the_health_check(web: Web) -> None:
    ns = web.ns
    ns.kubectl("create", "deployment", "single", "--image=nginx")
    ns.rolled_out("deployment/single")
    ns.apply(service("single", selector={"app": "single"}, type="LoadBalancer", externalTrafficPolicy="Local"))
    ns.wait_endpoints("single", 1)
    health_port = ns.get("services", "single")["spec"]["healthCheckNodePort"]
    home = ns.pods("app=single")[0]["spec"]["nodeName"]
    for node, ip in NODES.items():
        expected = 200 if node == home else 503

        def health_page(ip: str = ip, expected: int = expected) -> dict[str, object] | None:
            page = curl(web.lab, f"http://{ip}:{health_port}/", "-w", "\n%{http_code}").stdout
            body, _, code = page.rpartition("\n")
            return json.loads(body) if code == str(expected) else None

        page = eventually(health_page, message=f"{node}: not {expected}")
        assert page["service"] == {"namespace": ns.name, "name": "single"}
        assert page["localEndpoints"] == (1 if node == home else 0)
        url = f"http://{ip}:{web.node_port('single')}/"
        if node == home:
            assert "nginx" in curl(web.lab, url).stdout
        else:
            assert curl(web.lab, url, "--max-time", "1").returncode == 28, "a node without a pod does not answer"
    ns.kubectl("scale", "deployment/single", "--replicas=0")
    eventually(lambda: "503" in curl(web.lab, f"http://{NODES[home]}:{health_port}/", "-w", "%{http_code}").stdout)


def test_w16_an_external_ip_answers_from_the_node_that_has_it(web: Web) -> None:
    web.publish("outer", externalIPs=["10.0.0.88"])
    assert web.lab.inside("ip", "addr", "add", "10.0.0.88/32", "dev", "eth0", node="node2").returncode == 0
    try:
        for node in (None, "node1", "node2"):
            web.answers("http://10.0.0.88/", node)
        assert ANSWER.match(web.from_pod("http://10.0.0.88/").stdout)
    finally:
        web.lab.inside("ip", "addr", "del", "10.0.0.88/32", "dev", "eth0", node="node2")


def test_w16_addresses_of_nodes_are_external_ips_at_ports_that_the_nodes_do_not_use(web: Web) -> None:
    web.publish("edge", externalIPs=list(NODES.values()))
    for ip in NODES.values():
        web.answers(f"http://{ip}/")
        web.answers(f"http://{ip}/", "node1")
        assert eventually(lambda ip=ip: ANSWER.match(web.from_pod(f"http://{ip}/").stdout))
    web.ns.kubectl("delete", "service", "edge")

    # The kubelet's port, and the addresses of the DNS's pods: one Event each, whatever the number of nodes.
    dns = Namespace(web.lab, "kube-system").pods("k8s-app=kube-dns")[0]["status"]["podIP"]
    web.publish("greedy", externalIPs=[*NODES.values(), dns], ports=[{"port": 10250, "targetPort": 80}])

    def events() -> dict[str, int]:
        found = web.ns.list_all("events")
        return {one["message"]: one.get("count", 1) for one in found if one["involvedObject"]["name"] == "greedy"}

    found = eventually(lambda: len(events()) >= 2 and events())
    assert any(f"{dns} in externalIPs, in the range of pods" in message for message in found), found
    assert any("port 10250/tcp" in message and "the kubelet listens on it" in message for message in found), found
    web.ns.programmed("greedy")
    assert len(events()) == 2, events()
    for ip in NODES.values():
        assert "Unauthorized" in curl(web.lab, f"https://{ip}:10250/pods", "-k").stdout
    web.ns.kubectl("delete", "service", "greedy")


def test_w17_w21_a_load_balancer_is_pending_until_it_has_an_address(web: Web) -> None:
    # The lab's balancer leaves Services of this class to others.
    web.publish("balanced", type="LoadBalancer", loadBalancerIP="10.0.0.90", loadBalancerClass="example.com/other")
    table = web.ns.kubectl("get", "service", "balanced")
    assert re.search(r"balanced +LoadBalancer +\S+ +<pending> +80:3\d{4}/TCP", table), table
    for ip in NODES.values():
        web.answers(f"http://{ip}:{web.node_port('balanced')}/")

    # A load balancer's controller writes this when it has found an address.
    path = f"/api/v1/namespaces/{web.ns.name}/services/balanced/status"
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.90"}]}}}
    code, answer = web.lab.api.call("PATCH", path, json.dumps(status), "application/merge-patch+json")
    assert code == 200, answer
    assert re.search(r"balanced +LoadBalancer +\S+ +10\.0\.0\.90 ", web.ns.kubectl("get", "service", "balanced"))
    assert re.search(r"LoadBalancer Ingress: +10\.0\.0\.90", web.ns.kubectl("describe", "service", "balanced"))
    for node in NODES:
        web.answers("http://10.0.0.90/", node)
    assert web.lab.inside("ip", "route", "add", "10.0.0.90", "via", NODES["node3"]).returncode == 0
    try:
        web.answers("http://10.0.0.90/")
        assert ANSWER.match(web.from_pod("http://10.0.0.90/").stdout)
    finally:
        web.lab.inside("ip", "route", "del", "10.0.0.90")


@pytest.mark.parametrize(
    "web", ["userspace"], indirect=True
)  # in other modes the client gets an error and has to try again
def test_w33_a_backend_that_does_not_answer_is_skipped(web: Web) -> None:
    alive = web.ns.pods("app=myweb")[0]
    addresses = ("10.244.1.250", "10.244.2.250", alive["status"]["podIP"])  # nobody has the first two
    slice_ = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "mostly-dead", "labels": {"kubernetes.io/service-name": "mostly-dead"}},
        "addressType": "IPv4",
        "ports": [{"name": "", "port": 80}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }
    web.ns.apply(json.dumps(slice_))
    service_ = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "mostly-dead"}}
    web.ns.apply(json.dumps(service_ | {"spec": {"ports": [{"port": 80}]}}))
    url = f"http://{web.ns.cluster_ip('mostly-dead')}/"
    for node in (None, "node1", "node3"):
        web.answers(url, node)
        answers = curl_many(web.lab, url, 4, node=node)
        assert [alive["metadata"]["name"] in answer for answer in answers] == [True] * 4


def test_a_pod_reaches_itself_through_its_own_service(web: Web) -> None:
    """A pod that connects to its own Service may be the chosen backend."""
    web.ns.kubectl("create", "deployment", "alone", "--image=nginx")
    web.ns.rolled_out("deployment/alone")
    web.ns.kubectl("expose", "deployment", "alone", "--port=80")
    web.ns.wait_endpoints("alone", 1)
    url = f"http://{web.ns.cluster_ip('alone')}/"
    answer = web.ns.try_kubectl("exec", "deployment/alone", "--", "curl", "-sS", "-m", "20", url)
    assert "nginx" in answer.stdout, answer.stderr


@pytest.mark.parametrize("policy", ["Cluster", "Local"])
def test_w10_no_request_is_lost_while_pods_are_replaced(web: Web, policy: str) -> None:
    """Every pod is on node1, so node1 always has a ready one, as policy Local requires."""
    ns, name = web.ns, f"rolling-{policy.lower()}"
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": "node1"},
            "containers": [{"name": "web", "image": "nginx"}],
        },
    }
    spec = {"replicas": 2, "selector": {"matchLabels": {"app": name}}, "template": template}
    ns.apply(json.dumps({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}))
    ns.rolled_out(f"deployment/{name}")
    ns.apply(service(name, selector={"app": name}, type="NodePort", externalTrafficPolicy=policy))
    ns.wait_endpoints(name, 2)
    url = f"http://{NODES['node1']}:{web.node_port(name)}/"
    with no_request_lost(web.lab, url, at_least=5):
        ns.kubectl("rollout", "restart", f"deployment/{name}")
        ns.rolled_out(f"deployment/{name}")
        staying = [pod for pod in ns.pods(f"app={name}") if "deletionTimestamp" not in pod["metadata"]]
        ns.kubectl("delete", "pod", staying[0]["metadata"]["name"])
        ns.rolled_out(f"deployment/{name}")


def test_w36_a_restarted_proxy_removes_stale_rules(web: Web) -> None:
    lab = web.lab
    stale = web.publish("stale")
    # Stop the proxies as an administrator does: no node wants one any more.
    nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "none"}}}}}
    kube_proxy = ("-n", "kube-system", "patch", "daemonset", "kube-proxy")
    assert lab.kubectl(*kube_proxy, "-p", json.dumps(nowhere)).returncode == 0
    pods = ("-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-proxy", "-o", "name")
    try:
        eventually(lambda: not lab.kubectl(*pods).stdout, message="the proxies never stopped")
        web.ns.kubectl("delete", "service", "stale")
        if web.mode != "userspace":
            assert stale in web.rules("node1"), "rules outlive the proxy: connections go on while it is replaced"
    finally:
        everywhere = [{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]
        lab.kubectl(*kube_proxy, "--type=json", "-p", json.dumps(everywhere))
    rollout = ("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", f"--timeout={PATIENCE}s")
    assert lab.kubectl(*rollout).returncode == 0
    for node in NODES:
        eventually(lambda node=node: stale not in web.rules(node), message=f"{node} keeps a stale rule")


def test_w53_commands_explain_rules_and_connections(web: Web) -> None:
    address, name, everywhere = web.publish("read", type="NodePort"), f"{web.ns.name}/read", ("-n", web.ns.name)
    pods = {pod["status"]["podIP"]: f"pod {web.ns.name}/{pod['metadata']['name']}" for pod in web.ns.pods("app=myweb")}

    def ask(*argv: str) -> str:
        result = web.lab.command(*argv)
        assert result.returncode == 0, result.stderr
        return result.stdout

    def read() -> dict[str, object]:
        found: dict[str, object] = json.loads(ask("rules", "service/read", *everywhere, "--node=node2", "-o", "json"))
        assert (found["mode"], found["rulesOf"], found["unexplained"]) == (web.mode, [web.mode], [])
        return found

    entries = eventually(lambda: read()["entries"])
    assert {entry["service"].rpartition(":")[0] for entry in entries} == {name}
    assert address in {entry["destination"]["address"] for entry in entries if "destination" in entry}
    if web.mode != "userspace":  # the kernel knows no backends of it
        backends = {entry["backend"].rpartition(":")[0] for entry in entries if "backend" in entry}
        assert backends == pods.keys()
    text = ask("rules", "service/read", *everywhere, "--mode=ipvs", "--node=node2")
    assert re.search(r"ipvsadm -Ln would print:\n\n(?s:.)*^TCP  " + re.escape(address) + r":80 rr$", text, re.M)
    assert all(f"-> {pod}:80" in text for pod in pods)

    assert web.from_pod(f"http://{address}/").returncode == 0
    (found,) = json.loads(ask("flows", "service/read", *everywhere, "-o", "json"))["services"]
    assert {each["name"] for each in found["backends"]} == set(pods.values())
    clients = {each["clientName"] for each in found["connections"]}
    assert f"pod {web.ns.name}/client" in clients
    names = {each["backendName"] for each in found["connections"]}
    # In mode userspace, the proxy's own connection has no Service if several have its backend.
    assert names & set(pods.values()) or (
        web.mode == "userspace" and any(name.startswith("proxy of ") for name in names)
    )

    other = next(mode for mode in MODES if mode != web.mode)
    differences = json.loads(ask("diff-modes", web.mode, other, "service/read", *everywhere, "-o", "json"))[
        "differences"
    ]
    assert "addresses of node ports" in {one["name"] for one in differences} or {web.mode, other} == {
        "iptables",
        "userspace",
    }
    assert all(one["services"] == [name] for one in differences)


def test_w50_a_connection_is_traced_to_its_pod_or_to_the_step_where_it_dies(web: Web) -> None:
    web.publish("traced")
    web.publish("deaf", ports=[{"port": 80, "targetPort": 81}])
    web.publish("empty", endpoints=0, selector={"app": "nobody"})
    for name in ("traced", "deaf", "empty"):
        web.ns.programmed(name)
    pods = {pod["status"]["podIP"]: f"{web.ns.name}/{pod['metadata']['name']}" for pod in web.ns.pods("app=myweb")}

    def trace(target: str) -> tuple[dict[str, Any], int]:
        done = web.lab.command("trace", "--from", "pod/client", target, "-n", web.ns.name, "-o", "json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout), done.returncode

    report, code = trace("traced")
    assert (report["works"], code, report["differences"]) == (True, 0, []), report
    steps = {step["name"]: step for step in report["steps"]}
    assert steps["name"]["text"].startswith(f"traced means traced.{web.ns.name}.svc.cluster.local")
    assert f"in mode {web.mode}" in steps["rules"]["text"]
    assert {one["pod"] for one in report["backends"]} == set(pods.values())
    if not web.hides_the_client:
        assert report["seen"]["pod"] in pods.values()
        assert report["seen"]["client"] == web.ns.get("pods", "client")["status"]["podIP"]
        evidence = "\n".join(steps["connection"]["evidence"])
        assert f"-> {report['seen']['backend']}" in evidence

    report, code = trace("deaf")
    assert (report["works"], code) == (False, 1)
    assert report["verdict"].startswith("Dies at the step pod: no process"), report["verdict"]
    report, code = trace("empty")
    assert (report["works"], code) == (False, 1)
    assert report["verdict"].startswith("Dies at the step rules: the Service has no ready endpoint"), report["verdict"]


def test_doctor_finds_no_fault_in_the_rules(web: Web) -> None:
    web.publish("sound")
    web.ns.programmed("sound")

    def causes() -> set[str]:
        done = web.lab.command("doctor", "service/sound", "-n", web.ns.name, "-o", "json")
        assert done.stdout, done.stderr
        return {each["cause"] for each in json.loads(done.stdout)["findings"]}

    eventually(lambda: not causes(), message=f"doctor finds {causes()}")
