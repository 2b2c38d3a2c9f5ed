"""A pod's status from its spec and what is known of its containers. Pure.

Called by the pod worker whenever something changed; the status writer sends the difference. Source: kubelet's
`getPhase`, `convertToAPIContainerStatuses` and `status/generate.go`: phases, conditions and their words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.objects.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
)
from bridgehead.objects.meta import Condition
from bridgehead.objects.times import format_time, parse_time

from .plan import Run, has_begun, has_failed_init, is_restarted, is_sidecar

CONTAINER_ID_PREFIX = "bridgehead://"
OWN_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


class Waiting(msgspec.Struct, frozen=True):
    """Why a container does not run yet, or not again yet."""

    reason: str
    message: str = ""


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """What the kubelet knows of a pod. The mappings are by container name.

    Addresses are one of each family, the primary one first. `started` and `ready` hold the running containers that
    passed their startup and readiness probes. `verdict` is (reason, message) when the kubelet itself ended the pod, for
    example for its deadline, or did not take it (`is_rejected`).
    """

    host_ips: tuple[str, ...]
    pod_ips: tuple[str, ...] = ()
    has_sandbox: bool = False
    runs: Mapping[str, Run] = {}
    previous: Mapping[str, Run] = {}
    waiting: Mapping[str, Waiting] = {}
    started: frozenset[str] = frozenset()
    ready: frozenset[str] = frozenset()
    is_over: bool = False
    verdict: tuple[str, str] | None = None
    is_rejected: bool = False


def pod_status(pod: Pod, view: PodView, now: float) -> PodStatus:
    """The status to show. What was there before (`pod.status`) gives start time and times of transitions."""
    # Containers that never were have no status, so that `kubectl get` shows the reason of the rejection.
    spec = msgspec.structs.replace(pod.spec, init_containers=(), containers=()) if view.is_rejected else pod.spec
    init_statuses = tuple(_container_status(pod, c, view, is_init=True) for c in spec.init_containers)
    statuses = tuple(_container_status(pod, c, view, is_init=False) for c in spec.containers)
    phase = _phase(pod, view)
    conditions = _conditions(pod, view, phase, statuses)
    return PodStatus(
        phase=phase,
        conditions=_with_times(conditions, pod.status.conditions, now),
        reason=view.verdict[0] if view.verdict else pod.status.reason,
        message=view.verdict[1] if view.verdict else pod.status.message,
        host_ip=view.host_ips[0],
        host_ips=tuple(PodIP(ip=ip) for ip in view.host_ips),
        pod_ip=view.pod_ips[0] if view.pod_ips else pod.status.pod_ip,
        pod_ips=tuple(PodIP(ip=ip) for ip in view.pod_ips) or pod.status.pod_ips,
        start_time=pod.status.start_time or format_time(now),
        init_container_statuses=init_statuses,
        container_statuses=statuses,
        qos_class=pod.status.qos_class,
    )


# --- Containers ------------------------------------------------------------------------------------------


def _container_status(pod: Pod, container: Container, view: PodView, *, is_init: bool) -> ContainerStatus:
    name = container.name
    run, previous = view.runs.get(name), view.previous.get(name)
    waiting = view.waiting.get(name)
    if run is None:
        default = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
        state = _waiting_state(waiting or Waiting(default))
        last = _terminated_state(previous) if previous else ContainerState()
    elif run.is_running:
        state = ContainerState(running=ContainerStateRunning(started_at=_time(run.started_at)))
        last = _terminated_state(previous) if previous else ContainerState()
    elif waiting is not None and not view.is_over:
        state, last = _waiting_state(waiting), _terminated_state(run)
    else:
        state = _terminated_state(run)
        last = _terminated_state(previous) if previous else ContainerState()
    shown = run or previous
    is_started = run is not None and run.is_running and name in view.started
    if is_init and not is_sidecar(container):
        is_ready = run is not None and not run.is_running and run.exit_code == 0
    else:
        is_ready = is_started and name in view.ready
    return ContainerStatus(
        name=name,
        image=container.image,
        image_id=shown.image_id if shown else "",
        container_id=CONTAINER_ID_PREFIX + shown.id if shown and shown.id else "",
        ready=is_ready,
        started=is_started,
        restart_count=shown.attempt if shown else 0,
        state=state,
        last_state=last,
    )


def _waiting_state(waiting: Waiting) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=waiting.reason, message=waiting.message))


def _terminated_state(run: Run) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=run.exit_code,
            signal=run.signal,
            reason=run.reason or ("Completed" if run.exit_code == 0 else "Error"),
            message=run.message,
            started_at=_time(run.started_at),
            finished_at=_time(run.finished_at),
            container_id=CONTAINER_ID_PREFIX + run.id if run.id else "",
        )
    )


def _time(moment: float | None) -> str | None:
    return None if moment is None else format_time(moment)


def known_runs(statuses: Iterable[ContainerStatus], now: float) -> tuple[dict[str, Run], dict[str, Run]]:
    """The newest runs, and the ones before, that a stored status tells of; by container name.

    A container that was running then is taken as lost until the runtime says that it has it.
    """
    runs: dict[str, Run] = {}
    previous: dict[str, Run] = {}
    for status in statuses:
        ended, last = status.state.terminated, status.last_state.terminated
        if status.state.running is not None:
            running = Run(
                attempt=status.restart_count,
                id=status.container_id.removeprefix(CONTAINER_ID_PREFIX),
                image_id=status.image_id,
                started_at=_moment(status.state.running.started_at),
            )
            runs[status.name] = lost(running, now)
        elif ended is not None or last is not None:
            runs[status.name] = _ended_run(status, ended or last or ContainerStateTerminated(), now)
        if last is not None and (ended is not None or status.state.running is not None):
            previous[status.name] = _ended_run(status, last, now)
    return runs, previous


def lost(run: Run, now: float) -> Run:
    """A run whose end nobody saw: it counts as killed, as Kubernetes has it."""
    return msgspec.structs.replace(
        run,
        finished_at=now,
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
    )


def _ended_run(status: ContainerStatus, ended: ContainerStateTerminated, now: float) -> Run:
    return Run(
        attempt=status.restart_count,
        id=ended.container_id.removeprefix(CONTAINER_ID_PREFIX),
        image_id=status.image_id,
        started_at=_moment(ended.started_at),
        finished_at=_moment(ended.finished_at) or now,
        exit_code=ended.exit_code,
        signal=ended.signal,
        reason=ended.reason,
        message=ended.message,
    )


def _moment(text: str | None) -> float | None:
    return parse_time(text) if text else None


# --- Phase and conditions --------------------------------------------------------------------------------


def _phase(pod: Pod, view: PodView) -> str:
    if pod.status.phase in ("Succeeded", "Failed"):
        return pod.status.phase
    spec, runs = pod.spec, view.runs
    if view.verdict is not None and view.is_over:
        return "Failed"
    if has_failed_init(spec, runs):
        return "Failed"
    main = [runs.get(c.name) for c in spec.containers]
    if view.is_over:
        return "Succeeded" if all(r is not None and not r.is_running and r.exit_code == 0 for r in main) else "Failed"
    if any(run is None for run in main):
        return "Pending"
    known = [(c, run) for c, run in zip(spec.containers, main, strict=True) if run is not None]
    if any(run.is_running or is_restarted(spec.restart_policy, c, run) for c, run in known):
        return "Running"
    if any(_is_running_sidecar(c, runs) for c in spec.init_containers):
        return "Running"
    return "Succeeded" if all(run.exit_code == 0 for _, run in known) else "Failed"


def _is_running_sidecar(container: Container, runs: Mapping[str, Run]) -> bool:
    run = runs.get(container.name)
    return is_sidecar(container) and run is not None and run.is_running


def _conditions(pod: Pod, view: PodView, phase: str, statuses: tuple[ContainerStatus, ...]) -> list[Condition]:
    has_sandbox = view.has_sandbox and not view.is_over
    conditions = [
        Condition(type="PodReadyToStartContainers", status=_truth(has_sandbox)),
        _initialized(pod.spec, view, phase),
        _ready(pod, view, phase, statuses),
        _containers_ready("ContainersReady", pod.spec, view, phase, statuses),
    ]
    if not any(c.type == "PodScheduled" for c in pod.status.conditions):
        conditions.append(Condition(type="PodScheduled", status="True"))
    return conditions


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _initialized(spec: PodSpec, view: PodView, phase: str) -> Condition:
    if phase == "Succeeded":
        return Condition(type="Initialized", status="True", reason="PodCompleted")
    incomplete = [c.name for c in spec.init_containers if not _is_through(c, view)]
    if incomplete and not has_begun(spec, view.runs):
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        return Condition(type="Initialized", status="False", reason="ContainersNotInitialized", message=message)
    return Condition(type="Initialized", status="True")


def _is_through(container: Container, view: PodView) -> bool:
    run = view.runs.get(container.name)
    if run is None:
        return False
    if is_sidecar(container):
        return run.is_running and container.name in view.started
    return not run.is_running and run.exit_code == 0


def _containers_ready(
    type: str, spec: PodSpec, view: PodView, phase: str, statuses: tuple[ContainerStatus, ...]
) -> Condition:
    if phase == "Succeeded":
        return Condition(type=type, status="False", reason="PodCompleted")
    if phase == "Failed":
        return Condition(type=type, status="False", reason="PodFailed")
    unready = [
        c.name for c in spec.init_containers if is_sidecar(c) and not (c.name in view.started and c.name in view.ready)
    ]
    unready += [status.name for status in statuses if not status.ready]
    if unready:
        message = f"containers with unready status: [{' '.join(unready)}]"
        return Condition(type=type, status="False", reason="ContainersNotReady", message=message)
    return Condition(type=type, status="True")


def _ready(pod: Pod, view: PodView, phase: str, statuses: tuple[ContainerStatus, ...]) -> Condition:
    containers = _containers_ready("Ready", pod.spec, view, phase, statuses)
    if containers.status != "True":
        return containers
    existing = {c.type: c.status for c in pod.status.conditions}
    messages = []
    for gate in pod.spec.readiness_gates:
        value = existing.get(gate.condition_type)
        if value is None:
            messages.append(f'corresponding condition of pod readiness gate "{gate.condition_type}" does not exist.')
        elif value != "True":
            messages.append(f'the status of pod readiness gate "{gate.condition_type}" is not "True", but {value}')
    if messages:
        return Condition(type="Ready", status="False", reason="ReadinessGatesNotReady", message=", ".join(messages))
    return containers


def _with_times(wanted: list[Condition], existing: tuple[Condition, ...], now: float) -> tuple[Condition, ...]:
    """Give each its lastTransitionTime: the old one as long as the status is the same. Keep foreign conditions."""
    before = {c.type: c for c in existing}
    result = []
    for condition in wanted:
        old = before.pop(condition.type, None)
        since = old.last_transition_time if old is not None and old.status == condition.status else None
        result.append(msgspec.structs.replace(condition, last_transition_time=since or format_time(now)))
    return (*result, *before.values())


# --- The difference ----------------------------------------------------------------------------------------


def status_patch(old: PodStatus, new: PodStatus) -> dict[str, object]:
    """The strategic merge patch of `status` from `old` to `new`; empty when there is nothing to say."""
    before, after = msgspec.to_builtins(old), msgspec.to_builtins(new)
    patch: dict[str, object] = {
        key: _without_nulls(after.get(key))
        for key in sorted(before.keys() | after.keys())
        if key != "conditions" and before.get(key) != after.get(key)
    }
    for field in ("podIPs", "hostIPs"):
        if field in patch:
            patch[field] = _addresses_patch(before.get(field, ()), after.get(field, ()))
    conditions = _conditions_patch(old.conditions, new.conditions)
    if conditions:
        patch["conditions"] = conditions
    return patch


def _addresses_patch(old: Iterable[dict[str, str]], new: Iterable[dict[str, str]]) -> list[dict[str, str]]:
    """Lists of addresses are merged by address: one that is gone must be taken out by name."""
    kept = list(new)
    return [*kept, *({"$patch": "delete", **address} for address in old if address not in kept)]


def _conditions_patch(old: tuple[Condition, ...], new: tuple[Condition, ...]) -> list[dict[str, object]]:
    """Changed conditions only: they are merged by type, so a reason that is gone must be named as null."""
    before = {c.type: msgspec.to_builtins(c) for c in old}
    changed = []
    for condition in new:
        if condition.type not in OWN_CONDITIONS and condition.type in before:
            continue  # somebody else's: the scheduler's, a readiness gate's
        after = msgspec.to_builtins(condition)
        previous = before.get(condition.type, {})
        if after != previous:
            changed.append({**{key: None for key in previous if key not in after}, **after})
    return changed


def _without_nulls(value: object) -> object:
    """Inside a list that is replaced as a whole a null would only be noise."""
    if isinstance(value, list | tuple):
        return [_without_nulls(v) for v in value]
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return value
