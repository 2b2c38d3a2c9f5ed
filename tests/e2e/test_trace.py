"""`bridgehead trace` in a lab: origins, targets, errors, and half a view of the cluster.

Connections in each mode are in `test_every_mode.py`.
"""

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
"""


@pytest.fixture
def traced(lab: Lab, ns: Namespace) -> Namespace:
    ns.apply(OBJECTS)
    ns.ready("web", "client")
    ns.programmed("web")
    return ns


def run(ns: Namespace, *arguments: str) -> tuple[dict[str, Any], int]:
    done = ns.lab.command("trace", *arguments, "-n", ns.name, "-o", "json")
    assert done.stdout, done.stderr
    return json.loads(done.stdout), done.returncode


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
