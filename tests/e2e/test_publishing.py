"""W13 and W38: the API of Services for clients outside the cluster. test_every_mode.py tests their answers."""

from __future__ import annotations

import json
import re
import sys

from .conftest import Lab, Namespace, curl, eventually
from .test_services import ANSWER, make_myweb, service

NODES = {"node1": "10.0.0.201", "node2": "10.0.0.202", "node3": "10.0.0.203"}


def test_w13_node_ports_are_allocated_validated_and_answer(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns)
    ns.apply(service("given", type="NodePort", ports=[{"port": 80, "nodePort": 30013}]))
    ns.apply(service("chosen", type="NodePort"))
    chosen = ns.get("services", "chosen")["spec"]["ports"][0]["nodePort"]
    assert 30000 <= chosen <= 32767
    ns.wait_endpoints("given", 3)
    for port in (30013, chosen):
        for address in NODES.values():
            eventually(lambda url=f"http://{address}:{port}/": ANSWER.match(curl(lab, url).stdout))
        assert ANSWER.match(curl(lab, f"http://{NODES['node2']}:{port}/", node="node1").stdout)
    assert "not in the valid range" in ns.refused(service("low", type="NodePort", ports=[{"port": 80, "nodePort": 80}]))
    assert "already allocated" in ns.refused(service("taken", type="NodePort", ports=[{"port": 80, "nodePort": 30013}]))


def test_w38_every_step_of_a_tutorial_works(lab: Lab, ns: Namespace) -> None:
    ns.kubectl(
        "create", "deployment", "hello-world", "--replicas=2", "--image=gcr.io/google-samples/node-hello:1.0",
        "--port=8080",
    )  # fmt: skip
    ns.rolled_out("deployment/hello-world")
    described = ns.kubectl("describe", "deployment", "hello-world")
    [replica_set] = re.findall(r"NewReplicaSet: +(hello-world-\w+) \(2/2 replicas created\)", described)
    for line in (
        r"Replicas: +2 desired \| 2 updated \| 2 total \| 2 available \| 0 unavailable",
        r"StrategyType: +RollingUpdate",
        r"Available +True +MinimumReplicasAvailable",
        r"Progressing +True +NewReplicaSetAvailable",
        rf"Normal +ScalingReplicaSet +\S+ +deployment-controller +Scaled up replica set {replica_set} from 0 to 2",
    ):
        eventually(lambda line=line: re.search(line, ns.kubectl("describe", "deployment", "hello-world")), message=line)
    described = ns.kubectl("describe", "replicaset", replica_set)
    assert re.search(r"Controlled By: +Deployment/hello-world", described)
    assert re.search(r"Pods Status: +2 Running / 0 Waiting / 0 Succeeded / 0 Failed", described)
    created = re.compile(rf"SuccessfulCreate .*Created pod: {replica_set}-\w+")
    eventually(lambda: len(created.findall(ns.kubectl("describe", "replicaset", replica_set))) == 2)

    ns.kubectl("expose", "deployment", "hello-world", "--type=NodePort", "--name=example-service")
    ns.wait_endpoints("example-service", 2)
    endpoints = r"Endpoints: +10\.244\.\d+\.\d+:8080,10\.244\.\d+\.\d+:8080"
    # Older kubectls show the Endpoints, which are of another controller than the slices.
    eventually(lambda: re.search(endpoints, ns.kubectl("describe", "service", "example-service")), message=endpoints)
    described = ns.kubectl("describe", "service", "example-service")
    for line in (
        r"Type: +NodePort",
        r"Port: +<unset> +8080/TCP",
        r"TargetPort: +8080/TCP",
        r"NodePort: +<unset> +3\d{4}/TCP",
        r"Session Affinity: +None",
        r"External Traffic Policy: +Cluster",
    ):
        assert re.search(line, described), (line, described)
    pods = ns.kubectl("get", "pods", "--selector=app=hello-world", "--output=wide").splitlines()
    assert len(pods) == 3
    nodes = ns.kubectl("get", "nodes")
    assert len(re.findall(r"^node\d +Ready +<none> +\S+ +v1\.\d+", nodes, re.M)) == 3, nodes
    port = ns.get("services", "example-service")["spec"]["ports"][0]["nodePort"]
    for address in NODES.values():
        eventually(lambda url=f"http://{address}:{port}/": "Hello Kubernetes!" in curl(lab, url).stdout)


def test_host_ports_on_several_addresses_and_protocols(lab: Lab, ns: Namespace) -> None:
    """Repeats the conformance test "there is no conflict between pods with same hostPort but different hostIP and
    protocol"."""
    port = {"containerPort": 8080, "hostPort": 54321}
    pods = {
        "loopback": port | {"hostIP": "127.0.0.1"},
        "address": port | {"hostIP": NODES["node2"]},
        "udp": {"containerPort": 8081, "hostPort": 54321, "hostIP": NODES["node2"], "protocol": "UDP"},
        "any": {"containerPort": 8080, "hostPort": 54322},
    }
    args = ["netexec", "--http-port=8080", "--udp-port=8081"]
    for name, published in pods.items():
        container = {"name": "agnhost", "image": "registry.k8s.io/e2e-test-images/agnhost:2.53", "args": args}
        spec = {"nodeName": "node2", "containers": [container | {"ports": [published]}]}
        ns.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
    ns.ready(*pods)

    def name_of(url: str, node: str | None = None) -> str:
        return curl(lab, f"http://{url}/hostname", "--max-time", "2", node=node).stdout

    eventually(lambda: name_of("127.0.0.1:54321", "node2") == "loopback")
    for node in (None, "node1", "node2"):
        eventually(lambda node=node: name_of(f"{NODES['node2']}:54321", node) == "address")
        eventually(lambda node=node: name_of(f"{NODES['node2']}:54322", node) == "any")
    assert name_of("127.0.0.1:54321", "node1") == ""
    ask = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.settimeout(2);"
        f" s.connect(('{NODES['node2']}', 54321)); s.send(b'hostname'); print(s.recv(99).decode())"
    )
    eventually(lambda: lab.inside(sys.executable, "-c", ask).stdout.strip() == "udp")
    ns.kubectl("delete", "pod", "address", "--now")
    eventually(lambda: name_of(f"{NODES['node2']}:54321") == "")
