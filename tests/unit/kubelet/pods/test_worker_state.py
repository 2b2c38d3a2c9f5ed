"""The states of a pod worker: every move in the table, and what no sequence of events may do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.pods.worker_state import MOVES, Deletion, PodSyncStatus, WorkerEvent, WorkerState, advance

SYNCING, TERMINATING, TERMINATED, RELEASED, FINISHED = WorkerState
DELETION_REQUESTED, OBJECT_GONE, REJECTED, DEADLINE, EVICTED, PREEMPTED, *OF_CONTAINERS = WorkerEvent
CONTAINERS_FINISHED, CONTAINERS_STOPPED, RESOURCES_RELEASED = OF_CONTAINERS

# The state after each event, by the state before it.
EXPECTED = {
    #                    SYNCING      TERMINATING  TERMINATED  RELEASED  FINISHED
    DELETION_REQUESTED: (TERMINATING, TERMINATING, TERMINATED, RELEASED, FINISHED),
    OBJECT_GONE: (TERMINATING, TERMINATING, TERMINATED, FINISHED, FINISHED),
    REJECTED: (TERMINATING, TERMINATING, TERMINATED, RELEASED, FINISHED),
    DEADLINE: (TERMINATING, TERMINATING, TERMINATED, RELEASED, FINISHED),
    EVICTED: (TERMINATING, TERMINATING, TERMINATED, RELEASED, FINISHED),
    PREEMPTED: (TERMINATING, TERMINATING, TERMINATED, RELEASED, FINISHED),
    CONTAINERS_FINISHED: (TERMINATING, TERMINATING, TERMINATED, RELEASED, FINISHED),
    CONTAINERS_STOPPED: (SYNCING, TERMINATED, TERMINATED, RELEASED, FINISHED),
    RESOURCES_RELEASED: (SYNCING, TERMINATING, RELEASED, RELEASED, FINISHED),
}

events = st.lists(st.sampled_from(WorkerEvent), max_size=20)


def statuses(sequence: list[WorkerEvent]) -> list[PodSyncStatus]:
    """The status before and after each event."""
    found = [PodSyncStatus()]
    for event in sequence:
        found.append(advance(found[-1], event))
    return found


@pytest.mark.parametrize("event", WorkerEvent, ids=lambda event: event.value)
@pytest.mark.parametrize("state", WorkerState, ids=lambda state: state.value)
def test_every_state_handles_every_event(state, event):
    after = EXPECTED[event][list(WorkerState).index(state)]
    assert advance(PodSyncStatus(state), event).state is after


def test_the_table_has_every_state():
    assert set(MOVES) == set(WorkerState)


@given(events)
def test_no_sequence_makes_an_undeclared_transition(sequence):
    for before, after, event in zip(statuses(sequence), statuses(sequence)[1:], sequence, strict=False):
        assert after.state is before.state or MOVES[before.state].get(event) is after.state


@given(events)
def test_a_terminating_pod_never_runs_again(sequence):
    order = list(WorkerState)
    positions = [order.index(status.state) for status in statuses(sequence)]
    assert positions == sorted(positions)
    ended = [status.is_ended for status in statuses(sequence)]
    assert ended == sorted(ended)


@given(events)
def test_the_cause_is_the_event_that_ended_the_sync(sequence):
    for status in statuses(sequence):
        assert (status.cause is None) == status.is_syncing
    causes = {status.cause for status in statuses(sequence)} - {None}
    assert len(causes) <= 1


@given(events)
def test_a_deletion_is_permanent(sequence):
    order = list(Deletion)
    positions = [order.index(status.deletion) for status in statuses(sequence)]
    assert positions == sorted(positions)
    assert (positions[-1] == order.index(Deletion.GONE)) == (OBJECT_GONE in sequence)


@pytest.mark.parametrize(
    ("sequence", "state", "deletion", "cause"),
    [
        (
            [DELETION_REQUESTED, CONTAINERS_STOPPED, RESOURCES_RELEASED, OBJECT_GONE],
            FINISHED,
            "gone",
            DELETION_REQUESTED,
        ),
        ([CONTAINERS_FINISHED, CONTAINERS_STOPPED, RESOURCES_RELEASED], RELEASED, "none", CONTAINERS_FINISHED),
        ([REJECTED, DELETION_REQUESTED, CONTAINERS_STOPPED], TERMINATED, "requested", REJECTED),
        # An object that is gone before the node is done keeps the worker until the node is done.
        ([OBJECT_GONE, CONTAINERS_STOPPED, RESOURCES_RELEASED], RELEASED, "gone", OBJECT_GONE),
    ],
)
def test_typical_lifecycles(sequence, state, deletion, cause):
    assert statuses(sequence)[-1] == PodSyncStatus(state, Deletion(deletion), cause)
