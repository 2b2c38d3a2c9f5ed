"""The startup, readiness and liveness probes of one run of a container.

`ContainerProbes` performs the probes periodically and reports changes to the driver. Source: kubelet's `prober`
package.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from bridgehead.objects.core import Container, Probe

from .handlers import Outcome
from .probe_state import ProbeState

_FIRST_PAUSE_SECONDS = 0.1
_PAUSE_FACTOR = 1.4
_LONGEST_STEP_SECONDS = 1.0

Perform = Callable[[Probe], Awaitable[Outcome]]


class ContainerProbes:
    """Runs the probes of one run of a container until it is cancelled.

    `changed()` is called when `started` or `ready` has changed; `report(kind, outcome)` after each probe that failed
    or warns; `failed(kind, probe)` when a liveness or startup probe has reached its failure threshold.
    """

    def __init__(
        self,
        container: Container,
        *,
        perform: Perform,
        changed: Callable[[], None],
        report: Callable[[str, Outcome], None],
        failed: Callable[[str, Probe], None],
        record: Callable[[str, Outcome, float], None] = lambda kind, outcome, seconds: None,
        was_started: bool = False,
        was_ready: bool = False,
    ) -> None:
        """`record(kind, outcome, seconds)` gets every probe. `was_started` and `was_ready` are from the status of a
        container that ran before the kubelet started."""
        self._container = container
        self._perform = perform
        self._changed = changed
        self._report = report
        self._failed = failed
        self._record = record
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
        """Stop startup and liveness probes, since the pod terminates; readiness is still probed."""
        self._liveness_stopped = True

    async def run(self, age: float) -> None:
        """Probe until cancelled or failed; `age` is how long the container has run already, in seconds."""
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
        begun = born + probe.initial_delay_seconds
        await _sleep_until(begun)
        # A program has `failureThreshold` whole periods to start: only what it answers at their ends counts, and is an
        # Event. Kubernetes' first probe comes at some time within the first period.
        if (await self._perform(probe)).success or await self._started_before(begun + probe.period_seconds, probe):
            return True
        while not self._liveness_stopped:
            due = _next_time(probe)
            if await self._try("Startup", probe, state):
                if not state.passes:
                    self._failed("startup", probe)
                return bool(state.passes)
            if await self._started_before(due, probe):
                return True
        return False

    async def _started_before(self, due: float, probe: Probe) -> bool:
        """Wait until `due`; return True early if a probe succeeds 0.1 s, 0.14 s, 0.2 s ... from now.

        Failures of these early probes do not count. Kubernetes has none, and its periods are whole seconds; most
        programs have started long before the first period is over. A start is seen a fifth of its duration late.
        """
        loop = asyncio.get_running_loop()
        begun, pause = loop.time(), _FIRST_PAUSE_SECONDS
        while begun + pause < due and not self._liveness_stopped:
            await _sleep_until(begun + pause)
            if (await self._perform(probe)).success:
                return True
            pause = _next_pause(pause)
            while begun + pause < loop.time():  # the probe took longer
                pause = _next_pause(pause)
        await _sleep_until(due)
        return False

    async def _probe_liveness(self, probe: Probe, born: float) -> None:
        state = ProbeState(probe, True)
        await _sleep_until(born + probe.initial_delay_seconds)
        while not self._liveness_stopped:
            due = _next_time(probe)
            if await self._try("Liveness", probe, state) and not state.passes:
                self._failed("liveness", probe)
                return
            await _sleep_until(due)

    async def _probe_readiness(self, probe: Probe, born: float) -> None:
        state = ProbeState(probe, self._readiness_passes)
        await _sleep_until(born + probe.initial_delay_seconds)
        while True:
            due = _next_time(probe)
            if await self._try("Readiness", probe, state) and bool(state.passes) != self._readiness_passes:
                self._readiness_passes = bool(state.passes)
                self._changed()
            await _sleep_until(due)

    async def _try(self, kind: str, probe: Probe, state: ProbeState) -> bool:
        began = time.perf_counter()
        outcome = await self._perform(probe)
        self._record(kind, outcome, time.perf_counter() - began)
        is_noteworthy = outcome.success is not True or outcome.is_warning
        if is_noteworthy and not (self._liveness_stopped and kind != "Readiness"):
            self._report(kind, outcome)
        if outcome.success is None:
            return False  # the probe could not be performed: Kubernetes ignores such a result
        return state.feed(outcome.success)


def _next_pause(pause: float) -> float:
    return min(pause * _PAUSE_FACTOR, pause + _LONGEST_STEP_SECONDS)


def _next_time(probe: Probe) -> float:
    """Return when the probe after one that begins now is due, on the event loop's clock: a period counts from begin to
    begin, however long a probe takes."""
    return asyncio.get_running_loop().time() + probe.period_seconds


async def _sleep_until(moment: float) -> None:
    await asyncio.sleep(max(0.0, moment - asyncio.get_running_loop().time()))
