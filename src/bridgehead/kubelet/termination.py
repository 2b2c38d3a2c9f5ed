"""Stop a pod's containers: preStop, the barrier, SIGTERM, the rest of the grace period, SIGKILL.

Called by the pod worker when the pod ends, and for one container when its liveness probe failed. Source: Kubernetes
"Pod Lifecycle: Termination of Pods" and kubelet's `killContainer`: the period also covers preStop, SIGTERM gets at
least two seconds, sidecars stop after the main containers in reverse order.
"""

from __future__ import annotations

import asyncio
import logging
import signal

from bridgehead.objects.core import Container

from .containers import PodContainers
from .handlers import Target
from .parts import PodContext
from .plan import is_sidecar

log = logging.getLogger(__name__)

MINIMUM_GRACE_SECONDS = 2.0
_KILL_SECONDS = 10.0  # how long a SIGKILL may take to be reported before it is sent again


class Deadline:
    """A moment (event loop time) that may come nearer while others wait for it."""

    def __init__(self, at: float) -> None:
        self.at = at
        self._timeouts: set[asyncio.Timeout] = set()

    def bring_forward(self, at: float) -> bool:
        """A second delete asked for less: everybody's wait ends earlier. False for a later moment, which is ignored."""
        if at >= self.at:
            return False
        self.at = at
        now = asyncio.get_running_loop().time()
        for timeout in self._timeouts:
            timeout.reschedule(max(at, now))
        return True

    async def wait(self, event: asyncio.Event, *, at_least: float = 0.0) -> bool:
        """Whether `event` came before the deadline (or before `at_least` seconds, if that is later)."""
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(max(self.at, now + at_least)) as timeout:
                self._timeouts.add(timeout)
                try:
                    await event.wait()
                finally:
                    self._timeouts.discard(timeout)
        except TimeoutError:
            return False
        return True


class Terminator:
    """Stops containers of one pod."""

    def __init__(self, context: PodContext, containers: PodContainers) -> None:
        self._context = context
        self._containers = containers

    async def stop_pod(self, deadline: Deadline, released: asyncio.Event) -> None:
        """Stop everything; returns when nothing runs. No SIGTERM before `released`, preStop at once."""
        spec = self._context.pod.spec
        sidecars = [c for c in spec.init_containers if is_sidecar(c)]
        others = [c for c in spec.containers + spec.init_containers if c not in sidecars]
        async with asyncio.TaskGroup() as tasks:
            for container in others:
                tasks.create_task(self.stop(container, deadline, released=released))
        for container in reversed(sidecars):
            await self.stop(container, deadline, released=released)

    async def stop(
        self, container: Container, deadline: Deadline, message: str = "", released: asyncio.Event | None = None
    ) -> None:
        """Stop one container if it runs; `message` is the event's, when it is not the usual one."""
        run = self._containers.runs.get(container.name)
        if run is None or not run.is_running:
            return
        self._context.record("Normal", "Killing", message or f"Stopping container {container.name}", container)
        exited = self._containers.exited(run.id)
        await self._pre_stop(container, run.id, deadline, exited)
        if released is not None:
            await deadline.wait(released)
        await self._context.parts.runtime.signal_container(run.id, signal.SIGTERM)
        if await deadline.wait(exited, at_least=MINIMUM_GRACE_SECONDS):
            return
        while not exited.is_set():
            await self._context.parts.runtime.signal_container(run.id, signal.SIGKILL)
            try:
                async with asyncio.timeout(_KILL_SECONDS):
                    await exited.wait()
            except TimeoutError:
                log.warning("pod %s: container %s survives SIGKILL", self._context.pod.key, container.name)

    async def _pre_stop(self, container: Container, run_id: str, deadline: Deadline, exited: asyncio.Event) -> None:
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        left = deadline.at - asyncio.get_running_loop().time()
        if hook is None or left <= 0:
            return
        done = asyncio.Event()

        async def perform() -> None:
            outcome = await self._context.parts.handlers.perform(
                hook, Target(container, run_id, self._context.pod_ip), left
            )
            if outcome.success is not True and not exited.is_set():
                message = f"PreStopHook failed: {outcome.output}" if outcome.output else "PreStopHook failed"
                self._context.record("Warning", "FailedPreStopHook", message, container)
            done.set()

        task = asyncio.create_task(perform())
        try:
            await deadline.wait(done)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
