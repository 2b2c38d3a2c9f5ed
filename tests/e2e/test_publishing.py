"""W13, W16's first half, W36 and W38: Services from outside, and the proxy's own life."""

from __future__ import annotations

import json
import re

from .conftest import Lab, Namespace, curl, eventually
from .test_services import ANSWER, make_myweb, service

NODES = {"node1": "10.0.0.201", "node2": "10.0.0.202", "node3": "10.0.0.203"}


def test_w13_node_ports(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns)
    ns.apply(service("given", type="NodePort", ports=[{"port": 80, "nodePort": 30013}]))
    ns.apply(service("chosen", type="NodePort"))
    chosen = ns.get("service", "chosen")["spec"]["ports"][0]["nodePort"]
    assert 30000 <= chosen <= 32767
    ns.wait_endpoints("given", 3)
    for port in (30013, chosen):
        for address in NODES.values():
            eventually(lambda url=f"http://{address}:{port}/": ANSWER.match(curl(lab, url).stdout))
        assert ANSWER.match(curl(lab, f"http://{NODES['node2']}:{port}/", node="node1").stdout)
    assert "not in the valid range" in ns.refused(service("low", type="NodePort", ports=[{"port": 80, "nodePort": 80}]))
    assert "already allocated" in ns.refused(service("taken", type="NodePort", ports=[{"port": 80, "nodePort": 30013}]))


def test_external_ips(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns)
    ns.apply(service("outer", externalIPs=["10.0.0.88"]))
    ns.wait_endpoints("outer", 3)
    assert lab.inside("ip", "addr", "add", "10.0.0.88/32", "dev", "eth0", node="node2").returncode == 0
    eventually(lambda: ANSWER.match(curl(lab, "http://10.0.0.88/").stdout))
    assert ANSWER.match(curl(lab, "http://10.0.0.88/", node="node3").stdout)
    lab.inside("ip", "addr", "del", "10.0.0.88/32", "dev", "eth0", node="node2")


def test_w36_stale_rules_go(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns, 1)
    ns.apply(service("stale"))
    ns.wait_endpoints("stale", 1)
    ip = ns.cluster_ip("stale")

    def rules(node: str) -> str:
        return lab.inside("nft", "list", "ruleset", node=node).stdout

    eventually(lambda: all(ip in rules(node) for node in NODES))
    # Stop the proxies as an administrator does: no node wants one any more.
    nowhere = {"spec": {"template": {"spec": {"nodeSelector": {"kubernetes.io/hostname": "none"}}}}}
    kube_proxy = ("-n", "kube-system", "patch", "daemonset", "kube-proxy")
    assert lab.kubectl(*kube_proxy, "-p", json.dumps(nowhere)).returncode == 0
    try:
        eventually(lambda: not pods_of_proxy(lab), message="the proxies never stopped")
        ns.kubectl("delete", "service", "stale")
        assert ip in rules("node1"), "rules outlive the proxy: connections go on while it is replaced"
    finally:
        everywhere = [{"op": "remove", "path": "/spec/template/spec/nodeSelector"}]
        lab.kubectl(*kube_proxy, "--type=json", "-p", json.dumps(everywhere))
    lab.kubectl("-n", "kube-system", "rollout", "status", "daemonset/kube-proxy", "--timeout=60s")
    eventually(lambda: not any(ip in rules(node) for node in NODES))


def pods_of_proxy(lab: Lab) -> list[str]:
    return lab.kubectl(
        "-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-proxy", "-o", "name"
    ).stdout.split()  # fmt: skip


def test_w38_the_whole_tutorial(lab: Lab, ns: Namespace) -> None:
    ns.kubectl(
        "create", "deployment", "hello-world", "--replicas=2", "--image=gcr.io/google-samples/node-hello:1.0",
        "--port=8080",
    )  # fmt: skip
    ns.rolled_out("deployment/hello-world")
    described = ns.kubectl("describe", "deployment", "hello-world")
    replica_set = re.search(r"NewReplicaSet: +(hello-world-\w+) \(2/2 replicas created\)", described)[1]
    for line in (
        r"Replicas: +2 desired \| 2 updated \| 2 total \| 2 available \| 0 unavailable",
        r"StrategyType: +RollingUpdate",
        r"Available +True +MinimumReplicasAvailable",
        r"Progressing +True +NewReplicaSetAvailable",
        rf"Normal +ScalingReplicaSet +\S+ +deployment-controller +Scaled up replica set {replica_set} from 0 to 2",
    ):
        assert re.search(line, described), (line, described)
    described = ns.kubectl("describe", "replicaset", replica_set)
    assert re.search(r"Controlled By: +Deployment/hello-world", described)
    assert re.search(r"Pods Status: +2 Running / 0 Waiting / 0 Succeeded / 0 Failed", described)
    assert len(re.findall(rf"SuccessfulCreate .*Created pod: {replica_set}-\w+", described)) == 2

    ns.kubectl("expose", "deployment", "hello-world", "--type=NodePort", "--name=example-service")
    ns.wait_endpoints("example-service", 2)
    described = ns.kubectl("describe", "service", "example-service")
    for line in (
        r"Type: +NodePort",
        r"Port: +<unset> +8080/TCP",
        r"TargetPort: +8080/TCP",
        r"NodePort: +<unset> +3\d{4}/TCP",
        r"Endpoints: +10\.244\.\d+\.\d+:8080,10\.244\.\d+\.\d+:8080",
        r"Session Affinity: +None",
        r"External Traffic Policy: +Cluster",
    ):
        assert re.search(line, described), (line, described)
    pods = ns.kubectl("get", "pods", "--selector=app=hello-world", "--output=wide").splitlines()
    assert len(pods) == 3
    nodes = ns.kubectl("get", "nodes")
    assert len(re.findall(r"^node\d +Ready +<none> +\S+ +v1\.\d+", nodes, re.M)) == 3, nodes
    port = ns.get("service", "example-service")["spec"]["ports"][0]["nodePort"]
    for address in NODES.values():
        eventually(lambda url=f"http://{address}:{port}/": "Hello Kubernetes!" in curl(lab, url).stdout)
