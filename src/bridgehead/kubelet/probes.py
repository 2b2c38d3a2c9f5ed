"""The startup, readiness and liveness probes of one run of a container.

`ProbeState` is pure: thresholds and results. `ContainerProbes` runs the probes on their periods and tells the pod
worker what changed. Source: kubelet's `prober` package.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bridgehead.objects.core import Container, Probe

from .handlers import Outcome

_FIRST_PAUSE = 0.1  # seconds

Perform = Callable[[Probe], Awaitable[Outcome]]


class ProbeState:
    """Counts results in a row. `passes` is None until a threshold is reached for the first time, if not given."""

    def __init__(self, probe: Probe, initial: bool | None) -> None:
        self._probe = probe
        self.passes = initial
        self._last: bool | None = None
        self._in_a_row = 0

    def feed(self, success: bool) -> bool:
        """Take one result in; say whether `passes` was decided by it (again)."""
        self._in_a_row = self._in_a_row + 1 if success == self._last else 1
        self._last = success
        threshold = self._probe.success_threshold if success else self._probe.failure_threshold
        if self._in_a_row < threshold:
            return False
        self.passes = success
        return True


class ContainerProbes:
    """Runs the probes of one run of a container until it is cancelled.

    `changed()` is called when `started` or `ready` changed; `unhealthy(kind, outcome)` after each failed try;
    `failed(kind, probe)` when a liveness or startup probe has failed for good.
    """

    def __init__(
        self,
        container: Container,
        *,
        perform: Perform,
        changed: Callable[[], None],
        unhealthy: Callable[[str, Outcome], None],
        failed: Callable[[str, Probe], None],
        was_started: bool = False,
        was_ready: bool = False,
    ) -> None:
        """`was_started` and `was_ready` are what is known of a container found running when the kubelet starts."""
        self._container = container
        self._perform = perform
        self._changed = changed
        self._unhealthy = unhealthy
        self._failed = failed
        self._started = asyncio.Event()
        if container.startup_probe is None or was_started:
            self._started.set()
        self._readiness_passes = container.readiness_probe is None or was_ready
        self._liveness_stopped = False

    @property
    def started(self) -> bool:
        return self._started.is_set()

    @property
    def ready(self) -> bool:
        return self.started and self._readiness_passes

    @property
    def has_work(self) -> bool:
        c = self._container
        return c.startup_probe is not None or c.readiness_probe is not None or c.liveness_probe is not None

    def stop_liveness(self) -> None:
        """The pod is ending: only readiness is still of interest."""
        self._liveness_stopped = True

    async def run(self, age: float) -> None:
        """Probe until cancelled or failed; `age` is how many seconds the container runs already."""
        container = self._container
        born = asyncio.get_running_loop().time() - age
        if container.startup_probe is not None and not self.started:
            if not await self._probe_startup(container.startup_probe, born):
                return
            self._started.set()
            self._changed()
        async with asyncio.TaskGroup() as tasks:
            if container.liveness_probe is not None:
                tasks.create_task(self._probe_liveness(container.liveness_probe, born))
            if container.readiness_probe is not None:
                tasks.create_task(self._probe_readiness(container.readiness_probe, born))

    async def _probe_startup(self, probe: Probe, born: float) -> bool:
        state = ProbeState(probe, None)
        await _sleep_until(born + probe.initial_delay_seconds)
        while not self._liveness_stopped:
            if await self._try("Startup", probe, state):
                if not state.passes:
                    self._failed("startup", probe)
                return bool(state.passes)
            if await self._started_within(probe):
                return True
        return False

    async def _started_within(self, probe: Probe) -> bool:
        """Wait one period, but look more often: at 0.1 s, 0.2 s, 0.4 s ... of it. Only success counts for anything.

        Beyond Kubernetes, whose periods are whole seconds: most programs are up long before the first one is over.
        """
        loop = asyncio.get_running_loop()
        begun, pause = loop.time(), _FIRST_PAUSE
        while pause < probe.period_seconds and not self._liveness_stopped:
            await _sleep_until(begun + pause)
            if (await self._perform(probe)).success:
                return True
            pause *= 2
        await _sleep_until(begun + probe.period_seconds)
        return False

    async def _probe_liveness(self, probe: Probe, born: float) -> None:
        state = ProbeState(probe, True)
        await _sleep_until(born + probe.initial_delay_seconds)
        while not self._liveness_stopped:
            if await self._try("Liveness", probe, state) and not state.passes:
                self._failed("liveness", probe)
                return
            await asyncio.sleep(probe.period_seconds)

    async def _probe_readiness(self, probe: Probe, born: float) -> None:
        state = ProbeState(probe, self._readiness_passes)
        await _sleep_until(born + probe.initial_delay_seconds)
        while True:
            if await self._try("Readiness", probe, state) and bool(state.passes) != self._readiness_passes:
                self._readiness_passes = bool(state.passes)
                self._changed()
            await asyncio.sleep(probe.period_seconds)

    async def _try(self, kind: str, probe: Probe, state: ProbeState) -> bool:
        outcome = await self._perform(probe)
        if outcome.success is not True and not (self._liveness_stopped and kind != "Readiness"):
            self._unhealthy(kind, outcome)
        if outcome.success is None:
            return False  # an error of ours: Kubernetes throws such a result away
        return state.feed(outcome.success)


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))
