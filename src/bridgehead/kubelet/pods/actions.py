"""The next actions for a pod, computed from its spec, its containers' runs and the time.

Pure: no I/O, no clock, no randomness. Called by the pod worker after every event. Source: kubelet's `computePodActions`
(init containers in order, sidecars, restart policies, crash back-off).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from bridgehead.kubelet.containers.runs import Run
from bridgehead.objects.core import Container, PodSpec


class PodActions(msgspec.Struct, frozen=True, kw_only=True):
    """`start` names the containers to start now, in order; `back_off` maps each waiting container to the end of its
    wait.

    `finished`: no container of the pod will run again.
    """

    finished: bool = False
    create_sandbox: bool = False
    start: tuple[str, ...] = ()
    back_off: dict[str, float] = {}

    @property
    def wake_at(self) -> float | None:
        """When to compute the actions again if nothing happens before; seconds since the epoch."""
        return min(self.back_off.values(), default=None)


def is_restarted(policy: str, container: Container, run: Run) -> bool:
    """Whether an exited container is restarted; its own restartPolicy overrides the pod's."""
    own = container.restart_policy or policy
    return own == "Always" or (own == "OnFailure" and run.exit_code != 0)


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
    """Whether an init container has failed in a pod with restartPolicy Never."""
    if spec.restart_policy != "Never":
        return False
    for container in spec.init_containers:
        run = runs.get(container.name)
        if not container.is_sidecar and run is not None and not run.is_running and run.exit_code != 0:
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
