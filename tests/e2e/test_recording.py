"""A recording of one lab, replayed in another one: the same rules of the nodes' proxies, and pods that answer."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

from .conftest import PATIENCE, Lab, Namespace, curl, curl_many, run, running
from .proxy_modes import configure

SERVICES = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers: [{name: web, image: nginx, env: [{name: PASSWORD, value: hidden-value}]}]
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: published}
spec: {type: NodePort, externalTrafficPolicy: Local, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: unready, labels: {app: web, state: unready}}
spec: {containers: [{name: web, image: nginx, readinessProbe: {exec: {command: ["false"]}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: unready}
spec: {selector: {state: unready}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: by-hand}
spec: {ports: [{port: 80}]}
"""
BY_HAND = """
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: by-hand, labels: {{kubernetes.io/service-name: by-hand}}}}
addressType: IPv4
endpoints: [{{addresses: ["{address}"]}}]
ports: [{{port: 80}}]
"""
CONNECTION_REFUSED = 7  # exit code of curl
SERVICE_NAMES = ("web", "published", "unready", "by-hand")


def test_a_recorded_rollout_is_replayed_in_another_lab(tmp_path: Path) -> None:
    recorded, path = Lab("recorded", tmp_path / "recorded"), tmp_path / "rollout.rec"
    try:
        recorded.start("--ephemeral", "--nodes=2", "--no-balancer")
        ns = Namespace(recorded, "default")
        ns.apply(SERVICES)
        configure(recorded, "iptables")
        ns.rolled_out("deployment/web")
        with running(*recorded.argv("record", path), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
            assert recorder.stderr is not None
            assert "until Ctrl-C" in recorder.stderr.readline()
            ns.kubectl("rollout", "restart", "deployment/web")
            ns.rolled_out("deployment/web")
            ns.apply(BY_HAND.format(address=ns.wait_endpoints("web", 2)[0]))
            for service in SERVICE_NAMES:
                ns.programmed(service)
            recorder.terminate()
            summary = recorder.communicate(timeout=PATIENCE)[0]
        wanted = {service: _endpoints(ns, service) for service in SERVICE_NAMES}
        addresses = {service: ns.cluster_ip(service) for service in wanted}
        names = {pod["metadata"]["name"] for pod in ns.pods("app=web,state!=unready")}
    finally:
        recorded.stop()

    assert "States of nodes' kernels" in summary
    assert "Could not look at" not in summary
    assert "hidden-value" not in run("zcat", path).stdout

    replayed = Lab("replayed", tmp_path / "replayed")
    try:
        done = run(*replayed.argv("replay", path, "--speed=max"))
        assert done.returncode == 0, done.stdout + done.stderr
        ns = Namespace(replayed, "default")
        assert "set to mode iptables, as recorded" in done.stdout
        assert {service: ns.cluster_ip(service) for service in wanted} == addresses
        assert {service: _endpoints(ns, service) for service in wanted} == wanted
        for node in ("node1", "node2"):
            assert re.search(rf"^{node}: 5 Frontends, as recorded$", done.stdout, re.M), done.stdout
            assert re.search(rf"^{node}: rules of \d+ destinations in its kernel, as recorded$", done.stdout, re.M)
        assert set(curl_many(replayed, f"http://{addresses['web']}/", 20)) == names
        assert curl(replayed, f"http://{addresses['by-hand']}/").stdout in names
        assert curl(replayed, f"http://{addresses['unready']}/").returncode == CONNECTION_REFUSED

        again = run(*replayed.argv("replay", path))
        assert again.returncode == 1
        assert "--name chooses another lab" in again.stderr
    finally:
        replayed.stop()


def _endpoints(ns: Namespace, service: str) -> Any:
    """Return the endpoints of a Service: pods, conditions and nodes."""
    found = [
        (endpoint.get("targetRef", {}).get("name"), endpoint["conditions"], endpoint.get("nodeName"))
        for each in ns.slices(service)
        for endpoint in each["endpoints"]
    ]
    return sorted(found, key=json.dumps)
