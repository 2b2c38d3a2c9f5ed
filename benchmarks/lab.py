"""Time until a lab is up, until a Deployment of 100 pods is ready, and the memory of an idle lab."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from bridgehead.lab.plan import LabFiles, RunningLab

BRIDGEHEAD = Path(sys.executable).with_name("bridgehead")
RUNS = 3
PODS = 100
SETTLE_SECONDS = 10


def run() -> list[tuple[str, str]]:
    starts, rollouts, weights = [], [], []
    for _ in range(RUNS):
        with tempfile.TemporaryDirectory() as directory:
            state = Path(directory) / "lab"
            lab = ("--name", "bench", "--state-dir", str(state))
            began = time.monotonic()
            call(BRIDGEHEAD, "up", *lab, "--detach", "--ephemeral", "--offline")
            starts.append(time.monotonic() - began)
            try:
                time.sleep(SETTLE_SECONDS)
                weights.append(weigh(state))
                rollouts.append(time_rollout(state))
            finally:
                call(BRIDGEHEAD, "down", *lab)
    return [
        ("`bridgehead up` to ready, 3 nodes", seconds(starts)),
        (f"`kubectl create deployment --replicas={PODS}` to all Ready, 3 nodes", seconds(rollouts)),
        ("memory (PSS) of an idle 3-node lab", f"{statistics.median(weights):.0f} MiB (of {len(weights)} runs)"),
    ]


def time_rollout(state: Path) -> float:
    env = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    began = time.monotonic()
    call("kubectl", "create", "deployment", "many", "--image=nginx", f"--replicas={PODS}", env=env)
    call("kubectl", "rollout", "status", "deployment/many", "--timeout=300s", env=env)
    return time.monotonic() - began


def weigh(state: Path) -> float:
    """MiB of all processes in the lab's PID namespace, shared pages counted once."""
    init = msgspec.json.decode(LabFiles(state).running.read_bytes(), type=RunningLab).init_pid
    members = [init]
    for pid in members:
        for task in Path(f"/proc/{pid}/task").iterdir():
            members += [int(child) for child in (task / "children").read_text().split()]
    total = 0
    for pid in members:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def call(*argv: object, env: dict[str, str] | None = None) -> None:
    result = subprocess.run([str(word) for word in argv], env=env, capture_output=True, text=True, timeout=600)
    if result.returncode:
        raise RuntimeError(f"{argv}: {result.stderr}")


def seconds(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} s (median of {len(values)}, {min(values):.2f} to {max(values):.2f})"
