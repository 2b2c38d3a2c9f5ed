"""Follows the connection of a trace at a node: `listen` runs in the node's network namespace while it is made.

`await_table` runs in the same namespace, and returns when `listen` is ready.
"""

from __future__ import annotations

import time

import msgspec

from bridgehead.network.flow_trace import Flow, FlowTrace, TraceEvent, table_exists

_LOOK_SECONDS = 0.002


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: until the connection must be made and over. `idle_seconds`: without events after the first one."""

    flow: Flow
    seconds: float
    idle_seconds: float = 0.15


class AwaitedTable(msgspec.Struct, frozen=True):
    name: str
    seconds: float


def listen(listening: Listening) -> list[TraceEvent]:
    """Return the events about the flow's packets. Raises OSError, also if the kernel is too old for it."""
    with FlowTrace(listening.flow) as trace:
        return trace.collect(seconds=listening.seconds, idle_seconds=listening.idle_seconds)


def await_table(awaited: AwaitedTable) -> bool:
    """Return whether the table is there within so many seconds. Raises OSError without the right to look."""
    deadline = time.monotonic() + awaited.seconds
    while not table_exists(awaited.name):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True
