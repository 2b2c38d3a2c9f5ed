"""W9: a client keeps its pod for as long as `sessionAffinity: ClientIP` says."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Lab, Namespace, curl_many, eventually

POD_TEST = "registry.cn-beijing.aliyuncs.com/wangxiaochun/pod-test:v0.1"
SERVER = re.compile(r"ServerName: (\S+),")


def sticky_service(timeout_seconds: int) -> str:
    spec = {
        "selector": {"app": "myweb"},
        "ports": [{"port": 80}],
        "sessionAffinity": "ClientIP",
        "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": timeout_seconds}},
    }
    return json.dumps({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "myweb"}, "spec": spec})


def test_w9_session_affinity(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("create", "deployment", "myweb", f"--image={POD_TEST}", "--replicas=3")
    ns.rolled_out("deployment/myweb")
    ns.apply(sticky_service(2))
    ns.wait_endpoints("myweb", 3)
    address = ns.cluster_ip("myweb")
    assert re.search(r"Session Affinity: +ClientIP", ns.kubectl("describe", "service", "myweb"))

    def is_programmed() -> bool:
        return lab.inside("curl", "-sS", "-m", "5", f"http://{address}/", node="node1").returncode == 0

    eventually(is_programmed)

    def servers() -> set[str]:
        found = {SERVER.search(line) for line in curl_many(lab, f"http://{address}/", 4, node="node1")}
        return {match.group(1) for match in found if match}

    def remembers() -> bool:
        """Whether the node's kernel still knows the client that asked (the node itself)."""
        return "expires" in lab.inside("nft", "list", "table", "ip", "bridgehead", node="node1").stdout

    seen = set()
    for _ in range(12):  # three pods: never another one after a timeout has a chance of 3 in a million
        group = servers()
        assert len(group) == 1, "the same pod within each group"
        seen |= group
        if len(seen) > 1:
            break
        eventually(lambda: not remembers(), message="the client is never forgotten")
    assert len(seen) > 1, "another pod may be chosen after the timeout"


@pytest.mark.parametrize("seconds", [0, 86401])
def test_w9_timeouts_out_of_range_are_refused(ns: Namespace, seconds: int) -> None:
    message = ns.refused(sticky_service(seconds))
    assert "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value" in message, message
    assert "must be greater than 0 and less than 86400" in message, message
    status = ns.try_kubectl("create", "-f", "-", "-v=6", stdin=sticky_service(seconds)).stderr
    assert "422 Unprocessable Entity" in status, status
