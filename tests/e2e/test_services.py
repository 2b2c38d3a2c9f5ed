"""W1 to W12: Services inside the cluster. Behaviour that may depend on the proxy mode is in test_every_mode.py."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest

from .conftest import EXAMPLES, PATIENCE, Lab, Namespace, curl, curl_many, eventually, no_request_lost, run

POD_TEST = "registry.cn-beijing.aliyuncs.com/wangxiaochun/pod-test:v0.1"
ANSWER = re.compile(r"kubernetes pod-test v0\.1!! ClientIP: (\S+), ServerName: (\S+), ServerIP: (\S+)!")


def parts_of(answer: str) -> tuple[str, ...]:
    """The client's address, the pod's name and its address in an answer."""
    found = ANSWER.fullmatch(answer)
    assert found, answer
    return found.groups()


def make_myweb(ns: Namespace, replicas: int = 3) -> None:
    ns.kubectl("create", "deployment", "myweb", f"--image={POD_TEST}", f"--replicas={replicas}")
    ns.rolled_out("deployment/myweb")


def service(name: str = "myweb", **spec: object) -> str:
    spec = {"selector": {"app": "myweb"}, "ports": [{"port": 80}], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})


def test_w1_a_deployment_has_three_ready_pods_with_owners_and_hashes(ns: Namespace) -> None:
    make_myweb(ns)
    table = ns.kubectl("get", "deploy,rs,pod", "-o", "wide", "--show-labels")
    assert re.search(r"deployment.apps/myweb +3/3 +3 +3 ", table), table
    pods = ns.pods("app=myweb")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 3
    for pod in pods:
        assert pod["status"]["podIP"].startswith("10.244.")
        assert re.search(rf"pod/{pod['metadata']['name']} +1/1 +Running +0 .*pod-template-hash=", table), table


def test_w2_a_service_has_endpoints_and_endpointslices(ns: Namespace) -> None:
    make_myweb(ns)
    ns.kubectl("apply", "-f", EXAMPLES / "clusterip.yaml")
    addresses = ns.wait_endpoints("myweb", 3)
    line = ns.kubectl("get", "svc", "myweb").splitlines()[1]
    assert re.fullmatch(r"myweb +ClusterIP +10\.(9[6-9]|10\d|11[01])\.\d+\.\d+ +<none> +80/TCP +\S+", line), line
    expected = sorted(f"{address}:80" for address in addresses)
    eventually(lambda: sorted(ns.kubectl("get", "ep", "myweb").splitlines()[1].split()[1].split(",")) == expected)
    assert re.search(r"myweb-\w+ +IPv4 +80 +\S+,\S+,\S+ ", ns.kubectl("get", "endpointslices"))


def test_w3_a_cluster_ip_answers_from_pods_nodes_and_the_lab(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns)
    ns.apply(service())
    addresses = ns.wait_endpoints("myweb", 3)
    url = f"http://{ns.cluster_ip('myweb')}/"
    names = {pod["metadata"]["name"]: pod["status"]["podIP"] for pod in ns.pods("app=myweb")}
    client = ns.client_pod()

    from_pod = ns.kubectl("exec", client, "--", "sh", "-c", f"for i in $(seq 40); do curl -sS -m 20 {url}; done")
    for lines in (curl_many(lab, url, 40), curl_many(lab, url, 40, node="node1"), from_pod.splitlines()):
        answers = [parts_of(line) for line in lines]
        assert {ip for _, _, ip in answers} == set(addresses)
        assert all(names[name] == ip for _, name, ip in answers)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("127.0.0.1", "may not be in the loopback range"),
        ("169.254.1.1", "may not be in the link-local range"),
        ("224.0.0.1", "may not be in the link-local multicast range"),
    ],
)
def test_w5_endpoints_with_reserved_addresses_are_refused(ns: Namespace, address: str, reason: str) -> None:
    refusal = ns.refused(json.dumps({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "bad"},
        "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}],
    }))  # fmt: skip
    assert f'subsets[0].addresses[0].ip: Invalid value: "{address}": {reason}' in refusal


def test_w6_ports_lead_to_named_target_ports(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("apply", "-f", EXAMPLES / "named-ports.yaml")
    ns.rolled_out("deployment/one", "deployment/two")
    ns.wait_endpoints("ports", 2)
    ip = ns.cluster_ip("ports")
    for port in (80, 8081):
        # One pod listens on 80 and the other on 8080; both call it "web".
        lines = curl_many(lab, f"http://{ip}:{port}/", 40)
        assert any(ANSWER.fullmatch(line) for line in lines), lines
        assert any("Hello Kubernetes!" in line for line in lines), lines
    refusal = ns.refused(service("unnamed", ports=[{"port": 80}, {"port": 443}]))
    assert "spec.ports[0].name: Required value" in refusal
    assert "spec.ports[1].name: Required value" in refusal


def test_w7_a_requested_cluster_ip_is_validated(ns: Namespace) -> None:
    outside = ns.refused(service("outside", clusterIP="10.0.171.239"))
    assert "10.0.171.239" in outside
    assert "does not match the current range" in outside
    free = "10.96.0.77"
    ns.kubectl("create", "-f", "-", stdin=service("first", clusterIP=free))
    assert ns.cluster_ip("first") == free
    assert "already allocated" in ns.refused(service("second", clusterIP=free))
    ns.kubectl("delete", "service", "first")
    ns.kubectl("create", "-f", "-", stdin=service("second", clusterIP=free))


def test_w8_headless_services_have_endpoints_and_no_cluster_ip(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns, 5)
    ns.apply(service("headless", clusterIP="None"))
    ns.apply(json.dumps({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "bare"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    }))  # fmt: skip
    ns.wait_endpoints("headless", 5)
    table = ns.kubectl("get", "svc")
    assert re.search(r"headless +ClusterIP +None ", table)
    assert re.search(r"bare +ClusterIP +None ", table)
    eventually(lambda: " + 2 more..." in ns.kubectl("get", "endpoints", "headless"))
    named = set(re.findall(r"[\d.]+", lab.inside("nft", "list", "ruleset", node="node1").stdout))
    assert not {pod["status"]["podIP"] for pod in ns.pods("app=myweb")} & named


@pytest.mark.parametrize("seconds", [0, 86401])
def test_w9_timeouts_out_of_range_are_refused(ns: Namespace, seconds: int) -> None:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    sticky = service(sessionAffinity="ClientIP", sessionAffinityConfig=config)
    message = ns.refused(sticky)
    assert "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value" in message, message
    assert "must be greater than 0 and less than 86400" in message, message
    status = ns.try_kubectl("create", "-f", "-", "-v=6", stdin=sticky).stderr
    assert "422 Unprocessable Entity" in status, status


def test_w10_endpoints_follow_pods_and_no_request_is_lost(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("create", "deployment", "myapp", "--image=ikubernetes/myapp:v1", "--replicas=3")
    ns.kubectl("expose", "deployment", "myapp", "--port=80")
    ns.rolled_out("deployment/myapp")
    ns.wait_endpoints("myapp", 3)
    url = f"http://{ns.cluster_ip('myapp')}/"
    with no_request_lost(lab, url, at_least=10):
        ns.kubectl("set", "image", "deployment/myapp", "myapp=ikubernetes/myapp:v2")
        ns.rolled_out("deployment/myapp")
        ns.kubectl("scale", "deployment/myapp", "--replicas=5")
        ns.wait_endpoints("myapp", 5)
        ns.kubectl("delete", "pod", ns.pods("app=myapp")[0]["metadata"]["name"])
        ns.kubectl("scale", "deployment/myapp", "--replicas=2")
        ns.wait_endpoints("myapp", 2)
        eventually(lambda: len(ns.pods("app=myapp")) == 2)
    assert "v2" in curl(lab, url).stdout


def test_w11_kubectl_create_expose_and_run_make_services(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns, 1)
    ns.kubectl("create", "service", "clusterip", "myweb", "--tcp=80:80")
    ns.kubectl("expose", "deployment", "myweb", "--name=exposed", "--port=8000", "--target-port=80")
    ns.kubectl("run", "single", f"--image={POD_TEST}", "--expose", "--port=80")
    for kind in ("nodeport", "loadbalancer"):
        ns.kubectl("create", "service", kind, kind, "--tcp=80:80")
        ns.kubectl("patch", "service", kind, "--type=merge", "-p", '{"spec":{"selector":{"app":"myweb"}}}')
    ns.kubectl("create", "service", "externalname", "out", "--external-name=example.org")
    for name, port in (("myweb", 80), ("exposed", 8000), ("single", 80), ("nodeport", 80), ("loadbalancer", 80)):
        url = f"http://{ns.cluster_ip(name)}:{port}/"
        eventually(lambda url=url: ANSWER.match(curl(lab, url).stdout), message=f"{name} does not answer")
    assert re.search(r"out +ExternalName +<none> +example.org +<none> ", ns.kubectl("get", "svc"))
    balanced = r"loadbalancer +LoadBalancer +\S+ +10\.0\.0\.\d+ +80:3\d{4}/TCP"
    eventually(lambda: re.search(balanced, ns.kubectl("get", "svc")), message=balanced)


def test_w12_a_service_can_be_posted_as_json(lab: Lab, ns: Namespace) -> None:
    config = json.loads(lab.kubectl("config", "view", "--raw", "-o", "json").stdout)
    files = {}
    for key, data in {
        "ca": config["clusters"][0]["cluster"]["certificate-authority-data"],
        "cert": config["users"][0]["user"]["client-certificate-data"],
        "key": config["users"][0]["user"]["client-key-data"],
    }.items():
        files[key] = lab.state_dir / f"w12.{key}"
        files[key].write_bytes(base64.b64decode(data))
    server = config["clusters"][0]["cluster"]["server"]

    def post(body: str) -> tuple[int, dict[str, Any]]:
        result = run(
            "curl", "-sS", "-m", PATIENCE, "--cacert", files["ca"], "--cert", files["cert"], "--key", files["key"],
            "-H", "Content-Type: application/json", "-d", body, "-w", "\n%{http_code}",
            f"{server}/api/v1/namespaces/{ns.name}/services",
        )  # fmt: skip
        answer, _, code = result.stdout.rpartition("\n")
        return int(code), json.loads(answer)

    code, stored = post(service("my-service", selector={"app": "MyApp"}, ports=[{"port": 80, "targetPort": 9376}]))
    assert code == 201
    assert stored["metadata"]["uid"]
    assert stored["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 9376}]
    code, status = post(service("my_service", ports=[{"port": 99999}]))
    assert code == 422
    assert (status["kind"], status["reason"], status["status"]) == ("Status", "Invalid", "Failure")
    assert {cause["field"] for cause in status["details"]["causes"]} >= {"metadata.name", "spec.ports[0].port"}
    assert post("{not json")[0] == 400


def test_w47_the_api_server_leads_to_services_pods_and_nodes(ns: Namespace) -> None:
    make_myweb(ns, 1)
    ns.apply(service(ports=[{"name": "main", "port": 8000, "targetPort": 80}]))
    ns.wait_endpoints("myweb", 1)
    (name,) = (pod["metadata"]["name"] for pod in ns.pods("app=myweb"))
    objects = f"/api/v1/namespaces/{ns.name}"
    for path in ("services/myweb:main/proxy/", "services/http:myweb:8000/proxy/", f"pods/{name}:80/proxy/"):
        answer = ANSWER.search(ns.kubectl("get", "--raw", f"{objects}/{path}"))
        assert answer is not None
        assert answer.group(2) == name
    for path in ("node1:10250/proxy/logs/", "node1/proxy/logs/"):
        assert "<pre>" in ns.kubectl("get", "--raw", f"/api/v1/nodes/{path}")
    assert "kubelet_running_pods" in ns.kubectl("get", "--raw", "/api/v1/nodes/node1/proxy/metrics")
    failed = ns.try_kubectl("get", "--raw", f"{objects}/pods/{name}:81/proxy/")
    assert "(ServiceUnavailable): error trying to reach service: dial tcp 10.244." in failed.stderr
    # The server of an aggregated API proves itself with the lab's CA for the user's name.
    trusted = ns.kubectl("-n", "kube-system", "get", "configmap", "extension-apiserver-authentication", "-o", "yaml")
    assert "requestheader-client-ca-file" in trusted
    table = ns.kubectl("get", "apiservices", "v1.", "v1.apps")
    assert [line.split()[1:3] for line in table.splitlines()[1:]] == [["Local", "True"]] * 2


def test_a_pod_reaches_its_own_service_and_undefined_ports_are_refused(lab: Lab, ns: Namespace) -> None:
    """The pod is its Service's only backend; connections to other ports of the ClusterIP are rejected."""
    make_myweb(ns, 1)
    ns.apply(service())
    ns.wait_endpoints("myweb", 1)
    pod = ns.pods("app=myweb")[0]["metadata"]["name"]
    ip = ns.cluster_ip("myweb")
    answer = ns.kubectl("exec", pod, "--", "curl", "-sS", "-m", "20", f"http://{ip}/")
    assert parts_of(answer.strip())[1] == pod
    for node in (None, "node1", "node3"):
        assert curl(lab, f"http://{ip}:81/", node=node).returncode == 7
    client = ns.try_kubectl("exec", pod, "--", "curl", "-sS", "-m", "20", f"http://{ip}:81/")
    assert "exit code 7" in client.stderr


def test_whoever_creates_a_network_policy_learns_that_it_has_no_effect(ns: Namespace) -> None:
    policy = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "deny"},
        "spec": {"podSelector": {}},
    }
    done = ns.try_kubectl("create", "-f", "-", stdin=json.dumps(policy))
    assert "nothing in this cluster acts on NetworkPolicies; all connections stay allowed" in done.stderr
