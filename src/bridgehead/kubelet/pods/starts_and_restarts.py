"""The next actions for a pod, computed from its spec, its containers' runs and the time.

Pure: no I/O, no clock, no randomness. Called by the pod worker after every event. Source: kubelet's `computePodActions`
(init containers in order, sidecars, restart policies, crash back-off).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from bridgehead.kubelet.containers.runs import RESTARTING_ALL, Run
from bridgehead.objects.core import Container, PodSpec

RESTART_ALL: Final = "RestartAllContainers"


class PodActions(msgspec.Struct, frozen=True, kw_only=True):
    """`start` names the containers to start now, in order; `back_off` maps each waiting container to the end of its
    wait.

    `finished`: no container of the pod will run again. `restart_all`: the name of a container whose exit restarts all.
    """

    finished: bool = False
    restart_all: str = ""
    create_sandbox: bool = False
    start: tuple[str, ...] = ()
    back_off: dict[str, float] = {}

    @property
    def wake_at(self) -> float | None:
        """Time to compute the actions again if nothing happens before, in seconds since the epoch."""
        return min(self.back_off.values(), default=None)


def is_restarted(policy: str, container: Container, run: Run) -> bool:
    """Whether an exited container is restarted: by a rule of its own, its own restartPolicy or that of the pod, or
    because the kubelet ended it for that."""
    if run.is_replaced or run.reason == RESTARTING_ALL or _restart_action(container, run):
        return True
    own = container.restart_policy or policy
    return own == "Always" or (own == "OnFailure" and run.exit_code != 0)


def _restart_action(container: Container, run: Run) -> str:
    """Return the action of the first of the container's restartPolicyRules that matches its exit, "" without any.

    Source: kubelet's `ContainerShouldRestart`, KEP-5307, KEP-5532.
    """
    return next((rule.action for rule in container.restart_policy_rules if rule.matches(run.exit_code)), "")


def may_restart_all(spec: PodSpec) -> bool:
    """Whether a rule of one of the pod's containers restarts all of them."""
    containers = spec.init_containers + spec.containers
    return any(rule.action == RESTART_ALL for container in containers for rule in container.restart_policy_rules)


def restarting_all(spec: PodSpec, runs: Mapping[str, Run]) -> str:
    """Return the name of a container whose exit restarts all containers of the pod, "" without any."""
    for container in (*spec.init_containers, *spec.containers):
        run = runs.get(container.name)
        has_exited = run is not None and not run.is_running and not run.is_stale
        if has_exited and run is not None and _restart_action(container, run) == RESTART_ALL:
            return container.name
    return ""


def is_finished(spec: PodSpec, runs: Mapping[str, Run]) -> bool:
    """Whether no container of the pod will run again, sidecars aside."""
    if has_failed_init(spec, runs):
        return True
    for container in spec.containers:
        run = runs.get(container.name)
        if run is None or run.is_running or is_restarted(spec.restart_policy, container, run):
            return False
    return True


def has_failed_init(spec: PodSpec, runs: Mapping[str, Run]) -> bool:
    """Whether an init container has failed that is not restarted."""
    for container in spec.init_containers:
        run = runs.get(container.name)
        has_failed = run is not None and not run.is_running and run.exit_code != 0
        if has_failed and run is not None and not is_restarted(spec.restart_policy, container, run):
            return True
    return False


def has_begun(spec: PodSpec, runs: Mapping[str, Run]) -> bool:
    """Whether a main container has run in the present sandbox."""
    return any(c.name in runs and not runs[c.name].is_stale for c in spec.containers)


def is_initialized(spec: PodSpec, runs: Mapping[str, Run], started: Callable[[str], bool]) -> bool:
    """Whether the main containers may start: init containers have succeeded, sidecars have started."""
    if has_begun(spec, runs):
        return True
    for container in spec.init_containers:
        run = runs.get(container.name)
        if run is None:
            return False
        if container.is_sidecar:
            if not (run.is_running and started(container.name)):
                return False
        elif run.is_running or run.exit_code != 0:
            return False
    return True


def compute_pod_actions(
    spec: PodSpec,
    runs: Mapping[str, Run],
    *,
    has_sandbox: bool,
    started: Callable[[str], bool],
    not_before: Callable[[str, Run | None], float],
    now: float,
) -> PodActions:
    """Return what to do next.

    `runs` holds the newest run of each container that has one. `started` returns whether a running container has passed
    its startup probe, `not_before` until when a container waits after a failure.
    """
    if is_finished(spec, runs):
        return PodActions(finished=True)
    if not has_sandbox:
        return PodActions(create_sandbox=True)
    start: list[str] = []
    back_off: dict[str, float] = {}
    if trigger := restarting_all(spec, runs):
        until = not_before(trigger, runs[trigger])
        return PodActions(back_off={trigger: until}) if until > now else PodActions(restart_all=trigger)

    def want(container: Container) -> None:
        until = not_before(container.name, runs.get(container.name))
        if until > now:
            back_off[container.name] = until
        else:
            start.append(container.name)

    for debugger in spec.ephemeral_containers:
        if debugger.name not in runs:  # each is started once, whatever becomes of it
            want(debugger)
    initialized = is_initialized(spec, runs, started)
    for container in spec.init_containers:
        run = runs.get(container.name)
        if container.is_sidecar:
            if run is None or not run.is_running:
                want(container)
            elif initialized or started(container.name):
                continue
        elif initialized or (run is not None and not run.is_running and run.exit_code == 0):
            continue
        elif run is None or not run.is_running:
            want(container)
        if not initialized:
            return PodActions(start=tuple(start), back_off=back_off)
    for container in spec.containers:
        run = runs.get(container.name)
        if run is None or (not run.is_running and is_restarted(spec.restart_policy, container, run)):
            want(container)
    return PodActions(start=tuple(start), back_off=back_off)
