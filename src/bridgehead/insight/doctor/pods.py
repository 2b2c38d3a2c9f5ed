"""Causes for which the pods of a Service get no connections: each pod's own problem, the most frequent one first.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "Pod Lifecycle", reasons of kubelet and scheduler.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bridgehead.insight.facts.network_state import Section
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.core import Container, ContainerStatus, Pod, Probe
from bridgehead.objects.meta import find_condition, is_condition_true

from .subjects import Facts, ServiceView, kubectl, workload_of

_IMAGE_REASONS = frozenset(
    (
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    )
)
_START_REASONS = frozenset(
    ("CreateContainerError", "RunContainerError", "StartError", "PreStartHookError", "PostStartHookError")
)
_MOUNT_EVENTS = ("FailedMount", "FailedAttachVolume", "FailedMapVolume")
_SANDBOX_EVENTS = ("FailedCreatePodSandBox", "NetworkNotReady", "FailedPodSandBoxStatus")
_SETTLED_SECONDS = 60.0  # after which a pod beside ready ones is worth a notice


class PodProblem(NamedTuple):
    """The reason why a pod gets no connections. `text`: goes on after the pod's name. `fix`: as of `Finding`."""

    cause: str
    text: str
    fix: str = ""
    evidence: tuple[str, ...] = ()


