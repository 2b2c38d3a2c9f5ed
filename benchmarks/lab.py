"""Time until a lab is up, until a Deployment of 100 pods is ready, and the memory of an idle lab."""

from __future__ import annotations

import contextlib
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
    rows = []
    for title, option in (("3 nodes", "--balancer"), ("3 nodes, without the load balancer", "--no-balancer")):
        starts, rollouts, weights = [], [], []
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory() as directory:
                state = Path(directory) / "lab"
                lab = ("--name", "bench", "--state-dir", str(state))
                began = time.monotonic()
                call(BRIDGEHEAD, "up", *lab, "--detach", "--ephemeral", "--offline", option)
                starts.append(time.monotonic() - began)
                try:
                    time.sleep(SETTLE_SECONDS)
                    weights.append(weigh(state))
                    if option == "--balancer":
                        rollouts.append(time_rollout(state))
                finally:
                    call(BRIDGEHEAD, "down", *lab)
        rows.append((f"`bridgehead up` to ready, {title}", seconds(starts)))
        if rollouts:
            rows.append((f"`kubectl create deployment --replicas={PODS}` to all Ready, {title}", seconds(rollouts)))
        median = f"{statistics.median(weights):.0f} MiB (of {len(weights)} runs)"
        rows.append((f"memory (PSS) of an idle lab, {title}", median))
    return rows


def time_rollout(state: Path, pods: int = PODS) -> float:
    env = {**os.environ, "KUBECONFIG": str(state / "kubeconfig")}
    began = time.monotonic()
    call("kubectl", "create", "deployment", "many", "--image=nginx", f"--replicas={pods}", env=env)
    call("kubectl", "rollout", "status", "deployment/many", "--timeout=300s", env=env)
    return time.monotonic() - began


def members(state: Path) -> list[int]:
    """The processes in the lab's PID namespace, and the puller beside it."""
    found = [msgspec.json.decode(LabFiles(state).running.read_bytes(), type=RunningLab).init_pid]
    for pid in found:
        with contextlib.suppress(OSError):  # it has ended
            for task in Path(f"/proc/{pid}/task").iterdir():
                found += [int(child) for child in (task / "children").read_text().split()]
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "cwd").samefile(LabFiles(state).content):
                found.append(int(process.name))
    return found


def processor_seconds(state: Path) -> float:
    """Processor time of the lab's processes since its start, with that of children that have ended."""
    total = 0
    for pid in members(state):
        with contextlib.suppress(OSError):
            total += ticks_in(Path(f"/proc/{pid}/stat").read_text())
    return total / os.sysconf("SC_CLK_TCK")


def ticks_in(stat: str) -> int:
    """The clock ticks in the text of /proc/PID/stat: utime, stime, cutime and cstime."""
    return sum(map(int, stat.rpartition(")")[2].split()[11:15]))


def weigh(state: Path) -> float:
    """MiB of the lab's processes, shared pages counted once."""
    total = 0
    for pid in members(state):
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
