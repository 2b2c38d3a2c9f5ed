"""Tells, once, what is wrong with a Service's objects, or what it does not get: in the log and as Events of it.

`agent.py` reports what compiling found, what the mode lacks, lost claims and the kernel's refusals.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from bridgehead.client import EventRecorder
from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import Problem, Reason, shown

log = logging.getLogger(__name__)

_MOST_TOLD = 10  # of one Service at a time; who has 1,000 bad endpoints need not hear of each
_MOST_REMEMBERED = 1000  # of one Service; whatever is wrong beyond is not told any more


class Complaints:
    """What was told of each Service, until it is deleted. `find` gets the Service, None when it is gone."""

    def __init__(self, recorder: EventRecorder, find: Callable[[ObjectKey], Service | None]) -> None:
        self._recorder = recorder
        self._find = find
        self._told: dict[ObjectKey, frozenset[Problem]] = {}

    def tell(self, key: ObjectKey, problems: Iterable[Problem]) -> None:
        """What was told before is not told again, nor is what comes back after it was gone."""
        told = self._told.get(key, frozenset())
        fresh = sorted(set(problems) - told, key=str)
        if not fresh or len(told) >= _MOST_REMEMBERED:
            return
        self._told[key] = told.union(fresh)
        service = self._find(key)
        for problem in fresh[:_MOST_TOLD]:
            log.warning("Service %s: %s", shown_name(key), problem)
            if service is not None:
                self._recorder.record(service, type="Warning", reason=problem.reason.value, message=problem.text)
        if len(fresh) > _MOST_TOLD:
            log.warning("Service %s: and %d more of the kind", shown_name(key), len(fresh) - _MOST_TOLD)

    def tell_refused(self, key: ObjectKey, words: str) -> None:
        """The kernel refuses the Service, in these words."""
        self.tell(
            key, [Problem(Reason.REFUSED, f"the kernel does not take its rules, which stay as they were: {words}")]
        )

    def forget(self, key: ObjectKey) -> None:
        """The Service is deleted."""
        self._told.pop(key, None)


def shown_name(key: ObjectKey) -> str:
    """An object's name, fit for one log line."""
    text = str(key)
    return text if len(text) <= 160 and text.isprintable() else shown(text)
