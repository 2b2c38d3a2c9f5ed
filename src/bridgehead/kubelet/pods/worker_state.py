"""The states of a pod worker, and the moves between them.

Pure: no I/O, no clock, no randomness. `PodWorker` does the work of each state; this module decides which state follows.
Source: kubelet's `pod_workers.go` (SyncPod, TerminatingPod, TerminatedPod, finished).

    SYNCING ──────▶ TERMINATING ──────▶ TERMINATED ──────▶ RELEASED ──────▶ FINISHED
            deleted,            no container      sandbox and         the API server
            finished,           runs any more     volumes are gone    has no such pod
            rejected, too long

No move leads back, so the containers of a pod that has begun to terminate are never started again.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec


class WorkerState(enum.Enum):
    """The states of a worker, in their order."""

    SYNCING = "syncing"  # starts and restarts containers, as `starts_and_restarts` computes
    TERMINATING = "terminating"  # stops the containers
    TERMINATED = "terminated"  # no container runs; writes the last status, removes the sandbox and the volumes
    RELEASED = "released"  # nothing is left on the node; waits for a deletion, then deletes the object
    FINISHED = "finished"  # nothing is left at all


class WorkerEvent(enum.Enum):
    """Events that may move a worker to another state.

    The first two come from the API server, the others from the worker.
    """

    DELETION_REQUESTED = "deletion requested"  # the pod has a deletionTimestamp
    OBJECT_GONE = "object gone"  # the API server has no such pod any more
    REJECTED = "rejected"  # by the node's admission
    DEADLINE_EXCEEDED = "deadline exceeded"  # activeDeadlineSeconds
    EVICTED = "evicted"  # it uses more local storage than it may
    PREEMPTED = "preempted"  # a critical pod needs its room
    CONTAINERS_FINISHED = "containers finished"  # all have exited, and none is to be restarted
    CONTAINERS_STOPPED = "containers stopped"
    RESOURCES_RELEASED = "resources released"  # sandbox, addresses and volumes


class Deletion(enum.Enum):
    """Deletion of the pod's object from the API server."""

    NONE = "none"
    REQUESTED = "requested"
    GONE = "gone"


MOVES: Mapping[WorkerState, Mapping[WorkerEvent, WorkerState]] = {
    WorkerState.SYNCING: {
        WorkerEvent.DELETION_REQUESTED: WorkerState.TERMINATING,
        WorkerEvent.OBJECT_GONE: WorkerState.TERMINATING,
        WorkerEvent.REJECTED: WorkerState.TERMINATING,
        WorkerEvent.DEADLINE_EXCEEDED: WorkerState.TERMINATING,
        WorkerEvent.EVICTED: WorkerState.TERMINATING,
        WorkerEvent.PREEMPTED: WorkerState.TERMINATING,
        WorkerEvent.CONTAINERS_FINISHED: WorkerState.TERMINATING,
    },
    WorkerState.TERMINATING: {WorkerEvent.CONTAINERS_STOPPED: WorkerState.TERMINATED},
    WorkerState.TERMINATED: {WorkerEvent.RESOURCES_RELEASED: WorkerState.RELEASED},
    WorkerState.RELEASED: {WorkerEvent.OBJECT_GONE: WorkerState.FINISHED},
    WorkerState.FINISHED: {},
}
"""Every allowed move. An event that is not in the table leaves the worker in its state."""

_ENDED = frozenset((WorkerState.TERMINATED, WorkerState.RELEASED, WorkerState.FINISHED))


class PodSyncStatus(msgspec.Struct, frozen=True):
    """The state of a worker and its pod's object. `cause` is the event that ended SYNCING; None before it."""

    state: WorkerState = WorkerState.SYNCING
    deletion: Deletion = Deletion.NONE
    cause: WorkerEvent | None = None

    @property
    def is_syncing(self) -> bool:
        return self.state is WorkerState.SYNCING

    @property
    def is_ended(self) -> bool:
        """Whether no container of the pod runs, or will run again."""
        return self.state in _ENDED


def advance(status: PodSyncStatus, event: WorkerEvent) -> PodSyncStatus:
    """Return the status after `event`."""
    state = MOVES[status.state].get(event, status.state)
    cause = event if status.is_syncing and state is not status.state else status.cause
    return PodSyncStatus(state, _deletion_after(status.deletion, event), cause)


def _deletion_after(deletion: Deletion, event: WorkerEvent) -> Deletion:
    if event is WorkerEvent.OBJECT_GONE or deletion is Deletion.GONE:
        return Deletion.GONE
    return Deletion.REQUESTED if event is WorkerEvent.DELETION_REQUESTED else deletion
