"""Report each problem of a Service, or of a pod with host ports, once: in the log and as an Event of the object.

`agent.py` reports problems of compiling, properties that the mode does not support, conflicts and the kernel's
refusals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from bridgehead.client import EventRecorder
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import Problem, Reason, quote

log = logging.getLogger(__name__)

_MAX_REPORTED = 10  # of one Service at a time: 1,000 bad endpoints need no 1,000 Events
_MAX_REMEMBERED = 1000  # of one Service; further problems are not reported
# Problems of one node's kernel or mode. The proxies of all nodes see the other problems, and make one Event of each.
_OF_ONE_NODE = (Reason.REFUSED, Reason.NOT_SUPPORTED)
# EndpointSlices follow a Service whose ports were renamed a moment later: until then its ports are missing (seconds).
SLICES_BOUND = 5.0


class ProblemReporter:
    """The reported problems of each object until it is deleted. `find` returns the object; None: it is deleted."""

    def __init__(self, recorder: EventRecorder, find: Callable[[ObjectKey], Service | Pod | None]) -> None:
        self._recorder = recorder
        self._find = find
        self._reported: dict[ObjectKey, frozenset[Problem]] = {}
        self._missing_ports: dict[ObjectKey, tuple[list[Problem], asyncio.TimerHandle]] = {}

    def report_compiled(self, key: ObjectKey, problems: Iterable[Problem]) -> None:
        """Report all problems of an object as it is now; ports that no endpoint has, if they are missing for longer."""
        others: list[Problem] = []
        missing: list[Problem] = []
        for problem in problems:
            (missing if problem.reason is Reason.PORT_MISMATCH else others).append(problem)
        self.report(key, others)
        waiting = self._missing_ports.get(key)
        if waiting is not None and waiting[0] == missing:
            return
        self._forget_missing_ports(key)
        if missing:
            timer = asyncio.get_running_loop().call_later(SLICES_BOUND, self.report, key, missing)
            self._missing_ports[key] = missing, timer

    def report_missing_ports(self) -> None:
        """Report the ports now that no endpoint has: nothing changes any more."""
        for key, (missing, _) in self._missing_ports.items():
            self.report(key, missing)

    def _forget_missing_ports(self, key: ObjectKey) -> None:
        if (waiting := self._missing_ports.pop(key, None)) is not None:
            waiting[1].cancel()

    def report(self, key: ObjectKey, problems: Iterable[Problem]) -> None:
        """Report problems that were not reported before."""
        reported = self._reported.get(key, frozenset())
        fresh = sorted(set(problems) - reported, key=str)
        if not fresh or len(reported) >= _MAX_REMEMBERED:
            return
        self._reported[key] = reported.union(fresh)
        found = self._find(key)
        noun = "Pod" if isinstance(found, Pod) else "Service"
        for problem in fresh[:_MAX_REPORTED]:
            log.warning("%s %s: %s", noun, quote_name(key), problem)
            if found is not None:
                self._recorder.record(
                    found,
                    type="Warning",
                    reason=problem.reason.value,
                    message=problem.text,
                    is_shared=problem.reason not in _OF_ONE_NODE,
                )
        if len(fresh) > _MAX_REPORTED:
            log.warning("%s %s: and %d more problems", noun, quote_name(key), len(fresh) - _MAX_REPORTED)

    def report_refused(self, key: ObjectKey, text: str) -> None:
        """Report that the kernel refuses the Service. `text` is the kernel's."""
        self.report(key, [Problem(Reason.REFUSED, f"the kernel refuses its rules, which stay as they were: {text}")])

    def forget(self, key: ObjectKey) -> None:
        """Forget a deleted Service."""
        self._reported.pop(key, None)
        self._forget_missing_ports(key)


def quote_name(key: ObjectKey) -> str:
    """Return an object's name for one log line: quoted and shortened if necessary."""
    text = str(key)
    return text if len(text) <= 160 and text.isprintable() else quote(text)
