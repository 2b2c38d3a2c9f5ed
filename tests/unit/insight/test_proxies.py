"""The states of the nodes' proxies, as `bridgehead status` shows them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.insight.proxies import ProxyState, proxy_states
from bridgehead.objects.coordination import Lease
from bridgehead.objects.core import Pod
from bridgehead.objects.progress import ModeInUse, Versions, new_lease

NFTABLES = ModeInUse("nftables", "nftables")
WHY = "mode iptables cannot be used on this node: install the package iptables; services are served in mode nftables"


def lease(mode: ModeInUse) -> Lease:
    return msgspec.convert(new_lease("node1", Versions(), 0.0, None, mode=mode), Lease)


def pod(*, ready: bool = True, terminating: bool = False, status: dict[str, Any] | None = None) -> Pod:
    metadata = {"name": "kube-proxy-x", "namespace": "kube-system", "labels": {"k8s-app": "kube-proxy"}}
    if terminating:
        metadata["deletionTimestamp"] = "2026-11-21T02:35:22Z"
    conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
    statuses = [{"name": "kube-proxy", **status}] if status else []
    return msgspec.convert(
        {
            "metadata": metadata,
            "spec": {"nodeName": "node1", "containers": []},
            "status": {"conditions": conditions, "containerStatuses": statuses},
        },
        Pod,
    )


def waiting(reason: str, message: str = "", last: str = "") -> dict[str, Any]:
    ended = {"terminated": {"exitCode": 1, "reason": "Error", "message": last}} if last else {}
    return {"state": {"waiting": {"reason": reason, "message": message}}, "lastState": ended}


@pytest.mark.parametrize(
    ("pods", "mode", "state"),
    [
        ([pod()], NFTABLES, ProxyState("nftables")),
        ([pod()], None, ProxyState("-")),
        ([pod()], ModeInUse("nftables", "iptables", WHY), ProxyState("nftables, not iptables", f"warns: {WHY}")),
        (
            [pod()],
            ModeInUse("iptables", "iptables", "no IPv6"),
            ProxyState("iptables", "warns: no IPv6"),
        ),
        (
            [pod()],
            ModeInUse("nftables", "a\x1b[1mb", "c\nd"),
            ProxyState("nftables, not a?[1mb", "warns: c?d"),
        ),
        ([], NFTABLES, ProxyState("nftables, not running", "does not run: there is no pod of it")),
        ([pod(ready=False)], NFTABLES, ProxyState("nftables, not running", "does not run: its pod is not ready")),
        (
            [
                pod(
                    ready=False,
                    status=waiting("CrashLoopBackOff", "back-off 10s", "a line\nbridgehead proxy: x: not YAML\n"),
                )
            ],
            None,
            ProxyState("-, not running", "does not run: CrashLoopBackOff: bridgehead proxy: x: not YAML"),
        ),
        (
            [pod(ready=False, status=waiting("ErrImagePull", "no such image"))],
            NFTABLES,
            ProxyState("nftables, not running", "does not run: ErrImagePull: no such image"),
        ),
        (
            [pod(ready=False, status={"state": {"terminated": {"exitCode": 1, "reason": "Error"}}})],
            NFTABLES,
            ProxyState("nftables, not running", "does not run: Error"),
        ),
        (
            [pod(ready=False, status={"state": {"running": {}}, "lastState": waiting("", last="x")["lastState"]})],
            NFTABLES,
            ProxyState("nftables, not running", "does not run: its pod is not ready"),
        ),
        ([pod(), pod(ready=False, terminating=True)], NFTABLES, ProxyState("nftables")),
        ([pod(ready=False, terminating=True), pod()], NFTABLES, ProxyState("nftables")),
    ],
)
def test_the_state_of_a_nodes_proxy(pods: list[Pod], mode: ModeInUse | None, state: ProxyState) -> None:
    assert proxy_states(["node1"], pods, [lease(mode)] if mode else []) == {"node1": state}
