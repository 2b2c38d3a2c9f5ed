"""Termination of containers: preStop, the barrier, SIGTERM, the rest of the grace period, SIGKILL.

Called when a pod terminates, and for one container when its liveness probe has failed. Source: Kubernetes "Pod
Lifecycle: Termination of Pods" and kubelet's `killContainer`: the grace period includes preStop, which all containers
begin at once; at least two seconds follow SIGTERM, and sidecars stop after the main containers, in reverse order.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Iterable, Sequence

from bridgehead.objects.core import Container

from .context import PodContext
from .handlers import Target
from .pod_containers import PodContainers

log = logging.getLogger(__name__)

MINIMUM_GRACE_SECONDS = 2.0
_KILL_SECONDS = 10.0  # SIGKILL is sent again if the runtime reports no exit for this long


class Deadline:
    """A point in time (event loop time) that may be brought forward while tasks wait for it."""

    def __init__(self, at: float) -> None:
        self.at = at
        self._timeouts: set[asyncio.Timeout] = set()

    def bring_forward(self, at: float) -> bool:
        """Move the deadline to `at`, for example after a second delete with a shorter grace period; all waits end
        earlier.

        Returns False and changes nothing if `at` is not earlier.
        """
        if at >= self.at:
            return False
        self.at = at
        now = asyncio.get_running_loop().time()
        for timeout in self._timeouts:
            timeout.reschedule(max(at, now))
        return True

    async def wait(self, event: asyncio.Event, *, at_least: float = 0.0) -> bool:
        """Return whether `event` was set before the deadline (or within `at_least` seconds, if that is later)."""
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
    """Stops the containers of one pod."""

    def __init__(self, context: PodContext, containers: PodContainers) -> None:
        self._context = context
        self._containers = containers

    async def stop_pod(self, deadline: Deadline, sigterm_allowed: asyncio.Event) -> None:
        """Stop all containers, and return when none runs. preStop hooks run at once, SIGTERM waits for
        `sigterm_allowed`; that of a sidecar also for the end of the containers that started after it."""
        spec = self._context.pod.spec
        sidecars = [c for c in spec.init_containers if c.is_sidecar]
        others = [c for c in spec.containers + spec.init_containers + spec.ephemeral_containers if c not in sidecars]
        ends = [asyncio.Event() for _ in others]

        async def stop(container: Container, earlier: Sequence[asyncio.Event], end: asyncio.Event) -> None:
            await self.stop(container, deadline, before_sigterm=(sigterm_allowed, *earlier))
            end.set()

        async with asyncio.TaskGroup() as tasks:
            for container, end in zip(others, ends, strict=True):
                tasks.create_task(stop(container, (), end))
            for sidecar in reversed(sidecars):
                earlier, end = tuple(ends), asyncio.Event()
                tasks.create_task(stop(sidecar, earlier, end))
                ends.append(end)

    async def stop(
        self,
        container: Container,
        deadline: Deadline,
        message: str = "",
        before_sigterm: Iterable[asyncio.Event] = (),
    ) -> None:
        """Stop one container if it runs; `message` replaces the usual text of the Killing Event. SIGTERM waits for the
        events `before_sigterm`."""
        run = self._containers.runs.get(container.name)
        if run is None or not run.is_running:
            return
        self._context.record("Normal", "Killing", message or f"Stopping container {container.name}", container)
        exited = self._containers.exited(run.id)
        await self._pre_stop(container, run.id, deadline, exited)
        for event in before_sigterm:
            await deadline.wait(event)
        await self._context.node.runtime.signal_container(run.id, signal.SIGTERM)
        if await deadline.wait(exited, at_least=MINIMUM_GRACE_SECONDS):
            return
        while not exited.is_set():
            await self._context.node.runtime.signal_container(run.id, signal.SIGKILL)
            try:
                async with asyncio.timeout(_KILL_SECONDS):
                    await exited.wait()
            except TimeoutError:
                log.warning("pod %s: container %s did not exit after SIGKILL", self._context.pod.key, container.name)

    async def _pre_stop(self, container: Container, run_id: str, deadline: Deadline, exited: asyncio.Event) -> None:
        """Perform the preStop hook until it is done, the container has exited or the deadline has passed."""
        hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
        left = deadline.at - asyncio.get_running_loop().time()
        if hook is None or left <= 0:
            return
        done = asyncio.Event()

        async def perform() -> None:
            try:
                outcome = await self._context.node.handlers.perform(
                    hook, Target(container, run_id, self._context.pod_ip), left
                )
                if outcome.success is not True and not exited.is_set():
                    # The Event does not have the hook's output, which may have secrets: Events have more readers than
                    # Secrets.
                    self._context.record("Warning", "FailedPreStopHook", "PreStopHook failed", container)
                elif outcome.fallback:
                    self._context.record("Warning", "LifecycleHTTPFallback", outcome.fallback)
            finally:
                done.set()

        async def observe_exit() -> None:
            await exited.wait()
            done.set()

        tasks = [asyncio.create_task(perform()), asyncio.create_task(observe_exit())]
        try:
            await deadline.wait(done)
        finally:
            for task in tasks:
                task.cancel()
            for result in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(result, Exception):
                    log.error("pod %s: a preStop hook ended with an error", self._context.pod.key, exc_info=result)
