"""Coroutines without asyncio: work that waits for processes, as steps that read from top to bottom.

The reactor's callbacks make an outcome known. Steps that await one go on at once, in the order in which they began to
await it. Why not asyncio: see `reactor`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger(__name__)


class Outcome(Generic[T]):
    """A value or an error that is known later. Only the first one counts."""

    __slots__ = ("_error", "_value", "_waiting", "is_known")

    def __init__(self) -> None:
        self.is_known = False
        self._value: T | None = None
        self._error: Exception | None = None
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_awaited(self) -> bool:
        return bool(self._waiting)

    def set(self, value: T) -> None:
        self._conclude(value, None)

    def fail(self, error: Exception) -> None:
        self._conclude(None, error)

    def _conclude(self, value: T | None, error: Exception | None) -> None:
        if self.is_known:
            return
        self.is_known, self._value, self._error = True, value, error
        waiting, self._waiting = self._waiting, []
        for go_on in waiting:
            go_on()

    def call_when_known(self, action: Callable[[], None]) -> None:
        self._waiting.append(action)

    def __await__(self) -> Generator[Outcome[Any], None, T]:
        if not self.is_known:
            yield self
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]  # known


def start(steps: Coroutine[Outcome[Any], None, T]) -> Outcome[T]:
    """Run steps until they await what is not known yet; they go on when it is. Return their outcome.

    A failure that nobody awaits is logged.
    """
    outcome: Outcome[T] = Outcome()

    def go_on() -> None:
        try:
            awaited = steps.send(None)
        except StopIteration as end:
            outcome.set(end.value)
        except Exception as error:
            if not outcome.is_awaited:
                log.exception("unexpected failure in %s", steps)
            outcome.fail(error)
        else:
            awaited.call_when_known(go_on)

    go_on()
    return outcome
