"""Follows the connection of a trace at a node: `listen` runs in the node's network namespace while it is made.

`await_table` runs in the same namespace, and returns when `listen` is ready.
"""

from __future__ import annotations

import errno
import socket
import time

import msgspec

from bridgehead.network.flow_trace import Flow, FlowTrace, TraceEvent, table_exists
from bridgehead.network.host_paths import find_path

_LOOK_SECONDS = 0.002


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """`seconds`: until the connection must be made and over. `idle_seconds`: without events after the first one."""

    flow: Flow
    seconds: float
    idle_seconds: float = 0.15


class AwaitedTable(msgspec.Struct, frozen=True):
    name: str
    seconds: float


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """The events about the flow's packets. `interfaces`: names of the namespace's interfaces by their indexes."""

    events: list[TraceEvent]
    interfaces: dict[int, str]


def listen(listening: Listening) -> Heard:
    """Follow the flow. Raises OSError, also if the kernel is too old for it."""
    with FlowTrace(listening.flow) as trace:
        events = trace.collect(seconds=listening.seconds, idle_seconds=listening.idle_seconds)
    return Heard(events=events, interfaces=dict(socket.if_nameindex()))


def await_table(awaited: AwaitedTable) -> bool:
    """Return whether the table is there within so many seconds. Raises OSError without the right to look."""
    deadline = time.monotonic() + awaited.seconds
    while not table_exists(awaited.name):
        if time.monotonic() > deadline:
            return False
        time.sleep(_LOOK_SECONDS)
    return True


class RouteFound(msgspec.Struct, frozen=True):
    """`source`: the address that packets get there. `is_on_link`: there is no gateway between."""

    source: str
    interface: str
    is_on_link: bool


def find_route(address: str) -> RouteFound | None:
    """Return the current namespace's route to an address; None without one. Raises OSError."""
    try:
        path = find_path(address)
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ESRCH, errno.EINVAL, errno.EACCES):
            return None
        raise
    if path is None:
        return None
    names = dict(socket.if_nameindex())
    return RouteFound(path.source, names.get(path.link, str(path.link)), path.is_on_link)
