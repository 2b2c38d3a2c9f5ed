"""The time that a request spends on waiting for others: for a seat, and for webhooks.

Kubernetes' service levels are about the server's own time, so this time is subtracted (source:
apiserver/pkg/endpoints/request/webhook_duration.go).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Waits:
    """The seconds of one request."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


_current: ContextVar[Waits] = ContextVar("waits", default=Waits())  # noqa: B039 - outside of requests nobody reads it


def begin_waits() -> Waits:
    """Begin to add up the waits of the request that this task carries out."""
    waits = Waits()
    _current.set(waits)
    return waits


def record_wait(seconds: float) -> None:
    """Add a wait of the present request."""
    _current.get().seconds += seconds


@contextmanager
def recorded_wait() -> Iterator[None]:
    """Add the time of a block to the waits of the present request."""
    began = time.perf_counter()
    try:
        yield
    finally:
        record_wait(time.perf_counter() - began)
