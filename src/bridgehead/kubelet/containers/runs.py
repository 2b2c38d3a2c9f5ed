"""The runs of a container, and the reason why the next run waits.

Pure: no I/O, no clock, no randomness. A run is one process of a container, from its start to its exit. Runs come from
the runtime (`run_of`) or, after a restart of the kubelet, from the pod's stored status (`known_runs`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.kubelet.runtimes.runtime import ContainerInfo
from bridgehead.objects.core import ContainerStateTerminated, ContainerStatus, LinuxContainerUser
from bridgehead.objects.times import parse_time

CONTAINER_ID_PREFIX = "bridgehead://"
# The reason of a run that ended because all containers of the pod are restarted.
RESTARTING_ALL = "RestartingAllContainers"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a container. Times are seconds since the epoch; `finished_at` is None while it runs.

    `is_stale` marks a run in a lost sandbox: it counts for restart policies, but not for initialization. `is_replaced`
    marks a run that the kubelet ended so that the next one follows, whatever the exit code.
    """

    attempt: int
    id: str = ""
    image: str = ""
    image_id: str = ""
    started_at: float | None = None
    finished_at: float | None = None
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    user: LinuxContainerUser | None = None
    is_stale: bool = False
    is_replaced: bool = False

    @property
    def is_running(self) -> bool:
        return self.finished_at is None


class StartRefused(Exception):
    """The container can't be started yet; `reason` and the message are for its waiting state. `image` is missing."""

    def __init__(self, reason: str, message: str, image: str = "") -> None:
        super().__init__(message)
        self.reason = reason
        self.image = image


class Waiting(msgspec.Struct, frozen=True):
    """Why a container is not running (again) yet: the reason and message of its waiting state.

    `image` is the image that is missing: the container's own, or one that it mounts.
    """

    reason: str
    message: str = ""
    image: str = ""


def run_of(info: ContainerInfo) -> Run:
    """Return the run that the runtime reports."""
    return Run(
        attempt=info.attempt,
        id=info.id,
        image=info.image.name,
        image_id=info.image.id,
        started_at=info.started_at,
        finished_at=None if info.state == "running" else info.finished_at or info.started_at,
        exit_code=info.exit_code or 0,
        reason="OOMKilled" if info.is_oom_killed else "",
        message=info.message,
        user=info.user,
    )


def known_runs(statuses: Iterable[ContainerStatus], now: float) -> tuple[dict[str, Run], dict[str, Run]]:
    """Return the newest runs, and the runs before them, from stored statuses; by container name.

    A container that was running counts as lost until the runtime reports it.
    """
    runs: dict[str, Run] = {}
    previous: dict[str, Run] = {}
    for status in statuses:
        ended, last = status.state.terminated, status.last_state.terminated
        if status.state.running is not None:
            running = Run(
                attempt=status.restart_count,
                id=status.container_id.removeprefix(CONTAINER_ID_PREFIX),
                image_id=status.image_id,
                user=_user(status),
                started_at=_moment(status.state.running.started_at),
            )
            runs[status.name] = lost(running, now)
        elif ended is not None or last is not None:
            runs[status.name] = _ended_run(status, ended or last or ContainerStateTerminated(), now)
        if last is not None and (ended is not None or status.state.running is not None):
            previous[status.name] = _ended_run(status, last, now)
    return runs, previous


def lost(run: Run, now: float) -> Run:
    """Return `run` as ended at `now` in an unknown way; as in Kubernetes, it counts as killed."""
    return msgspec.structs.replace(
        run,
        finished_at=now,
        exit_code=137,
        reason="ContainerStatusUnknown",
        message="The container could not be located when the pod was terminated",
    )


def _ended_run(status: ContainerStatus, ended: ContainerStateTerminated, now: float) -> Run:
    return Run(
        attempt=status.restart_count,
        id=ended.container_id.removeprefix(CONTAINER_ID_PREFIX),
        image_id=status.image_id,
        user=_user(status),
        started_at=_moment(ended.started_at),
        finished_at=_moment(ended.finished_at) or now,
        exit_code=ended.exit_code,
        reason=ended.reason,
        message=ended.message,
    )


def _user(status: ContainerStatus) -> LinuxContainerUser | None:
    return status.user.linux if status.user is not None else None


def _moment(text: str | None) -> float | None:
    return parse_time(text) if text else None