def check_pods(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield why the selected pods get no connections: broken without a ready pod, else notices."""
    if view.is_external_name or not view.sees_pods or not view.pods:
        return
    problems: dict[str, list[tuple[Pod, PodProblem]]] = {}
    is_broken = not view.ready_pods
    for pod in view.pods:
        if pod.is_ready and not pod.is_terminating and not pod.is_finished:
            continue
        if not is_broken and (pod.is_finished or pod.is_terminating or _is_young(pod, facts)):
            continue
        problem = explain_pod(pod, facts)
        problems.setdefault(problem.cause, []).append((pod, problem))
    if is_broken and len(problems) > 1:  # old pods are no cause while new ones are there
        problems = {cause: found for cause, found in problems.items() if cause not in _OF_OLD_PODS} or problems
    is_draining = is_broken and any(endpoint.conditions.is_draining for endpoint in view.endpoints)
    severity = Severity.DEGRADED if is_draining else Severity.BROKEN if is_broken else Severity.NOTICE
    ranked = sorted(problems.values(), key=len, reverse=True)
    for found in ranked if not is_broken else ranked[:1]:
        pod, problem = found[0]
        others = (
            [f"{each.cause}: {len(pods)} pods" for pods in ranked[1:] for each in (pods[0][1],)] if is_broken else []
        )
        all_pods = len(view.pods)
        none = f"None of {all_pods} pods is ready" if all_pods > 1 else "The only pod is not ready"
        count = none if is_broken else f"{len(found)} of {all_pods} pods fail"
        yield view.finding(
            problem.cause,
            f"{count}: pod {pod.metadata.name} {problem.text}",
            fix=problem.fix,
            evidence=[
                *problem.evidence,
                *(f"pod {other.metadata.name} {its.text}" for other, its in found[1:4]),
                *others,
            ],
            severity=severity,
        )


_OF_OLD_PODS = frozenset(("PodsTerminating", "PodsFinished"))


def _is_young(pod: Pod, facts: Facts) -> bool:
    ready = find_condition(pod.status.conditions, "Ready")
    since = ready.last_transition_time if ready is not None else pod.metadata.creation_timestamp
    return facts.age_of(since) < _SETTLED_SECONDS


def explain_pod(pod: Pod, facts: Facts) -> PodProblem:
    """Return why a pod that is not ready gets no connections."""
    namespace, name = pod.metadata.namespace, pod.metadata.name
    if pod.is_finished:
        what = pod.status.reason or pod.status.phase
        text = f"has ended ({what})" + (f": {pod.status.message}" if pod.status.message else "")
        return PodProblem("PodsFinished", text, kubectl(namespace, "delete", "pod", name))
    if pod.is_terminating:
        return PodProblem(
            "PodsTerminating",
            "is being deleted, and no other pod has taken its place",
            kubectl(namespace, "get", "pods", "-o", "wide"),
            (f"deleted at {pod.metadata.deletion_timestamp}",),
        )
    return (
        _unscheduled(pod, facts)
        or _on_lost_node(pod, facts)
        or _failing_container(pod, facts)
        or _not_started(pod, facts)
        or _unready(pod, facts)
        or PodProblem(
            "PodsNotReady",
            f"is not ready{_condition_text(pod, 'Ready')}",
            kubectl(namespace, "describe", "pod", name),
        )
    )


def _unscheduled(pod: Pod, facts: Facts) -> PodProblem | None:
    if pod.spec.node_name:
        return None
    condition = find_condition(pod.status.conditions, "PodScheduled")
    describe = kubectl(pod.metadata.namespace, "describe", "pod", pod.metadata.name)
    if pod.spec.scheduling_gates:
        gates = ", ".join(gate.get("name", "") for gate in pod.spec.scheduling_gates)
        return PodProblem("PodSchedulingGated", f"waits for its scheduling gates: {gates}", describe)
    if condition is not None and condition.status == "False":
        return PodProblem("PodUnschedulable", f"fits on no node: {condition.message or condition.reason}", describe)
    events = facts.events_of("Pod", pod.key, "FailedScheduling", uid=pod.metadata.uid)
    if events:
        return PodProblem("PodUnschedulable", f"fits on no node: {events[0].message}", describe)
    if facts.age_of(pod.metadata.creation_timestamp) > 30:
        text = f"has no node yet, and the scheduler {pod.spec.scheduler_name} gives no reason"
        return PodProblem("SchedulerNotRunning", text, f"start the scheduler {pod.spec.scheduler_name}")
    return PodProblem("PodsStarting", "waits for a node", _wait(pod, facts))


def _on_lost_node(pod: Pod, facts: Facts) -> PodProblem | None:
    cluster = facts.cluster
    if not cluster.has_seen("nodes") or not cluster.nodes:
        return None
    node = cluster.nodes.get(pod.spec.node_name)
    if node is None:
        return PodProblem(
            "NodeGone",
            f"is on node {pod.spec.node_name}, which does not exist",
            kubectl(pod.metadata.namespace, "delete", "pod", pod.metadata.name, "--force"),
        )
    if node.is_ready:
        return None
    condition = find_condition(node.status.conditions, "Ready")
    why = f" ({condition.message})" if condition is not None and condition.message else ""
    return PodProblem(
        "NodeNotReady",
        f"is on node {pod.spec.node_name}, which is not ready{why}",
        kubectl("", "describe", "node", pod.spec.node_name),
    )


def _failing_container(pod: Pod, facts: Facts) -> PodProblem | None:
    inits = [(status, True) for status in pod.status.init_container_statuses]
    for status, is_init in [*inits, *((status, False) for status in pod.status.container_statuses)]:
        waiting, now = status.state.waiting, status.state.terminated
        reason, message = (waiting.reason, waiting.message) if waiting is not None else ("", "")
        name = status.name
        if reason in _IMAGE_REASONS:
            return PodProblem(
                "ImagePullFailing",
                f"cannot pull the image {status.image or _image_of(pod, name)} of container {name} ({reason})",
                kubectl(pod.metadata.namespace, "set", "image", workload_of(pod, facts), f"{name}=IMAGE"),
                (message,) if message else (),
            )
        if reason == "CreateContainerConfigError":
            return PodProblem(
                "ContainerConfigInvalid",
                f"cannot create container {name}: {message}",
                kubectl(pod.metadata.namespace, "get", "configmaps,secrets"),
            )
        if reason in _START_REASONS:
            return PodProblem(
                "ContainerNotStarting", f"cannot start container {name}: {reason}: {message}", _edit(pod, facts)
            )
        has_failed = now is not None and (now.exit_code != 0 or not is_init)
        if reason == "CrashLoopBackOff" or (has_failed and not (is_init and status.ready)):
            return _crashing(pod, facts, status, is_init)
        if is_init and not status.ready and status.state.running is not None and not _is_sidecar(pod, name):
            if facts.age_of(status.state.running.started_at) > 30:
                text = f"waits for its init container {name}, which runs since {status.state.running.started_at}"
                return PodProblem("InitContainerNotDone", text, _logs(pod, name))
            return PodProblem("PodsStarting", f"waits for its init container {name}", _wait(pod, facts))
    return None


def _crashing(pod: Pod, facts: Facts, status: ContainerStatus, is_init: bool) -> PodProblem:
    terminated = status.state.terminated or status.last_state.terminated
    name = status.name
    code = terminated.exit_code if terminated is not None else 0
    last = (terminated.message.strip().splitlines() or [""])[-1] if terminated is not None else ""
    message = f": {last}" if last else ""
    evidence = (f"exit code {code}, {status.restart_count} restarts",)
    if is_init:
        text = f"has a failing init container {name} (exit code {code}){message}"
        return PodProblem("InitContainerNotDone", text, _logs(pod, name), evidence)
    if terminated is not None and terminated.reason == "OOMKilled":
        return PodProblem(
            "ContainerOutOfMemory",
            f"has a container {name} that was killed for lack of memory",
            kubectl(
                pod.metadata.namespace,
                "set",
                "resources",
                workload_of(pod, facts),
                f"-c={name}",
                "--limits=memory=512Mi",
            ),
            (*evidence, f"memory limit: {_memory_limit(pod, name)}"),
        )
    liveness = _probe_event(pod, facts, "Liveness")
    if liveness and code in (137, 143, 0):
        text = f"has a container {name} that its liveness probe kills: {liveness}"
        return PodProblem("LivenessProbeFailing", text, _edit(pod, facts), evidence)
    what = f"ends at once (exit code {code})" if status.restart_count else f"has ended (exit code {code})"
    previous = ("--previous",) if status.restart_count else ()
    fix = kubectl(pod.metadata.namespace, "logs", pod.metadata.name, "-c", name, *previous)
    return PodProblem("ContainerCrashing", f"has a container {name} that {what}{message}", fix, evidence)


def _not_started(pod: Pod, facts: Facts) -> PodProblem | None:
    statuses = pod.status.container_statuses
    if statuses and any(status.state.running is not None for status in statuses):
        return None
    uid = pod.metadata.uid
    describe = kubectl(pod.metadata.namespace, "describe", "pod", pod.metadata.name)
    if events := facts.events_of("Pod", pod.key, *_MOUNT_EVENTS, uid=uid):
        return PodProblem("VolumeNotMounted", f"waits for a volume: {events[0].message}", describe)
    if events := facts.events_of("Pod", pod.key, *_SANDBOX_EVENTS, uid=uid):
        return PodProblem("PodNetworkNotReady", f"gets no network: {events[0].message}", describe)
    if facts.age_of(pod.metadata.creation_timestamp) > 300:
        return PodProblem(
            "PodsNotStarted",
            f"has been waiting for node {pod.spec.node_name} to start it since {pod.metadata.creation_timestamp}",
            describe,
        )
    return PodProblem("PodsStarting", "is starting", _wait(pod, facts))


def _unready(pod: Pod, facts: Facts) -> PodProblem | None:
    for status in pod.status.container_statuses:
        container = _container(pod, status.name)
        if status.ready or status.state.running is None or container is None:
            continue
        if container.startup_probe is not None and status.started is False:
            return _probe_problem(
                "StartupProbeFailing", "startup", "Startup", container.startup_probe, pod, container, facts
            )
        if container.readiness_probe is not None:
            probe = container.readiness_probe
            return _probe_problem("ReadinessProbeFailing", "readiness", "Readiness", probe, pod, container, facts)
    gates = [gate.condition_type for gate in pod.spec.readiness_gates]
    unmet = [gate for gate in gates if not is_condition_true(pod.status.conditions, gate)]
    if unmet and is_condition_true(pod.status.conditions, "ContainersReady"):
        return PodProblem(
            "ReadinessGateUnmet",
            f"waits for its readiness gates: {', '.join(unmet)}",
            f"start the controller that sets the condition {unmet[0]} of pods",
        )
    return None


def _probe_problem(
    cause: str, kind: str, word: str, probe: Probe, pod: Pod, container: Container, facts: Facts
) -> PodProblem:
    event = _probe_event(pod, facts, word)
    port = _probe_port(probe)
    evidence = [f"{kind} probe: {_describe_probe(probe)}", *((event,) if event else ())]
    number: int | None = port if isinstance(port, int) else None
    if isinstance(port, str):
        number = next((each.container_port for each in container.ports if each.name == port), None)
        if number is None:
            return PodProblem(
                "ProbePortWrong",
                f"fails the {kind} probe of container {container.name}, whose port {port} no container port has",
                _edit(pod, facts),
                tuple(evidence),
            )
    listening = _listening_ports(pod, facts)
    if number is not None and listening and number not in listening:
        return PodProblem(
            "ProbePortWrong",
            f"fails the {kind} probe of container {container.name}: nothing listens on port {number}, "
            f"but on {', '.join(map(str, listening[:5]))}",
            _edit(pod, facts),
            tuple(evidence),
        )
    detail = f": {event}" if event else ""
    return PodProblem(
        cause,
        f"fails the {kind} probe of container {container.name}{detail}",
        _logs(pod, container.name),
        tuple(evidence),
    )


def _listening_ports(pod: Pod, facts: Facts) -> Sequence[int]:
    """Return the TCP ports on which programs of the pod listen; () if unknown, or without any."""
    state = facts.pod_listeners.get(pod.key)
    if state is None or Section.LISTENERS in state.unseen:
        return ()
    return sorted({each.port for each in state.listeners if each.protocol == "tcp"})


def _probe_port(probe: Probe) -> int | str | None:
    action = probe.http_get or probe.tcp_socket or probe.grpc
    return action.port if action is not None else None


def _describe_probe(probe: Probe) -> str:
    if probe.http_get is not None:
        return f"GET {probe.http_get.path or '/'} on port {probe.http_get.port}"
    if probe.tcp_socket is not None:
        return f"TCP connection to port {probe.tcp_socket.port}"
    if probe.grpc is not None:
        return f"gRPC health check on port {probe.grpc.port}"
    return f"command {' '.join(probe.exec.command)}" if probe.exec is not None else "none"


def _probe_event(pod: Pod, facts: Facts, word: str) -> str:
    """Return the latest message of a probe that fails; "" without one."""
    events = facts.events_of("Pod", pod.key, "Unhealthy", "ProbeWarning", uid=pod.metadata.uid)
    return next((event.message for event in events if event.message.startswith(word)), "")


def _container(pod: Pod, name: str) -> Container | None:
    return next((each for each in (*pod.spec.containers, *pod.spec.init_containers) if each.name == name), None)


def _is_sidecar(pod: Pod, name: str) -> bool:
    container = _container(pod, name)
    return container is not None and container.is_sidecar


def _image_of(pod: Pod, name: str) -> str:
    container = _container(pod, name)
    return container.image if container is not None else ""


def _memory_limit(pod: Pod, name: str) -> str:
    container = _container(pod, name)
    return str(container.resources.limits.get("memory", "none")) if container is not None else "unknown"


def _condition_text(pod: Pod, type: str) -> str:
    condition = find_condition(pod.status.conditions, type)
    return f": {condition.message or condition.reason}" if condition is not None and condition.reason else ""


def _logs(pod: Pod, container: str) -> str:
    return kubectl(pod.metadata.namespace, "logs", pod.metadata.name, "-c", container)


def _edit(pod: Pod, facts: Facts) -> str:
    return kubectl(pod.metadata.namespace, "edit", workload_of(pod, facts))


def _wait(pod: Pod, facts: Facts) -> str:
    workload = workload_of(pod, facts)
    if workload.startswith(("deployment/", "statefulset/", "daemonset/")):
        return kubectl(pod.metadata.namespace, "rollout", "status", workload)
    return kubectl(pod.metadata.namespace, "wait", "--for=condition=Ready", f"pod/{pod.metadata.name}")
