"""Planned moves of a load-balancer address in a lab, under a client that connects all the time: lost connections."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .lab import BRIDGEHEAD, call
from .tables import Table

CONNECTIONS = 10_000
_LANES = 4
_CLIENT = Path(__file__).with_name("connecting_client.py")
_SETTLE_SECONDS = 2.0  # after a move, in which a connection could still be lost
_PATIENCE_SECONDS = 120.0


def run() -> list[Table]:
    with tempfile.TemporaryDirectory() as directory:
        lab = _Lab(Path(directory) / "lab")
        call(BRIDGEHEAD, "up", *lab.options, "--detach", "--ephemeral")
        try:
            rows = [*_measure_policy(lab, "Cluster"), *_measure_policy(lab, "Local")]
        finally:
            call(BRIDGEHEAD, "down", *lab.options)
    note = (
        f"Layer 2, 3 nodes. {_LANES} lanes connect, ask and close without pause; a move is repeated until there are"
        f" {CONNECTIONS} connections."
    )
    return [Table("Planned moves", ("what, policy", "moves", "connections", "lost", "over 0.5 s"), rows, note)]


class _Lab:
    def __init__(self, state: Path) -> None:
        self.options = ("--name", "moves", "--state-dir", str(state))
        self._env = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}

    def kubectl(self, *args: str, stdin: str = "") -> str:
        command = ["kubectl", *args]
        return subprocess.run(
            command, input=stdin, env=self._env, text=True, capture_output=True, check=True, timeout=300
        ).stdout

    def get(self, *args: str) -> Any:
        return json.loads(self.kubectl("get", *args, "-o", "json"))

    def holder(self, service: str) -> str:
        """Return the node that announces a Service; "" if none or several do."""
        found = self.get("servicel2statuses", "-n", "metallb-system")["items"]
        nodes = [item["status"]["node"] for item in found if item.get("status", {}).get("serviceName") == service]
        return nodes[0] if len(nodes) == 1 else ""

    @contextlib.contextmanager
    def connecting(self, url: str) -> Iterator[Callable[[str], dict[str, Any]]]:
        """Run the client during the block. The yielded function ends a phase and returns its counts."""
        command = [BRIDGEHEAD, "exec", *self.options, "--", sys.executable, _CLIENT, url, str(_LANES)]
        pipe = subprocess.PIPE
        with subprocess.Popen(list(map(str, command)), stdin=pipe, stdout=pipe, text=True) as client:
            stdin, stdout = client.stdin, client.stdout
            if stdin is None or stdout is None:
                raise RuntimeError("the client has no pipes")

            def end_phase(name: str) -> dict[str, Any]:
                print(name, file=stdin, flush=True)
                counts: dict[str, Any] = json.loads(stdout.readline())
                return counts

            yield end_phase
            stdin.close()


def _measure_policy(lab: _Lab, policy: str) -> Iterator[list[str]]:
    name = policy.lower()
    lab.kubectl("create", "deployment", name, "--image=nginx", "--replicas=6")
    ports = [{"port": 80}]
    spec = {"type": "LoadBalancer", "selector": {"app": name}, "ports": ports, "externalTrafficPolicy": policy}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    lab.kubectl("apply", "-f", "-", stdin=json.dumps(service))
    lab.kubectl("rollout", "status", f"deployment/{name}", "--timeout=120s")
    _until(lambda: lab.holder(name))
    address = lab.get("service", name)["status"]["loadBalancer"]["ingress"][0]["ip"]
    moves: dict[str, Callable[[], None]] = {
        "cordon and uncordon": lambda: _cordon(lab, name),
        "drain and uncordon": lambda: _drain(lab, name),
        "speakers' rollout restart": lambda: _restart(lab, "daemonset/bridgehead-speaker"),
        "controller's rollout restart": lambda: _restart(lab, "deployment/bridgehead-balancer"),
    }
    if policy == "Local":
        moves["last local endpoint removed"] = lambda: _remove_local_endpoints(lab, name)
    with lab.connecting(f"http://{address}/") as end_phase:
        time.sleep(_SETTLE_SECONDS)
        end_phase("warm up")
        for what, move in moves.items():
            yield _measure(what, policy, move, end_phase)


def _measure(what: str, policy: str, move: Callable[[], None], end_phase: Callable[[str], dict[str, Any]]) -> list[str]:
    """Repeat a move until there were enough connections. Return the row of the table."""
    connections = slow = moves = 0
    lost: dict[str, int] = {}
    while connections < CONNECTIONS:
        move()
        time.sleep(_SETTLE_SECONDS)
        counts = end_phase(what)
        moves += 1
        connections += counts["connections"]
        slow += counts["slow"]
        for problem, number in counts["lost"].items():
            lost[problem] = lost.get(problem, 0) + number
    reasons = ", ".join(f"{number} {problem}" for problem, number in lost.items())
    row = [f"{what}, {policy}", str(moves), str(connections), f"{sum(lost.values())} {reasons}".strip(), str(slow)]
    print(*row, file=sys.stderr)
    return row


def _cordon(lab: _Lab, service: str) -> None:
    holder = _until(lambda: lab.holder(service))
    lab.kubectl("cordon", holder)
    _until(lambda: lab.holder(service) not in ("", holder))
    time.sleep(_SETTLE_SECONDS)
    lab.kubectl("uncordon", holder)
    _until(lambda: lab.holder(service))


def _drain(lab: _Lab, service: str) -> None:
    holder = _until(lambda: lab.holder(service))
    lab.kubectl("drain", holder, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
    _until(lambda: lab.holder(service) not in ("", holder))
    time.sleep(_SETTLE_SECONDS)
    lab.kubectl("uncordon", holder)
    lab.kubectl("rollout", "restart", f"deployment/{service}")  # pods on all nodes again
    lab.kubectl("rollout", "status", f"deployment/{service}", "--timeout=120s")


def _restart(lab: _Lab, workload: str) -> None:
    lab.kubectl("-n", "kube-system", "rollout", "restart", workload)
    lab.kubectl("-n", "kube-system", "rollout", "status", workload, "--timeout=120s")


def _remove_local_endpoints(lab: _Lab, service: str) -> None:
    """Delete the holder's pods, which are replaced on the other nodes, as it is cordoned after it has lost them."""
    holder = _until(lambda: lab.holder(service))
    pods = lab.get("pods", "-l", f"app={service}")["items"]
    local = [pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == holder]
    taint = "moves=now:NoSchedule"
    lab.kubectl("taint", "node", holder, taint)
    lab.kubectl("delete", "pod", *local)
    _until(lambda: lab.holder(service) not in ("", holder))
    lab.kubectl("taint", "node", holder, f"{taint}-")
    lab.kubectl("rollout", "restart", f"deployment/{service}")
    lab.kubectl("rollout", "status", f"deployment/{service}", "--timeout=120s")


def _until(what: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not (found := what()):
        if time.monotonic() > deadline:
            raise RuntimeError("the address did not move")
        time.sleep(0.2)
    return found
