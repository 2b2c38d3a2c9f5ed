"""`bridgehead trace` in a lab: connections that work, that die, and half a view of the cluster."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bridgehead.cli.cluster_access import choose_cluster
from bridgehead.client import ApiClient
from bridgehead.insight.remote_namespaces import RemoteNamespaces
from bridgehead.insight.trace.context import Request
from bridgehead.insight.trace.target import parse_origin, parse_target
from bridgehead.insight.trace.tracing import trace

from . import proxy_modes
from .conftest import Lab, Namespace

OBJECTS = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: node2
  containers: [{name: web, image: busybox, command: [busybox, httpd, -f, -p, "8080"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  nodeName: node1
  containers: [{name: client, image: busybox, command: [sleep, "10000"]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: deaf}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: 81}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty}
spec: {selector: {app: nobody}, ports: [{port: 80}]}
"""


@pytest.fixture
def traced(lab: Lab, ns: Namespace) -> Namespace:
    ns.apply(OBJECTS)
    ns.ready("web", "client")
    for name in ("web", "deaf", "empty"):
        ns.programmed(name)
    return ns


def run(ns: Namespace, *arguments: str) -> tuple[dict[str, Any], int]:
    done = ns.lab.command("trace", *arguments, "-n", ns.name, "-o", "json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


def step(report: dict[str, Any], name: str) -> dict[str, Any]:
    return next(one for one in report["steps"] if one["name"] == name)


def check_mode(ns: Namespace, mode: str) -> None:
    pod = ns.get("pods", "web")["status"]["podIP"]
    report, code = run(ns, "--from", "pod/client", "web")
    assert (report["works"], code) == (True, 0), report
    assert report["differences"] == []
    assert step(report, "name")["text"].startswith(f"web means web.{ns.name}.svc.cluster.local")
    assert [one["address"] for one in report["backends"]] == [f"{pod}:8080"]
    assert f"in mode {mode}" in step(report, "rules")["text"]
    assert report["backends"][0]["pod"] == f"{ns.name}/web"
    assert report["seen"]["backend"] == f"{pod}:8080"
    if mode not in proxy_modes.HIDES_THE_CLIENT:
        assert report["seen"]["client"] == ns.get("pods", "client")["status"]["podIP"]
        evidence = "\n".join(step(report, "connection")["evidence"])
        assert f"-> {pod}:8080" in evidence
        assert "node2: packet" in evidence

    report, code = run(ns, "--from", "pod/client", "deaf")
    assert code == 1
    assert report["verdict"].startswith("Dies at the step pod: no process")
    report, code = run(ns, "--from", "pod/client", "empty")
    assert code == 1
    assert report["verdict"].startswith("Dies at the step rules: the Service has no ready endpoint")


def test_connections_in_each_mode(changeable_lab: Lab, traced: Namespace) -> None:
    """W50."""
    for mode in proxy_modes.MODES:
        proxy_modes.configure(traced.lab, mode)
        check_mode(traced, mode)


def test_origins_targets_and_errors(lab: Lab, traced: Namespace) -> None:
    port = traced.get("services", "web")["spec"]["ports"][0]["nodePort"]
    cases = (("outside", "service/web"), ("outside", f"10.0.0.202:{port}"), ("node/node1", "service/web"))
    for origin, target in cases:
        report, code = run(traced, "--from", origin, target)
        assert (report["works"], code) == (True, 0), report
    report, code = run(traced, "--protocol", "udp", "--from", "pod/client", "kube-dns.kube-system")
    assert (report["works"], report["seen"]["outcome"], code) == (True, "answered", 0), report
    report, code = run(traced, "--from", "pod/client", "nosuch")
    assert code == 1
    assert "there is no Service" in report["verdict"]
    for arguments in (("10.9.9.9",), ("deployment/web",), ("--from", "inside", "web")):
        done = lab.command("trace", *arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert len(done.stderr.splitlines()) == 1
    text = lab.command("trace", "--from", "pod/client", "web", "-n", traced.name)
    assert text.stdout.startswith("Works: answered by pod")
    left = lab.inside("nft", "list", "tables", node="node1").stdout
    assert "bridgehead-trace" not in left


def test_where_only_programs_run_and_objects_are_hidden(lab: Lab, traced: Namespace) -> None:
    cluster = choose_cluster("test", None, lab.name, lab.state_dir)

    async def look() -> None:
        async with ApiClient(cluster.config) as client:
            request = Request(
                target=parse_target("web"), text="web", origin=parse_origin("pod/client"), namespace=traced.name
            )
            report = await trace(client, RemoteNamespaces(client), request)
        assert report.works is not False, report
        assert report.differences == ()
        assert report.backends

    asyncio.run(look())
