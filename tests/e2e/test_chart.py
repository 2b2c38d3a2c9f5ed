"""The chart in a lab: all parts in the place of the lab's own, from `helm install` to `helm uninstall`.

The lab has no balancer, and its kube-proxy leaves nodes as that of kubeadm does: by the patch that the notes print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart import CHART

from .conftest import Lab, Namespace, _is_ready, curl, eventually, no_request_lost
from .helm_release import WAIT, Release, settings
from .test_dashboards import names_of

pytestmark = pytest.mark.needs("iptables-restore")

SYSTEM = "kube-system"
PARTS = ("proxy", "dns", "controller", "speaker")
IMAGES = {"proxy": "proxy", "dns": "dns", "controller": "balancer", "speaker": "speaker"}  # of the lab's own parts
VALUES = (
    "k8sServiceHost=10.0.0.1",
    *(f"{part}.enabled=true" for part in PARTS),
    *(f"{part}.image.repository=bridgehead/{image}" for part, image in IMAGES.items()),
)
# Values of an upgrade: the DNS goes behind the Service kube-dns with the Corefile that is there; another proxy mode.
CHANGED = (
    *("dns.k8sAppLabelOverride=kube-dns", "dns.service.enabled=false", "dns.deployment.skipConfig=true"),
    "proxy.config.mode=iptables",
)
KINDS = (
    *("namespaces", "serviceaccounts", "configmaps", "secrets", "services", "deployments.apps", "daemonsets.apps"),
    *("replicasets.apps", "jobs.batch", "clusterroles", "clusterrolebindings", "roles", "rolebindings"),
    *("customresourcedefinitions", "validatingwebhookconfigurations", "endpointslices"),
)
POOL = """
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {name: web, namespace: metallb-system}
spec: {addresses: [10.0.0.60-10.0.0.61]}
---
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata: {name: web, namespace: metallb-system}
spec: {ipAddressPools: [web]}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {name: web, namespace: metallb-system}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 10.0.0.1, passwordSecret: {name: web}}
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {name: web, namespace: metallb-system}
spec: {ipAddressPools: [web]}
---
apiVersion: v1
kind: Secret
metadata: {name: web, namespace: metallb-system}
type: kubernetes.io/basic-auth
stringData: {password: secret}
"""
WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {nodeName: node1, containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: LoadBalancer, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {nodeName: node2, containers: [{name: client, image: curlimages/curl, command: [sleep, infinity]}]}
"""


@pytest.fixture
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("chart", tmp_path_factory.mktemp("chart"))
    try:
        lab.start("--ephemeral", "--nodes=2", "--offline", "--no-balancer", "--ip-family=ipv4")
        yield lab
    finally:
        lab.stop()


