"""W49: `bridgehead doctor` names the cause for which a Service does not work, and the command that repairs it."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Lab, Namespace, eventually, run

BROKEN = """
apiVersion: v1
kind: Pod
metadata: {name: page, labels: {app: page}}
spec: {containers: [{name: page, image: nginx, ports: [{name: http, containerPort: 80}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: inner, labels: {app: inner}}
spec: {containers: [{name: inner, image: busybox, command: [httpd, -f, -p, "127.0.0.1:8000"]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: large, labels: {app: large}}
spec: {containers: [{name: large, image: nginx, resources: {requests: {cpu: "900"}}}]}
---
apiVersion: v1
kind: Service
metadata: {name: page}
spec: {selector: {app: page}, ports: [{port: 80, targetPort: http}]}
---
apiVersion: v1
kind: Service
metadata: {name: other-port}
spec: {selector: {app: page}, ports: [{port: 80, targetPort: 8080}]}
---
apiVersion: v1
kind: Service
metadata: {name: other-name}
spec: {selector: {app: page}, ports: [{port: 80, targetPort: htpp}]}
---
apiVersion: v1
kind: Service
metadata: {name: inner}
spec: {selector: {app: inner}, ports: [{port: 8000}]}
---
apiVersion: v1
kind: Service
metadata: {name: large}
spec: {selector: {app: large}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: empty}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: alias}
spec: {type: ExternalName, externalName: nothing.default.svc.cluster.local}
"""
CAUSES = {
    "page": "",
    "other-port": "NothingListens",
    "other-name": "TargetPortNameMissing",
    "inner": "ListensOnLoopbackOnly",
    "large": "PodUnschedulable",
    "empty": "NoSelectorNoEndpoints",
    "alias": "ExternalNameToNothing",
}


def test_w49_a_selector_with_a_typing_error(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("create", "deployment", "web", "--image=nginx")
    ns.kubectl("create", "service", "clusterip", "web", "--tcp=80")
    ns.kubectl("patch", "service", "web", "-p", '{"spec":{"selector":{"app":"wbe"}}}')
    ns.rolled_out("deployment/web")
    result = lab.command("doctor", "-n", ns.name, "service/web")
    assert result.returncode == 1, result
    assert "SelectorMisspelled" in result.stdout
    assert "app (web, not wbe)" in result.stdout
    [fix] = re.findall(r"^  Fix: (kubectl .*)$", result.stdout, re.MULTILINE)
    assert run("sh", "-c", fix, env=lab.env).returncode == 0
    ns.wait_endpoints("web", 1)
    result = lab.command("doctor", "-n", ns.name, "svc", "web")
    assert (result.returncode, result.stdout, result.stderr) == (0, f"service/{ns.name}/web is healthy.\n", "")


@pytest.mark.needs("busybox")
def test_the_cause_of_each_service(lab: Lab, ns: Namespace) -> None:
    ns.apply(BROKEN)
    ns.ready("page", "inner")

    def found() -> dict[str, str]:
        result = lab.command("doctor", "-n", ns.name, "-o", "json")
        assert result.returncode == 1, result
        services = json.loads(result.stdout)["services"]
        return {name.partition("/")[2]: cause for name, cause in services.items() if name.startswith(f"{ns.name}/")}

    eventually(lambda: found() == CAUSES, message="doctor does not name the causes")
