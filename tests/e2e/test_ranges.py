"""A lab whose addresses the user has chosen: everything in it has addresses of these ranges, and works."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from .conftest import Lab, Namespace, eventually
from .test_open import WEB

FABRIC, PODS, SERVICES = "10.9.0.0/24", "172.28.0.0/16", "192.168.5.0/24"


def with_address(service: Any) -> Any:
    """The Service, None while it has no load balancer."""
    return service if service["status"]["loadBalancer"].get("ingress") else None


@pytest.fixture(scope="module")
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("ranges", tmp_path_factory.mktemp("ranges"))
    ranges = (f"--fabric-cidr={FABRIC}", f"--pod-cidr={PODS}", f"--service-cidr={SERVICES}")
    lab.start("--nodes=2", "--ip-family=ipv4", *ranges)
    yield lab
    lab.stop()


def test_services_work_in_ranges_that_the_user_has_chosen(own_lab: Lab):
    lab, default = own_lab, Namespace(own_lab, "default")
    default.apply(WEB.replace("NodePort", "LoadBalancer"))
    default.ready("web")
    service = eventually(lambda: with_address(default.get("services", "web")))
    default.programmed("web")
    pod = default.get("pods", "web")["status"]["podIP"]
    address, cluster_ip = service["status"]["loadBalancer"]["ingress"][0]["ip"], service["spec"]["clusterIP"]
    node_port = service["spec"]["ports"][0]["nodePort"]
    nodes = [lab.api.get(f"/api/v1/nodes/node{number}")["status"]["addresses"][0]["address"] for number in (1, 2)]
    assert nodes == ["10.9.0.201", "10.9.0.202"]
    assert ip_address(pod) in ip_network(PODS)
    assert (ip_address(cluster_ip) in ip_network(SERVICES), address) == (True, "10.9.0.10")
    for target in (cluster_ip, address, f"{nodes[1]}:{node_port}"):
        eventually(lambda target=target: "Welcome to nginx" in lab.inside("curl", "-sS", "-m", "5", target).stdout)
    name = lab.inside("dig", "+short", "@192.168.5.10", "web.default.svc.cluster.local", node="node2")
    assert name.stdout.strip() == cluster_ip
    status = lab.command("status").stdout
    assert f"nodes in {FABRIC}, pods in {PODS}, Services in {SERVICES}" in status


def test_other_ranges_are_refused_later(own_lab: Lab):
    own_lab.stop()
    refused = own_lab.command("up", "--detach", "--offline", "--pod-cidr=172.16.0.0/16")
    assert refused.returncode == 1
    assert f"the lab was made with --pod-cidr {PODS}" in refused.stderr
