"""Captures the packets of a trace's connection at a node: `listen` runs in the node's network namespace meanwhile."""

from __future__ import annotations

import mmap
import socket

import msgspec

from bridgehead.network.flow_trace import Flow, FlowTrace, TraceEvent

_READY, _OVER = 0, 1  # the bytes of a signal


class Signal:
    """Two facts that a process shares with those that it forks from then on: `listen` is ready; the connection is over.

    Other processes cannot share it, so it does not pass through a pickle.
    """

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE)

    @property
    def is_ready(self) -> bool:
        return bool(self._page[_READY])

    @property
    def is_over(self) -> bool:
        return bool(self._page[_OVER])

    def set_ready(self) -> None:
        self._page[_READY] = 1

    def set_over(self) -> None:
        self._page[_OVER] = 1


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: at the most. Before, `signal` ends it."""

    flow: Flow
    signal: Signal
    seconds: float


class FlowEvents(msgspec.Struct, frozen=True, kw_only=True):
    """The events about the flow's packets. `interfaces`: names of the namespace's interfaces by their indexes."""

    events: list[TraceEvent]
    interfaces: dict[int, str]


def listen(listening: Listening) -> FlowEvents:
    """Follow the flow. Raises OSError, also if the kernel is too old for it."""
    with FlowTrace(listening.flow) as trace:
        listening.signal.set_ready()
        events = trace.collect(listening.seconds, lambda: listening.signal.is_over)
    return FlowEvents(events=events, interfaces=dict(socket.if_nameindex()))
