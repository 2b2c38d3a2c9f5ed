"""The containers of one pod as the kubelet follows them: runs, exits, probes and why one waits.

State of a pod worker, changed only from the event loop; nothing here waits for the runtime. Start and stop are in
`launcher` and `termination`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from bridgehead.objects.core import Pod

from .backoff import BackOff, crash_back_off, format_duration
from .launcher import run_of
from .plan import Run
from .probes import ContainerProbes
from .runtimes.runtime import ContainerInfo
from .status import Waiting, known_runs, lost

LOST = "ContainerStatusUnknown"
# How long the first word (ErrImagePull) stays before it becomes ImagePullBackOff.
_PULL_ERROR_SHOWN_SECONDS = 3.0


class PodContainers:
    """`runs` and `previous` are by container name: the newest run, and the one before it."""

    def __init__(self, pod: Pod, changed: Callable[[], None]) -> None:
        self.notify = changed
        self._exits: dict[str, asyncio.Event] = {}
        self._crashes = crash_back_off(pod.spec.priority_class_name)
        self._holds: dict[str, float] = {}
        self.pulls = BackOff()
        self.waiting: dict[str, Waiting] = {}
        self.probes: dict[str, ContainerProbes] = {}
        self.attempts: dict[str, int] = {}
        self._pull_failures: dict[str, float] = {}
        status = pod.status
        self.runs, self.previous = known_runs(status.init_container_statuses + status.container_statuses, time.time())
        for name, run in self.runs.items():
            self.attempts[name] = run.attempt

    def adopt(self, info: ContainerInfo) -> None:
        """Take over what the runtime says of a container; old news is ignored."""
        known, run = self.runs.get(info.name), run_of(info)
        if known is not None:
            if run.attempt < known.attempt:
                return
            if run.attempt > known.attempt:
                self.previous[info.name] = known
        self.set_run(info.name, run)

    def set_run(self, name: str, run: Run) -> None:
        """A new run, or a new state of it. A run that has ended stays ended."""
        known = self.runs.get(name)
        # One that could not be started has no id, as the one before it may have none.
        is_known = known is not None and (known.id, known.attempt) == (run.id, run.attempt)
        if known is not None and is_known and not known.is_running and known.reason != LOST:
            return
        self.runs[name] = run
        self.attempts[name] = max(run.attempt, self.attempts.get(name, 0))
        if not run.is_running:
            self.exited(run.id).set()
            self.probes.pop(name, None)
        self.notify()

    def exited(self, run_id: str) -> asyncio.Event:
        """Set once that run has ended."""
        return self._exits.setdefault(run_id, asyncio.Event())

    def running(self) -> list[str]:
        return [name for name, run in self.runs.items() if run.is_running]

    def is_started(self, name: str) -> bool:
        probes = self.probes.get(name)
        return probes is not None and probes.started

    def is_ready(self, name: str) -> bool:
        probes = self.probes.get(name)
        return probes is not None and probes.ready

    # --- Restarts ---------------------------------------------------------------------------------------

    def next_attempt(self, name: str) -> int:
        return self.attempts[name] + 1 if name in self.attempts else 0

    def not_before(self, name: str, run: Run | None) -> float:
        """Until when a container waits before it is started (again)."""
        hold = self._holds.get(name, 0.0)
        if run is None or run.finished_at is None:
            return hold
        return max(hold, self._crashes.until(name, run.finished_at))

    def started(self, name: str, before: Run | None, run: Run, now: float) -> None:
        """The container has been started: `run` follows `before`, and whatever it waited for is over."""
        if before is not None and before.finished_at is not None:
            self._crashes.retry(name, before.finished_at, now)
            self.previous[name] = before
        self._holds.pop(name, None)
        self.waiting.pop(name, None)
        self.set_run(name, run)

    def refused(self, name: str, reason: str, message: str, now: float) -> None:
        """The container can't be started; it is tried again, after longer and longer waits."""
        self.pulls.retry(name, now, now)
        self._holds[name] = now + self.pulls.delay(name)
        self._pull_failures[name] = now
        self.waiting[name] = Waiting(reason, message)

    def wait_all(self, names: Iterable[str], error: Exception) -> None:
        """No container can be started: the pod's sandbox cannot be made."""
        for name in names:
            self.waiting[name] = Waiting("CreatePodSandboxError", str(error))

    def release_holds(self) -> None:
        """Something a container may have waited for has changed: try again now (crashes excepted)."""
        for name, waiting in self.waiting.items():
            if waiting.reason.startswith("CreateContainer"):
                self._holds.pop(name, None)

    def crash_wait(self, name: str) -> str:
        """The waiting time as the user is told."""
        return format_duration(self._crashes.delay(name))

    def lose_sandbox(self, now: float) -> None:
        """The pod's namespaces are gone, with all its processes."""
        for name in self.running():
            self.set_run(name, lost(self.runs[name], now))

    def begin_sandbox(self, init_names: list[str]) -> None:
        """A new sandbox after an old one: init containers start over, their attempts go on counting."""
        self.waiting.clear()
        for name in init_names:
            run = self.runs.pop(name, None)
            if run is not None:
                self.previous[name] = run
        self.runs = {name: msgspec.structs.replace(run, is_stale=True) for name, run in self.runs.items()}

    # --- Images ------------------------------------------------------------------------------------------

    def next_pull_word(self) -> float | None:
        """When an ErrImagePull is due to become ImagePullBackOff."""
        due = [
            since + _PULL_ERROR_SHOWN_SECONDS
            for name, since in self._pull_failures.items()
            if name in self.waiting and self.waiting[name].reason == "ErrImagePull"
        ]
        return min(due, default=None)

    def is_pull_word_due(self, name: str, now: float) -> bool:
        return now >= self._pull_failures.get(name, 0.0) + _PULL_ERROR_SHOWN_SECONDS
