"""The columns of `kubectl get pods`.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `printPod`.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridgehead.apiserver.resource import Column, JsonObject
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, NONE, at, human_duration, seconds_of

_TERMINAL_PHASES = ("Succeeded", "Failed")
_NODE_UNREACHABLE = "NodeLost"


@dataclass
class PodSummary:
    """The values of the columns READY, STATUS and RESTARTS."""

    status: str
    ready: int
    total: int
    restarts: int
    last_restart: float | None  # seconds since the epoch


def summarize(pod: JsonObject) -> PodSummary:
    """Summarize containers, init containers and conditions as `kubectl get pods` does."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {c.get("name") for c in spec.get("initContainers", ()) if c.get("restartPolicy") == "Always"}
    conditions = {c.get("type"): c for c in status.get("conditions", ())}
    phase = str(status.get("phase", ""))
    summary = PodSummary(
        status=str(status.get("reason") or phase),
        ready=0,
        total=len(spec.get("containers", ())) + len(sidecars),
        restarts=0,
        last_restart=None,
    )
    if conditions.get("PodScheduled", {}).get("reason") == "SchedulingGated":
        summary.status = "SchedulingGated"
    initializing = _summarize_init_containers(summary, status, len(spec.get("initContainers", ())), sidecars)
    if not initializing or conditions.get("Initialized", {}).get("status") == "True":
        _summarize_containers(summary, status, sidecars, conditions.get("Ready", {}).get("status") == "True")
    if at(pod, "metadata", "deletionTimestamp"):
        if status.get("reason") == _NODE_UNREACHABLE:
            summary.status = "Unknown"
        elif phase not in _TERMINAL_PHASES:
            summary.status = "Terminating"
    return summary


def _summarize_init_containers(summary: PodSummary, status: JsonObject, count: int, sidecars: set[str]) -> bool:
    """Add init containers to the summary; return whether one of them has not finished yet."""
    for index, container in enumerate(status.get("initContainerStatuses", ())):
        _count_restarts(summary, container)
        state = container.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting", {})
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if container.get("name") in sidecars and container.get("started"):
            summary.ready += bool(container.get("ready"))
            continue
        if terminated is not None:
            summary.status = "Init:" + _why_terminated(terminated)
        elif waiting.get("reason") not in (None, "", "PodInitializing"):
            summary.status = f"Init:{waiting['reason']}"
        else:
            summary.status = f"Init:{index}/{count}"
        return True
    return False


def _summarize_containers(summary: PodSummary, status: JsonObject, sidecars: set[str], is_ready: bool) -> None:
    # Once the pod runs, restarts of sidecars still count, but not those of other init containers.
    summary.restarts, summary.last_restart = 0, None
    for container in status.get("initContainerStatuses", ()):
        if container.get("name") in sidecars:
            _count_restarts(summary, container)
    has_running = False
    for container in reversed(status.get("containerStatuses", ())):
        _count_restarts(summary, container)
        state = container.get("state", {})
        if at(state, "waiting", "reason"):
            summary.status = str(state["waiting"]["reason"])
        elif (terminated := state.get("terminated")) is not None:
            summary.status = _why_terminated(terminated)
        elif container.get("ready") and "running" in state:
            has_running = True
            summary.ready += 1
    if summary.status == "Completed" and has_running:
        summary.status = "Running" if is_ready else "NotReady"


def _why_terminated(terminated: JsonObject) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _count_restarts(summary: PodSummary, container: JsonObject) -> None:
    summary.restarts += int(container.get("restartCount", 0))
    finished = seconds_of(at(container, "lastState", "terminated", "finishedAt"))
    if finished is not None and (summary.last_restart is None or finished > summary.last_restart):
        summary.last_restart = finished


def _ready_cell(pod: JsonObject, now: float) -> str:
    summary = summarize(pod)
    return f"{summary.ready}/{summary.total}"


def _status_cell(pod: JsonObject, now: float) -> str:
    return summarize(pod).status


def _restarts_cell(pod: JsonObject, now: float) -> str:
    summary = summarize(pod)
    if summary.restarts and summary.last_restart is not None:
        return f"{summary.restarts} ({human_duration(now - summary.last_restart)} ago)"
    return str(summary.restarts)


def _ip_cell(pod: JsonObject, now: float) -> str:
    addresses = at(pod, "status", "podIPs") or ()
    first = addresses[0].get("ip") if addresses else at(pod, "status", "podIP")
    return str(first or NONE)


def _readiness_gates_cell(pod: JsonObject, now: float) -> str:
    gates = at(pod, "spec", "readinessGates") or ()
    if not gates:
        return NONE
    true = {c.get("type") for c in at(pod, "status", "conditions") or () if c.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


POD_COLUMNS = (
    NAME,
    Column("Ready", _ready_cell, description="The aggregate readiness state of this pod for accepting traffic."),
    Column("Status", _status_cell, description="The aggregate status of the containers in this pod."),
    Column(
        "Restarts",
        _restarts_cell,
        description="The number of times the containers in this pod have been restarted and when the last container "
        "in this pod has restarted.",
    ),
    AGE,
    Column("IP", _ip_cell, priority=1),
    Column("Node", lambda pod, now: str(at(pod, "spec", "nodeName") or NONE), priority=1),
    Column("Nominated Node", lambda pod, now: str(at(pod, "status", "nominatedNodeName") or NONE), priority=1),
    Column("Readiness Gates", _readiness_gates_cell, priority=1),
)
