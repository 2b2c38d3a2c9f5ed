"""A pod's status, computed from its spec and the state of its containers.

Pure: no I/O, no clock, no randomness. Called by the pod worker after every change; the status manager sends the
difference. Source: kubelet's `getPhase`, `convertToAPIContainerStatuses` and `status/generate.go` (phases, conditions
and their texts).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.kubelet.containers.runs import CONTAINER_ID_PREFIX, Run, Waiting
from bridgehead.objects.core import (
    Container,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    ContainerUser,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    VolumeMount,
    VolumeMountStatus,
)
from bridgehead.objects.meta import Condition, find_condition
from bridgehead.objects.times import format_time

from .resize_plan import WHOLE
from .starts_and_restarts import has_begun, has_failed_init, is_restarted, may_restart_all, restarting_all
from .status_patch import ALL_RESTARTING, RESIZE_CONDITIONS

# Reasons of pods that their node ends: for their use of local storage, and for a critical pod.
EVICTED, PREEMPTED = "Evicted", "Preempting"
# Reasons of conditions of a pod that has ended, by its phase.
_END_REASONS = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}


class PodView(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a pod as the kubelet knows it. Mappings are by container name.

    Addresses are one of each family, the primary one first. `started` and `ready` hold the running containers that have
    passed their startup and readiness probes. `is_over`: no container runs or will run again. `failure` is (reason,
    message) when the kubelet itself ended the pod, for example at its deadline, or rejected it (`is_rejected`).
    `resources` are those that containers have, `allocated` those that they get by the end of a resize, about which
    `resize_conditions` are; those of the pod as a whole are beside them, as in `resize_plan`.
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
    failure: tuple[str, str] | None = None
    is_rejected: bool = False
    resources: Mapping[str, ResourceRequirements] = {}
    allocated: Mapping[str, ResourceRequirements] = {}
    resize_conditions: tuple[Condition, ...] = ()


def pod_status(pod: Pod, view: PodView, now: float) -> PodStatus:
    """Return the status at `now`. The previous status (`pod.status`) provides the start time and transition times."""
    # Containers of a rejected pod have no status, so that `kubectl get` shows the reason of the rejection; also after a
    # restart of the kubelet, which sees only that the pod has failed.
    is_rejected = view.is_rejected or (
        pod.status.phase == "Failed" and not pod.status.container_statuses and not view.runs
    )
    spec = (
        msgspec.structs.replace(pod.spec, init_containers=(), containers=(), ephemeral_containers=())
        if is_rejected
        else pod.spec
    )
    init_statuses = tuple(_container_status(pod, c, view, is_init=True) for c in spec.init_containers)
    statuses = _by_name(_container_status(pod, c, view, is_init=False) for c in spec.containers)
    phase = _phase(pod, view)
    generation = pod.metadata.generation or None
    conditions = [
        msgspec.structs.replace(condition, observed_generation=generation)
        for condition in (*_conditions(pod, view, phase, statuses), *_disruption(view), *view.resize_conditions)
    ]
    # A failure is published when the pod's containers have ended. Source: kubelet's `mergePodStatus`.
    failure = view.failure if phase == "Failed" else None
    return PodStatus(
        phase=phase,
        conditions=_with_times(conditions, pod.status.conditions, now),
        reason=failure[0] if failure else pod.status.reason,
        message=failure[1] if failure else pod.status.message,
        host_ip=view.host_ips[0],
        host_ips=tuple(PodIP(ip=ip) for ip in view.host_ips),
        pod_ip=view.pod_ips[0] if view.pod_ips else pod.status.pod_ip,
        pod_ips=tuple(PodIP(ip=ip) for ip in view.pod_ips) or pod.status.pod_ips,
        start_time=pod.status.start_time or format_time(now),
        init_container_statuses=init_statuses,
        container_statuses=statuses,
        ephemeral_container_statuses=_by_name(_ephemeral_status(pod, c, view) for c in spec.ephemeral_containers),
        observed_generation=generation,
        qos_class=pod.status.qos_class,
        nominated_node_name=pod.status.nominated_node_name,
        resources=view.resources.get(WHOLE),
        allocated_resources=view.allocated[WHOLE].requests or None if WHOLE in view.allocated else None,
    )


def _disruption(view: PodView) -> tuple[Condition, ...]:
    """The condition of a pod that its node ends, which a Job's failure policy may ignore."""
    if view.failure is None or view.failure[0] not in (EVICTED, PREEMPTED):
        return ()
    reason, message = view.failure
    if reason == PREEMPTED:
        message = "Pod was preempted by Kubelet to accommodate a critical pod."
    return (Condition(type="DisruptionTarget", status="True", reason="TerminationByKubelet", message=message),)


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
    if is_init and not container.is_sidecar:
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
        resources=view.resources.get(name) if shown else None,
        allocated_resources=(view.allocated[name].requests or None) if shown and name in view.allocated else None,
        volume_mounts=tuple(map(_mount_status, container.volume_mounts)) or None,
        user=ContainerUser(linux=shown.user) if shown and shown.user else None,
    )


def _mount_status(mount: VolumeMount) -> VolumeMountStatus:
    # This runtime makes a read-only mount and all below it read-only, whatever is asked for.
    mode = "Disabled" if mount.recursive_read_only == "Disabled" else "Enabled"
    return VolumeMountStatus(
        name=mount.name,
        mount_path=mount.mount_path,
        read_only=mount.read_only,
        recursive_read_only=mode if mount.read_only else None,
    )


