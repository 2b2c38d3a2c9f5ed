"""The state of one pod's containers: runs, exits, probes, back-off, and the reason why a container waits.

Owned by a pod worker and changed only from the event loop. Nothing here waits for the runtime; `driver` does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from bridgehead.kubelet.runtimes.runtime import ContainerInfo
from bridgehead.objects.core import Pod

from .prober import ContainerProbes
from .restart_backoff import crash_backoff, creation_backoff, format_duration, image_backoff
from .runs import RESTARTING_ALL, Run, StartRefused, Waiting, known_runs, lost, run_of

LOST = "ContainerStatusUnknown"
_REMOVED_MESSAGE = "The container is removed because RestartAllContainers in place"
# Time that a container waits with one of these reasons before it becomes ImagePullBackOff or CrashLoopBackOff.
_ERROR_SECONDS = 3.0
_ERRORS = frozenset({"ErrImagePull", "RunContainerError", "PostStartHookError"})
# Reasons for which a container waits that are the node's, and not the pod's or a registry's.
_NODE_ERRORS = frozenset({"CreateContainerError", "ImageInspectError"})


class PodContainers:
    """`runs` and `previous` hold, by container name, the newest run and the run before it.

    `changed()` is called after each change.
    """

    def __init__(self, pod: Pod, changed: Callable[[], None]) -> None:
        self.notify = changed
        self._exits: dict[str, asyncio.Event] = {}
        self._crashes = crash_backoff(pod.spec.priority_class_name)
        self._holds: dict[str, float] = {}
        self._pulls = image_backoff()
        self._creations = creation_backoff()
        self.waiting: dict[str, Waiting] = {}
        self.probes: dict[str, ContainerProbes] = {}
        self.attempts: dict[str, int] = {}
        self._failed_at: dict[str, float] = {}
        self._removed: dict[str, int] = {}  # attempts that `restart_all` has ended
        self._replaced: set[str] = set()  # ids of runs that end so that the next one follows
        status = pod.status
        known = status.init_container_statuses + status.container_statuses + status.ephemeral_container_statuses
        self.runs, self.previous = known_runs(known, time.time())
        for name, run in self.runs.items():
            self.attempts[name] = run.attempt

    def adopt(self, info: ContainerInfo) -> None:
        """Take over what the runtime reports about a container. Reports about older runs are ignored."""
        known, run = self.runs.get(info.name), run_of(info)
        if run.attempt <= self._removed.get(info.name, -1):
            return
        if known is not None:
            if run.attempt < known.attempt:
                return
            if run.attempt > known.attempt:
                self.previous[info.name] = known
        self.set_run(info.name, run)

    def set_run(self, name: str, run: Run) -> None:
        """Record a new run, or a new state of a run. A run that has ended stays ended."""
        known = self.runs.get(name)
        # The attempt counts, too: runs that could not be started have no id.
        is_known = known is not None and (known.id, known.attempt) == (run.id, run.attempt)
        if known is not None and is_known and not known.is_running and known.reason != LOST:
            return
        if run.id in self._replaced:
            run = msgspec.structs.replace(run, is_replaced=True)
        if run == known:  # the runtime lists every container now and then
            return
        self.runs[name] = run
        self.attempts[name] = max(run.attempt, self.attempts.get(name, 0))
        if not run.is_running:
            self.exited(run.id).set()
            self.probes.pop(name, None)
        self.notify()

    def replace_run(self, run_id: str) -> None:
        """Record that a run is being ended so that the next one follows."""
        self._replaced.add(run_id)

    def exited(self, run_id: str) -> asyncio.Event:
        """Return an event that is set once that run has ended."""
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
        """Return the time (seconds since the epoch) before which a container is not started (again)."""
        hold = self._holds.get(name, 0.0)
        if run is None or run.finished_at is None:
            return hold
        return max(hold, self._crashes.until(name, run.finished_at))

    def on_started(self, name: str, before: Run | None, run: Run, now: float) -> None:
        """The container was started: `run` follows `before`, and the container waits no longer."""
        if before is not None and before.finished_at is not None:
            self._crashes.record(name, before.finished_at, now)
            self.previous[name] = before
        self._holds.pop(name, None)
        self.waiting.pop(name, None)
        self.set_run(name, run)

    def on_start_refused(self, name: str, refused: StartRefused, now: float) -> None:
        """The container can't be started; it is retried with back-off."""
        backoff = self._creations if refused.reason in _NODE_ERRORS else self._pulls
        backoff.record(name, now, now)
        self._holds[name] = now + backoff.delay(name)
        self._failed_at[name] = now
        self.waiting[name] = Waiting(refused.reason, str(refused), refused.image)

    def on_start_failed(self, name: str, reason: str, message: str, now: float) -> None:
        """The container, which starts again, has ended since its start was not complete."""
        self._failed_at[name] = now
        self.waiting[name] = Waiting(reason, message)

    def release_holds(self) -> None:
        """An object that a container may have waited for has changed: retry now, except after a crash."""
        for name, waiting in self.waiting.items():
            if waiting.reason.startswith("CreateContainer"):
                self._holds.pop(name, None)

    def forget_back_off(self, name: str) -> None:
        """The container has another image: earlier failures do not count."""
        self._holds.pop(name, None)
        self.waiting.pop(name, None)
        for backoff in (self._crashes, self._pulls, self._creations):
            backoff.forget(name)

    def crash_wait(self, name: str) -> str:
        """Return the present back-off as users see it, for example `1m20s`."""
        return format_duration(self._crashes.delay(name))

    def lose_sandbox(self, now: float) -> None:
        """The sandbox is gone, and with it every process of the pod."""
        for name in self.running():
            self.set_run(name, lost(self.runs[name], now))

    def begin_sandbox(self, init_names: list[str]) -> None:
        """A new sandbox replaces a lost one: init containers run again, and their attempts are counted on."""
        self.waiting.clear()
        for name in init_names:
            run = self.runs.pop(name, None)
            if run is not None:
                self.previous[name] = run
        self.runs = {name: msgspec.structs.replace(run, is_stale=True) for name, run in self.runs.items()}

    def restart_all(self, trigger: str, names: Iterable[str], now: float) -> None:
        """Record that all containers have ended because of the exit of `trigger`.

        All start as if none had ever run, but attempts are counted on, and the next exit of `trigger` waits longer.
        """
        self._crashes.record(trigger, self.runs[trigger].finished_at or now, now)
        for name in names:
            run = self.runs.pop(name, None)
            if run is not None:
                self._removed[name] = run.attempt
                self.previous[name] = Run(
                    attempt=run.attempt + 1,  # as the next run: Kubernetes counts the restart at once
                    image_id=run.image_id,
                    exit_code=137,
                    reason=RESTARTING_ALL,
                    message=_REMOVED_MESSAGE,
                )
                self.waiting[name] = Waiting(RESTARTING_ALL, _REMOVED_MESSAGE)
        self.notify()

    # --- Errors of starts, which become back-offs ---------------------------------------------------------

    def next_error_end(self, names: Iterable[str]) -> float | None:
        """Return when the next error of the containers `names`, which are in back-off, is due to be shown as one; None
        without one."""
        ends = (self._failed_at.get(name, 0.0) + _ERROR_SECONDS for name in names if self._has_error(name))
        return min(ends, default=None)

    def shows_error(self, name: str, now: float) -> bool:
        """Whether a container still waits with the reason of an error."""
        return self._has_error(name) and now < self._failed_at.get(name, 0.0) + _ERROR_SECONDS

    def _has_error(self, name: str) -> bool:
        return name in self.waiting and self.waiting[name].reason in _ERRORS
