"""Starts, probes, restarts and stops the containers of one pod.

The pod worker owns a driver and decides when to use it (see `pods.starts_and_restarts`). State is kept in
`pod_containers`; `start` starts a container, `termination` stops one.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

import msgspec

from bridgehead.kubelet.metrics.operations import FAILED, SUCCESSFUL, UNKNOWN
from bridgehead.kubelet.runtimes.runtime import Image, RuntimeFailure
from bridgehead.kubelet.uninterrupted import uninterrupted
from bridgehead.objects.core import Container, ContainerStatus, EphemeralContainer, Pod, Probe

from .context import PodContext
from .handlers import Outcome, Target
from .image_pull import ensure_image
from .mounts import volume_images
from .pod_containers import PodContainers
from .prober import ContainerProbes
from .runs import Run, StartRefused, Waiting
from .start import START_ERROR, start_container
from .termination import Deadline, Terminator

log = logging.getLogger(__name__)

_POST_START_SECONDS = 3600.0  # Kubernetes sets no time limit for a postStart hook
# Reasons for which a container waits whose program could not be started, or whose postStart hook has failed.
_START_ERRORS = _RUN_ERROR, _HOOK_ERROR = "RunContainerError", "PostStartHookError"
_BACK_OFFS = _PULL_BACK_OFF, _CRASH_BACK_OFF = "ImagePullBackOff", "CrashLoopBackOff"
_CRASHES = (*_START_ERRORS, _CRASH_BACK_OFF)
# Time between two Events of a back-off: the kubelet's period between syncs of a pod that failed.
_RECORD_SECONDS = 10.0


class ContainerDriver:
    """Probes run in `tasks`, which must outlive the containers."""

    def __init__(self, context: PodContext, containers: PodContainers, tasks: asyncio.TaskGroup) -> None:
        self._context = context
        self._containers = containers
        self._tasks = tasks
        self._back_offs: dict[str, float] = {}  # when that of a container was last recorded, in seconds since the epoch

    def terminator(self) -> Terminator:
        return Terminator(self._context, self._containers)

    def probe_running(self) -> None:
        """Probe the containers that ran before the kubelet started, beginning with the results in their status."""
        status = self._context.pod.status
        known = {
            s.name: s
            for s in status.container_statuses + status.init_container_statuses + status.ephemeral_container_statuses
        }
        running = self._containers.running()
        for container in self._context.all_containers():
            if container.name in running:
                self._start_probes(container, known.get(container.name))

    async def start(self, name: str) -> None:
        """Start a container. A container that can't be started becomes waiting, with the reason."""
        context, containers = self._context, self._containers
        container = context.container(name)
        attempt = containers.next_attempt(name)
        now = time.time()
        before = containers.runs.get(name)  # read now: the new run may have ended before `start_container` returns

        async def start() -> Run:
            run = await start_container(context, container, image, attempt, self._target(container))
            containers.on_started(name, before, run, now)
            return run

        try:
            image = await self._ensure_images(container)  # can take minutes, which a deletion does not wait for
            run = await uninterrupted(start())
        except StartRefused as refused:
            context.node.metrics.record_container(_kind_of(context.pod, name), failure=refused.reason)
            containers.on_start_refused(name, refused, now)
            return
        context.node.metrics.record_container(
            _kind_of(context.pod, name), failure=START_ERROR if run.reason == START_ERROR else ""
        )
        if run.is_running and containers.runs[name].is_running:
            self._start_probes(container, None)
            await self._post_start(container, run)
        elif run.reason == START_ERROR:
            self._show_error(container, _RUN_ERROR, run.message)

    async def _ensure_images(self, container: Container) -> Image:
        """Return the container's image; the images that it mounts are on the node, too. Raises `StartRefused`."""
        for volume in volume_images(self._context.pod, container):
            user = msgspec.structs.replace(container, image=volume.reference, image_pull_policy=volume.pull_policy)
            await ensure_image(self._context, user)
        return await ensure_image(self._context, container)

    def _target(self, container: Container) -> str:
        """Return the id of the container whose PID namespace an ephemeral one shares. Raises `StartRefused`."""
        name = container.target_container_name if isinstance(container, EphemeralContainer) else ""
        if not name:
            return ""
        run = self._containers.runs.get(name)
        if run is None or not run.is_running:
            message = f"unable to find target container {name}"
            self._context.record("Warning", "Failed", f"Error: {message}", container)
            raise StartRefused("CreateContainerConfigError", message)
        return run.id

    async def _post_start(self, container: Container, run: Run) -> None:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return
        outcome = await self._context.node.handlers.perform(
            hook, Target(container, run.id, self._context.pod_ip), _POST_START_SECONDS
        )
        if outcome.success is not True:
            self._context.record("Warning", "FailedPostStartHook", "PostStartHook failed", container)
            await self._stop_one(container, "FailedPostStartHook", None)
            self._show_error(container, _HOOK_ERROR, outcome.output)
        elif outcome.fallback:
            self._context.record("Warning", "LifecycleHTTPFallback", outcome.fallback)

    def _show_error(self, container: Container, reason: str, message: str) -> None:
        if self._is_restarted(container):
            self._containers.on_start_failed(container.name, reason, message, time.time())

    def _is_restarted(self, container: Container) -> bool:
        """Whether the container starts again after a failure."""
        return (container.restart_policy or self._context.pod.spec.restart_policy) != "Never"

    def _start_probes(self, container: Container, before: ContainerStatus | None) -> None:
        name, run = container.name, self._containers.runs[container.name]
        target = Target(container, run.id, self._context.pod_ip)
        probes = ContainerProbes(
            container,
            perform=lambda probe: self._context.node.handlers.perform(probe, target, probe.timeout_seconds),
            changed=self._containers.notify,
            report=lambda kind, outcome: self._report_probe(container, kind, outcome),
            failed=lambda kind, probe: self._probe_failed(container, kind, probe),
            record=lambda kind, outcome, seconds: self._record_probe(name, kind, outcome, seconds),
            was_started=before is not None and bool(before.started),
            was_ready=before is not None and before.ready,
        )
        self._containers.probes[name] = probes
        if probes.has_work:
            age = time.time() - (run.started_at or time.time())
            self._tasks.create_task(self._probe_while_running(probes, run, age))

    def _record_probe(self, container: str, kind: str, outcome: Outcome, seconds: float) -> None:
        meta = self._context.pod.metadata
        result = UNKNOWN if outcome.success is None else SUCCESSFUL if outcome.success else FAILED
        self._context.node.probe_metrics.record(meta.namespace, meta.name, meta.uid, container, kind, result, seconds)

    async def _probe_while_running(self, probes: ContainerProbes, run: Run, age: float) -> None:
        task = asyncio.create_task(probes.run(age))
        try:
            await self._containers.exited(run.id).wait()
        finally:
            task.cancel()
            [result] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("pod %s: probing ended with an error", self._context.pod.key, exc_info=result)

    def _report_probe(self, container: Container, kind: str, outcome: Outcome) -> None:
        if outcome.is_warning:
            self._context.record("Warning", "ProbeWarning", f"{kind} probe warning: {outcome.output}", container)
            return
        result = "failed" if outcome.success is False else "errored and resulted in unknown state"
        message = f"{kind} probe {result}: {outcome.output}"
        self._context.record("Warning", "Unhealthy", message, container)

    def _probe_failed(self, container: Container, kind: str, probe: Probe) -> None:
        grace = probe.termination_grace_period_seconds
        if container.is_sidecar:
            stopping = self._stop_one(container, f"Init container {container.name} failed {kind} probe", grace)
        elif self._is_restarted(container):
            stopping = self.stop(container, f"Container {container.name} failed {kind} probe, will be restarted", grace)
        else:
            stopping = self._stop_one(container, f"Container {container.name} failed {kind} probe", grace)
        self._tasks.create_task(stopping)

    async def _stop_one(self, container: Container, message: str, grace: int | None) -> None:
        seconds = self._context.pod.spec.termination_grace_period_seconds if grace is None else grace
        deadline = Deadline(asyncio.get_running_loop().time() + seconds)
        try:
            await self.terminator().stop(container, deadline, message)
        except RuntimeFailure as error:
            log.warning("pod %s: container %s not stopped: %s", self._context.pod.key, container.name, error)

    async def stop_changed(self) -> None:
        """Stop containers whose image was changed in the spec; the next sync starts them with the new image."""
        for container in self._context.all_containers():
            run = self._containers.runs.get(container.name)
            if run is not None and run.is_running and run.image and run.image != container.image:
                await self.stop(container, f"Container {container.name} definition changed, will be restarted")

    async def stop(self, container: Container, message: str, grace: int | None = None) -> None:
        """Stop a container within `grace` seconds, by default the pod's grace period; the next sync starts it again,
        whatever the restart policy. Source: kubelet's `computePodActions`."""
        self._containers.replace_run(self._containers.runs[container.name].id)
        await self._stop_one(container, message, grace)

    async def remove_all(self, trigger: str) -> None:
        """Stop all containers but ephemeral ones, at once, so that they start anew, with the init containers:
        `trigger` has exited, and a rule of it wants that. As in Kubernetes, no preStop hook is called, and the grace
        period is the shortest one. Raises `RuntimeFailure`."""
        spec = self._context.pod.spec
        restarted = spec.init_containers + spec.containers
        terminator, deadline = self.terminator(), Deadline(asyncio.get_running_loop().time())
        stops = (terminator.stop(container, deadline) for container in restarted)
        for result in await asyncio.gather(*stops, return_exceptions=True):
            if isinstance(result, BaseException):
                raise result
        self._containers.restart_all(trigger, [container.name for container in restarted], time.time())

    def record_back_off(self, names: Iterable[str]) -> None:
        """Record why each of the containers `names`, which are in back-off, waits: at once, and every ten seconds."""
        meta, now = self._context.pod.metadata, time.time()
        for name in names:
            container = self._context.container(name)
            waiting = self._containers.waiting.get(name)
            if self._containers.shows_error(name, now):
                continue
            if waiting is not None and waiting.reason in _BACK_OFFS and now < self._next_record(name):
                continue
            self._back_offs[name] = now
            if waiting is not None and waiting.reason in ("ErrImagePull", _PULL_BACK_OFF):
                text = f'Back-off pulling image "{waiting.image}"'
                self._context.record("Normal", "BackOff", text, container)
                self._context.record("Warning", "Failed", "Error: ImagePullBackOff", container)
                if waiting.reason == "ErrImagePull":
                    message = f"{text}: ErrImagePull: {waiting.message}"
                    self._containers.waiting[name] = Waiting(_PULL_BACK_OFF, message, waiting.image)
            elif (waiting is None or waiting.reason in _CRASHES) and name in self._containers.runs:
                where = f"{meta.name}_{meta.namespace}({meta.uid})"
                text = f"Back-off restarting failed container {name} in pod {where}"
                self._context.record("Warning", "BackOff", text, container)
                wait = self._containers.crash_wait(name)
                message = f"back-off {wait} restarting failed container={name} pod={where}"
                self._containers.waiting[name] = Waiting(_CRASH_BACK_OFF, message)

    def next_record(self, names: Iterable[str]) -> float | None:
        """Return when one of the containers `names` is to be recorded again, in seconds since the epoch."""
        waiting = self._containers.waiting
        shown = (name for name in names if name in waiting and waiting[name].reason in _BACK_OFFS)
        return min(map(self._next_record, shown), default=None)

    def _next_record(self, name: str) -> float:
        return self._back_offs.get(name, 0.0) + _RECORD_SECONDS


def _kind_of(pod: Pod, container: str) -> str:
    """Return the kind of a container as metrics name it."""
    if any(one.name == container for one in pod.spec.init_containers):
        return "init_container"
    return "container" if any(one.name == container for one in pod.spec.containers) else "ephemeral_container"