def _by_name(statuses: Iterable[ContainerStatus]) -> tuple[ContainerStatus, ...]:
    """Sort statuses as kubelets do; those of init containers keep the order of the spec."""
    return tuple(sorted(statuses, key=lambda status: status.name))


def _ephemeral_status(pod: Pod, container: Container, view: PodView) -> ContainerStatus:
    """Return the status of a container that is never ready and never restarted."""
    status = _container_status(pod, container, view, is_init=False)
    return msgspec.structs.replace(status, ready=False, started=None)


def _waiting_state(waiting: Waiting) -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=waiting.reason, message=waiting.message))


def _terminated_state(run: Run) -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=run.exit_code,
            reason=run.reason or ("Completed" if run.exit_code == 0 else "Error"),
            message=run.message,
            started_at=_time(run.started_at),
            finished_at=_time(run.finished_at),
            container_id=CONTAINER_ID_PREFIX + run.id if run.id else "",
        )
    )


def _time(moment: float | None) -> str | None:
    return None if moment is None else format_time(moment)


# --- Phase and conditions --------------------------------------------------------------------------------


def _phase(pod: Pod, view: PodView) -> str:
    if pod.status.phase in ("Succeeded", "Failed"):
        return pod.status.phase
    spec, runs = pod.spec, view.runs
    if view.failure is not None and view.is_over:
        return "Failed"
    if has_failed_init(spec, runs):
        return "Failed"
    main = [runs.get(c.name) for c in spec.containers]
    if view.is_over:
        return "Succeeded" if all(r is not None and not r.is_running and r.exit_code == 0 for r in main) else "Failed"
    if any(run is None and c.name not in view.previous for c, run in zip(spec.containers, main, strict=True)):
        return "Pending"
    if None in main:
        return "Running"  # all containers are being restarted
    known = [(c, run) for c, run in zip(spec.containers, main, strict=True) if run is not None]
    if any(run.is_running or is_restarted(spec.restart_policy, c, run) for c, run in known):
        return "Running"
    if any(_is_running_sidecar(c, runs) for c in spec.init_containers):
        return "Running"
    return "Succeeded" if all(run.exit_code == 0 for _, run in known) else "Failed"


def _is_running_sidecar(container: Container, runs: Mapping[str, Run]) -> bool:
    run = runs.get(container.name)
    return container.is_sidecar and run is not None and run.is_running


def _conditions(pod: Pod, view: PodView, phase: str, statuses: tuple[ContainerStatus, ...]) -> list[Condition]:
    has_sandbox = view.has_sandbox and not view.is_over
    conditions = [
        Condition(type="PodReadyToStartContainers", status=_truth(has_sandbox)),
        _initialized(pod.spec, view, phase),
        _ready(pod, view, phase, statuses),
        _containers_ready("ContainersReady", pod.spec, view, phase, statuses),
    ]
    if find_condition(pod.status.conditions, "PodScheduled") is None:
        conditions.append(Condition(type="PodScheduled", status="True"))
    if may_restart_all(pod.spec):
        conditions.append(_all_restarting(pod.spec, view, phase))
    return conditions


def _all_restarting(spec: PodSpec, view: PodView, phase: str) -> Condition:
    """True from the exit that restarts all containers until they have ended. Source: KEP-5532."""
    if phase in _END_REASONS:
        return Condition(type=ALL_RESTARTING, status="False", reason=_END_REASONS[phase])
    if not restarting_all(spec, view.runs):
        return Condition(type=ALL_RESTARTING, status="False")
    message = "container exited with restart policy rule"
    return Condition(type=ALL_RESTARTING, status="True", reason="RestartAllContainersStarted", message=message)


def _truth(value: bool) -> str:
    return "True" if value else "False"


def _initialized(spec: PodSpec, view: PodView, phase: str) -> Condition:
    if phase == "Succeeded":
        return Condition(type="Initialized", status="True", reason="PodCompleted")
    incomplete = [c.name for c in spec.init_containers if not _has_initialized(c, view)]
    if incomplete and not has_begun(spec, view.runs):
        message = f"containers with incomplete status: [{' '.join(incomplete)}]"
        return Condition(type="Initialized", status="False", reason="ContainersNotInitialized", message=message)
    return Condition(type="Initialized", status="True")


def _has_initialized(container: Container, view: PodView) -> bool:
    run = view.runs.get(container.name)
    if run is None:
        return False
    if container.is_sidecar:
        return run.is_running and container.name in view.started
    return not run.is_running and run.exit_code == 0


def _containers_ready(
    type: str, spec: PodSpec, view: PodView, phase: str, statuses: tuple[ContainerStatus, ...]
) -> Condition:
    if phase in _END_REASONS:
        return Condition(type=type, status="False", reason=_END_REASONS[phase])
    unready = [
        c.name for c in spec.init_containers if c.is_sidecar and not (c.name in view.started and c.name in view.ready)
    ]
    ready = {status.name for status in statuses if status.ready}
    unready += [c.name for c in spec.containers if c.name not in ready]
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
    """Fill in each lastTransitionTime: the old one if the status is unchanged. Conditions of other writers are kept."""
    # A condition of a resize goes with the resize.
    before = {c.type: c for c in existing if c.type not in RESIZE_CONDITIONS}
    resizing = {c.type: c for c in existing if c.type in RESIZE_CONDITIONS}
    result = []
    for condition in wanted:
        old = before.pop(condition.type, None) or resizing.get(condition.type)
        since = old.last_transition_time if old is not None and old.status == condition.status else None
        result.append(msgspec.structs.replace(condition, last_transition_time=since or format_time(now)))
    return (*result, *before.values())
