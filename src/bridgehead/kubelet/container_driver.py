"""The containers of one pod in action: started, probed, restarted, stopped one at a time.

Belongs to the pod worker, which decides when (by `plan`). State is in `containers`; starting one is `launcher`'s,
stopping one `termination`'s.
"""

from __future__ import annotations

import asyncio
import logging
import time

from bridgehead.objects.core import Container, ContainerStatus, Probe

from .containers import PodContainers
from .handlers import Outcome, Target
from .launcher import LaunchRefused, PodFacts, launch
from .parts import PodContext
from .plan import Plan, Run
from .probes import ContainerProbes
from .runtimes.runtime import RuntimeFailure
from .status import Waiting
from .termination import Deadline, Terminator
from .uninterrupted import uninterrupted

log = logging.getLogger(__name__)

_POST_START_SECONDS = 3600.0  # a hook has no time limit of its own


class ContainerDriver:
    """`tasks` is where probes run; it must outlive the containers."""

    def __init__(self, context: PodContext, containers: PodContainers, tasks: asyncio.TaskGroup) -> None:
        self._context = context
        self._containers = containers
        self._tasks = tasks

    def terminator(self) -> Terminator:
        return Terminator(self._context, self._containers)

    def follow_found(self) -> None:
        """Begin to probe the containers that ran before the kubelet started; what their status said of them stays."""
        status = self._context.pod.status
        known = {s.name: s for s in status.container_statuses + status.init_container_statuses}
        running = self._containers.running()
        for container in self._context.all_containers():
            if container.name in running:
                self._follow(container, known.get(container.name))

    async def start(self, name: str) -> None:
        """Start a container; one that has to wait is noted as waiting."""
        context, containers = self._context, self._containers
        container = context.container(name)
        attempt = containers.next_attempt(name)
        facts = PodFacts(context.pod_ips, context.volumes)
        now = time.time()
        before = containers.runs.get(name)  # the new run may have ended by the time that we hear of its start

        async def start() -> Run:
            run = await launch(context.parts, context.pod, container, attempt, facts)
            containers.started(name, before, run, now)
            return run

        try:
            run = await uninterrupted(start())
        except LaunchRefused as refused:
            containers.refused(name, refused.reason, str(refused), now)
            return
        if run.is_running and containers.runs[name].is_running:
            self._follow(container, None)
            await self._post_start(container, run)

    async def _post_start(self, container: Container, run: Run) -> None:
        hook = container.lifecycle.post_start if container.lifecycle is not None else None
        if hook is None:
            return
        outcome = await self._context.parts.handlers.perform(
            hook, Target(container, run.id, self._context.pod_ip), _POST_START_SECONDS
        )
        if outcome.success is not True:
            self._context.record("Warning", "FailedPostStartHook", "PostStartHook failed", container)
            await self._stop_one(container, "FailedPostStartHook", None)

    def _follow(self, container: Container, before: ContainerStatus | None) -> None:
        name, run = container.name, self._containers.runs[container.name]
        target = Target(container, run.id, self._context.pod_ip)
        probes = ContainerProbes(
            container,
            perform=lambda probe: self._context.parts.handlers.perform(probe, target, probe.timeout_seconds),
            changed=self._containers.notify,
            unhealthy=lambda kind, outcome: self._unhealthy(container, kind, outcome),
            failed=lambda kind, probe: self._probe_failed(container, kind, probe),
            was_started=before is not None and bool(before.started),
            was_ready=before is not None and before.ready,
        )
        self._containers.probes[name] = probes
        if probes.has_work:
            age = time.time() - (run.started_at or time.time())
            self._tasks.create_task(self._probe_while_running(probes, run, age))

    async def _probe_while_running(self, probes: ContainerProbes, run: Run, age: float) -> None:
        task = asyncio.create_task(probes.run(age))
        try:
            await self._containers.exited(run.id).wait()
        finally:
            task.cancel()
            [result] = await asyncio.gather(task, return_exceptions=True)
            if isinstance(result, Exception):
                log.error("pod %s: a probe broke off", self._context.pod.key, exc_info=result)

    def _unhealthy(self, container: Container, kind: str, outcome: Outcome) -> None:
        words = "failed" if outcome.success is False else "errored and resulted in unknown state"
        message = f"{kind} probe {words}: {outcome.output}"
        self._context.record("Warning", "Unhealthy", message, container)

    def _probe_failed(self, container: Container, kind: str, probe: Probe) -> None:
        message = f"Container {container.name} failed {kind} probe, will be restarted"
        grace = probe.termination_grace_period_seconds
        self._tasks.create_task(self._stop_one(container, message, grace))

    async def _stop_one(self, container: Container, message: str, grace: int | None) -> None:
        seconds = self._context.pod.spec.termination_grace_period_seconds if grace is None else grace
        deadline = Deadline(asyncio.get_running_loop().time() + seconds)
        try:
            await self.terminator().stop(container, deadline, message)
        except RuntimeFailure as error:
            log.warning("pod %s: container %s not stopped: %s", self._context.pod.key, container.name, error)

    async def stop_changed(self) -> None:
        """An image may be changed in place; its container is started anew."""
        for container in self._context.all_containers():
            run = self._containers.runs.get(container.name)
            if run is not None and run.is_running and run.image and run.image != container.image:
                message = f"Container {container.name} definition changed, will be restarted"
                await self._stop_one(container, message, None)

    def note_back_off(self, plan: Plan) -> None:
        """Say of each container that waits why it does."""
        meta = self._context.pod.metadata
        for name in plan.back_off:
            container = self._context.container(name)
            waiting = self._containers.waiting.get(name)
            if waiting is not None and waiting.reason == "ErrImagePull":
                if not self._containers.is_pull_word_due(name, time.time()):
                    continue
                text = f'Back-off pulling image "{container.image}"'
                self._context.record("Normal", "BackOff", text, container)
                self._context.record("Warning", "Failed", "Error: ImagePullBackOff", container)
                message = f"{text}: ErrImagePull: {waiting.message}"
                self._containers.waiting[name] = Waiting("ImagePullBackOff", message)
            elif waiting is None and name in self._containers.runs:
                where = f"{meta.name}_{meta.namespace}({meta.uid})"
                text = f"Back-off restarting failed container {name} in pod {where}"
                self._context.record("Warning", "BackOff", text, container)
                wait = self._containers.crash_wait(name)
                message = f"back-off {wait} restarting failed container={name} pod={where}"
                self._containers.waiting[name] = Waiting("CrashLoopBackOff", message)