class World:
    """A lab and the release in it. `web` is the namespace of a Service and of its client, which is on node2."""

    def __init__(self, lab: Lab, home: Path) -> None:
        self.lab, self.release = lab, Release(lab, SYSTEM, "bridgehead", CHART, home)
        self.system, self.web = Namespace(lab, SYSTEM), Namespace(lab, "web")

    def proxies(self) -> dict[str, str]:
        """Return which proxy is on each node: the label of its pod."""
        pods = self.system.pods("k8s-app in (kube-proxy,bridgehead-proxy)")
        placed = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"] and "nodeName" in pod["spec"]]
        return {pod["spec"]["nodeName"]: pod["metadata"]["labels"]["k8s-app"] for pod in placed}

    def by_node2(self) -> str:
        """Return the URL of the Service at its node port of node2."""
        (port,) = self.web.get("services", "web")["spec"]["ports"]
        return f"http://10.0.0.202:{port['nodePort']}"

    def denied(self) -> float:
        """Return how many requests the API server has denied for want of rights."""
        page = self.lab.kubectl("get", "--raw", "/metrics").stdout
        found = re.search(r'^authorization_attempts_total\{result="denied"\} (\S+)$', page, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def objects(self) -> set[str]:
        """Return the names of all objects but those of the test's own Service."""
        found = self.lab.kubectl("get", "-A", "-o", "json", ",".join(KINDS))
        assert found.returncode == 0, found.stderr
        items = [(item["kind"], item["metadata"]) for item in json.loads(found.stdout)["items"]]
        return {
            f"{kind} {meta.get('namespace', '')}/{meta['name']}"
            for kind, meta in items
            if "web" not in (meta.get("namespace"), meta["name"])
        }

    def is_answered(self, server: str) -> bool:
        """Whether a DNS server knows the Service."""
        answer = self.web.execute("client", "nslookup", "web.web.svc.cluster.local", server).stdout
        return self.web.cluster_ip("web") in answer

    def pod_ip(self, part: str) -> str:
        pods = self.system.pods(f"app.kubernetes.io/component={part}")
        ip: str = next(pod for pod in pods if _is_ready(pod))["status"]["podIP"]
        return ip

    def metrics(self) -> set[str]:
        """Return the names of the metrics of all parts; those of the balancer for a token that may get them."""
        token = self.web.kubectl("create", "token", "prometheus").strip()
        pages = [
            curl(self.lab, "http://127.0.0.1:10249/metrics", node="node2").stdout,
            curl(self.lab, f"http://{self.pod_ip('dns')}:9153/metrics", node="node1").stdout,
        ]
        for part in ("controller", "speaker"):
            url, header = f"https://{self.pod_ip(part)}:9120/metrics", f"Authorization: Bearer {token}"
            pages.append(self.web.execute("client", "curl", "-sk", "-m", "20", "-H", header, url).stdout)
        return {name for page in pages for name in names_of(page)}


def metrics_read() -> set[str]:
    """Return the names of the metrics in dashboards and alerts, without the suffixes of histograms."""
    files = [
        *(CHART / "files/dashboards").iterdir(),
        CHART / "files/alerts.yaml",
        CHART / "templates/monitoring/prometheusrule.yaml",
    ]
    text = "\n".join(file.read_text("utf-8") for file in files)
    names = re.findall(r"\b(?:kubeproxy|coredns|metallb|bridgehead|process|rest_client)_\w+", text)
    return {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}


def test_w59_all_parts_take_over_and_give_back(lab: Lab, tmp_path: Path) -> None:
    world = World(lab, tmp_path)
    world.web.create()
    world.web.apply(WEB)
    world.web.ready()
    before, denied = world.objects(), world.denied()
    install(world)
    check_services(world)
    metrics = world.metrics()
    change(world)
    assert metrics_read() - metrics - world.metrics() == set()
    assert world.denied() == denied
    world.release.rollback(1)
    eventually(lambda: world.is_answered(world.system.cluster_ip("bridgehead-dns")))
    assert world.release.history() == [(1, "superseded"), (2, "superseded"), (3, "deployed")]
    remove(world)
    assert world.objects() - before == {"Namespace /metallb-system"} | _of_namespace("metallb-system")
    assert before - world.objects() == set()


def install(world: World) -> None:
    """Install the release, and move node2 to its proxy."""
    notes = world.release.install(*settings(*VALUES), *WAIT)
    world.lab.kubectl("label", "node", "node2", "bridgehead.io/proxy=true")
    eventually(lambda: world.system.pods("k8s-app=bridgehead-proxy"))
    assert world.proxies() == {"node1": "kube-proxy", "node2": "kube-proxy"}, "one node has both"
    (patch,) = re.findall(r"--patch '(.*)'$", notes, re.MULTILINE)
    with no_request_lost(world.lab, world.by_node2(), at_least=10):
        world.system.kubectl("patch", "daemonset", "kube-proxy", "--patch", patch)
        world.system.rolled_out("daemonset/bridgehead-proxy", "daemonset/bridgehead-speaker", "daemonset/kube-proxy")
    assert world.proxies() == {"node1": "kube-proxy", "node2": "bridgehead-proxy"}


def check_services(world: World) -> None:
    """Check that the Service has an address that answers, a name, and rules on the node of the release's proxy."""
    world.web.kubectl("create", "serviceaccount", "prometheus")
    reader = ("--clusterrole=bridgehead-metrics-reader", "--serviceaccount=web:prometheus")
    world.web.kubectl("create", "clusterrolebinding", "web", *reader)
    applied = world.lab.kubectl("apply", "-f", "-", stdin=POOL)
    assert applied.returncode == 0, applied.stderr
    eventually(lambda: curl(world.lab, "http://10.0.0.60").returncode == 0)
    assert curl(world.lab, f"http://{world.web.cluster_ip('web')}", node="node2").returncode == 0
    assert world.is_answered(world.system.cluster_ip("bridgehead-dns"))
    taken = POOL.partition("---")[0].replace("10.0.0.60-10.0.0.61", "10.96.0.0/24").replace("name: web", "name: taken")
    assert "denied the request" in eventually(lambda: world.lab.kubectl("create", "-f", "-", stdin=taken).stderr)
    found = world.lab.command("doctor", "-n", "web", "service/web")
    assert found.returncode == 0, found.stdout  # it knows the configuration and the kernel of node2


def change(world: World) -> None:
    """Upgrade the release, and let its DNS answer alone behind kube-dns."""
    world.release.upgrade(*VALUES, *CHANGED)
    world.system.kubectl("scale", "deployment", "coredns", "--replicas=0")
    world.system.rolled_out("deployment/bridgehead-dns", "deployment/coredns", "daemonset/bridgehead-proxy")
    world.system.wait_endpoints("kube-dns", 2)
    eventually(lambda: world.is_answered(world.system.cluster_ip("kube-dns")))
    mode = curl(world.lab, "http://127.0.0.1:10249/proxyMode", node="node2").stdout
    assert mode == "iptables"
    assert curl(world.lab, f"http://{world.web.cluster_ip('web')}", node="node2").returncode == 0


def remove(world: World) -> None:
    """Go back to the lab's own parts, and uninstall the release."""
    world.system.kubectl("scale", "deployment", "coredns", "--replicas=2")
    with no_request_lost(world.lab, world.by_node2(), at_least=10):
        world.lab.kubectl("label", "node", "node2", "bridgehead.io/proxy=cleanup", "--overwrite")
        eventually(lambda: any(map(_is_ready, world.system.pods("app.kubernetes.io/component=proxy-cleanup"))))
    assert world.proxies() == {"node1": "kube-proxy", "node2": "kube-proxy"}, "kube-proxy is back before the cleanup"
    assert "KUBE-SERVICES" not in world.lab.inside("iptables-save", node="node2").stdout, "of the chart's proxy"
    world.lab.kubectl("label", "node", "node2", "bridgehead.io/proxy-")
    eventually(lambda: not world.system.pods("app.kubernetes.io/component=proxy-cleanup"))
    assert curl(world.lab, f"http://{world.web.cluster_ip('web')}", node="node2").returncode == 0
    world.lab.kubectl("delete", "-f", "-", stdin=POOL)
    world.release.uninstall()
    ingress = world.web.get("services", "web")["status"]["loadBalancer"]
    assert ingress == {}, "the clean-up of the release takes its addresses back"


def _of_namespace(name: str) -> set[str]:
    """Return the names of the objects that every namespace has."""
    return {f"ServiceAccount {name}/default", f"ConfigMap {name}/kube-root-ca.crt"}
