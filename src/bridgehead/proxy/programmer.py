"""Brings the kernel to what the table of Frontends says, without the Services it refuses. `agent.py` drives it.

A change goes to the kernel as one transaction. When that is refused, everything is written anew, and when that is
refused too, some Service is to blame: it is found by halving, keeps what it had before (nothing, if it is new), and is
tried again later. All others are served meanwhile.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping

from bridgehead.objects.meta import ObjectKey

from .changes import FrontendTable, Update
from .errors import NotFound, Refused, TooBig, TransactionFailed
from .frontends import ServiceFrontends
from .mode import Mode, Rehearsing
from .operating.metrics import ProxyMetrics
from .refusals import Refusals

log = logging.getLogger(__name__)

Compiled = ServiceFrontends | None
Services = dict[ObjectKey, Compiled]

_BLAMES_A_SERVICE = (Refused, NotFound)


class Programmer:
    """`install` what was compiled, then `program` it. Only these two change the table.

    `tell_refused` is called with a Service and the kernel's words, for each time it is tried in vain.
    """

    def __init__(
        self,
        mode: Mode,
        metrics: ProxyMetrics,
        tell_refused: Callable[[ObjectKey, str], None],
        *,
        refusals: Refusals | None = None,
    ) -> None:
        self.table = FrontendTable()
        self.refusals = refusals if refusals is not None else Refusals()
        self._mode = mode
        self._metrics = metrics
        self._tell_refused = tell_refused
        self._needs_sync = True
        self._has_synced = False
        self._was_full = False
        self._before: Services = {}  # of what was installed since the last `program`
        self._pending: list[Update] = []  # what the kernel doesn't have yet
        self._undecided: Services = {}  # taken out of the table for a moment
        self._wanted: Services = {}  # what those that were refused are to have, and don't

    def require_sync(self) -> None:
        """The kernel's rules are not known to be what they should be."""
        self._needs_sync = True

    def restart(self) -> None:
        """What a Service had is of no use any more: this node's facts or settings changed."""
        self._needs_sync, self._has_synced = True, False

    def install(self, key: ObjectKey, compiled: Compiled) -> Update:
        """Put what was compiled for a Service into the table. None: it is gone."""
        self._before.setdefault(key, self.table.compiled(key))
        if key in self.refusals:
            self._wanted[key] = compiled
        return self._put(key, compiled)

    async def program(self) -> bool:
        """Bring the kernel to the table. Returns whether anything was sent.

        Raises TransactionFailed or OSError when it isn't the fault of a Service, or the kernel takes nothing at all;
        the next call begins anew.
        """
        before, self._before = self._before, {}
        doubtful = {key: before.pop(key) for key in list(before) if key in self.refusals}
        if not self._pending and not doubtful and not self._needs_sync:
            return False
        begun, self._was_full = time.monotonic(), False
        try:
            doubtful = self._take_out(doubtful)
            elements = await self._send_or_blame(before)
            elements += await self._try_again(doubtful)
        except BaseException:
            for key in self._undecided.keys() & doubtful.keys():
                self.refusals.hurry(key)
                del self._undecided[key]
            self._put_back(dict(self._undecided))
            self._needs_sync = True
            raise
        self._measure(elements, time.monotonic() - begun)
        return True

    # --- Sending ---------------------------------------------------------------------------------------------

    async def _send(self) -> int:
        """Send what is pending, or, where that doesn't work, everything. Returns the elements touched."""
        pending, self._pending = self._pending, []
        if not self._needs_sync:
            if not pending:
                return 0
            try:
                return await self._mode.apply(pending)
            except TransactionFailed as error:
                self._metrics.partial_failures.inc()
                log.warning("a change was refused, writing all rules anew: %s", error)
        self._needs_sync = self._was_full = True
        elements = await self._mode.sync(self.table)
        self._needs_sync, self._has_synced = False, True
        return elements

    async def _send_or_blame(self, before: Services) -> int:
        try:
            return await self._send()
        except _BLAMES_A_SERVICE as error:
            self._metrics.failures.inc()
            log.warning("the kernel refuses the rules; looking for the Service it refuses: %s", error)
            had_synced = self._has_synced
        everything: Services = dict.fromkeys(self.table.services())
        # Who changed last is looked at first: there all others, and what it had itself, are known to be accepted.
        circles = [before, everything] if had_synced and before else [everything]
        for suspects in circles:
            elements = await self._blame_by_rehearsal(suspects)
            if elements is not None:
                return elements
        for suspects in circles:
            elements = await self._blame_by_trial(suspects)
            if elements is not None:
                return elements
        return await self._send()  # it is nobody's fault, then

    # --- Finding who is refused ------------------------------------------------------------------------------

    async def _blame_by_rehearsal(self, before: Services) -> int | None:
        """Find out without touching the kernel's rules, where the mode can. None: nothing was found that way."""
        if not before or not isinstance(self._mode, Rehearsing):
            return None
        refused = await self._rehearse(self._mode, {key: self.table.compiled(key) for key in before})
        if not refused:
            return None
        taken = self._take_out({key: before[key] for key in refused})
        try:
            elements = await self._send()
        except _BLAMES_A_SERVICE:
            self._put_back(taken)
            return None
        for key, words in refused.items():
            self._refuse(key, taken[key], words)
        return elements

    async def _rehearse(self, mode: Rehearsing, wanted: Mapping[ObjectKey, Compiled]) -> dict[ObjectKey, str]:
        """Which of these Services the kernel would refuse, with its words."""
        table = FrontendTable()
        for key, compiled in wanted.items():
            table.update(key, compiled)
        try:
            await mode.rehearse(table)
        except (*_BLAMES_A_SERVICE, TooBig) as error:
            if len(wanted) == 1:
                return {} if isinstance(error, TooBig) else dict.fromkeys(wanted, str(error))
            found: dict[ObjectKey, str] = {}
            for half in _halves(wanted):
                found |= await self._rehearse(mode, {key: wanted[key] for key in half})
            return found
        return {}

    async def _blame_by_trial(self, before: Services) -> int | None:
        """Leave some out until the rest is accepted, then add those in ever smaller parts. None: it isn't they.

        Nobody is left out for long but who is refused.
        """
        if not before:
            return None
        for part in [*_halves(before), list(before)] if len(before) > 1 else [list(before)]:
            wanted = self._take_out({key: before[key] for key in part})
            try:
                elements = await self._send()
            except _BLAMES_A_SERVICE:
                self._put_back(wanted)
                continue
            return elements + await self._add(wanted)
        return None

    async def _add(self, wanted: Services) -> int:
        """Add to what the kernel has; who is refused is left out."""
        before = {key: self.table.compiled(key) for key in wanted}
        for key, compiled in wanted.items():
            self._put(key, compiled)
        pending, self._pending = self._pending, []
        try:
            elements = await self._mode.apply(pending) if pending else 0
        except _BLAMES_A_SERVICE as error:
            words = str(error)
        else:
            for key, compiled in wanted.items():
                if self._decide(key, compiled):
                    self.refusals.accept(key)
                    self._wanted.pop(key, None)
            return elements
        self._metrics.partial_failures.inc()
        self._take_out(before)
        self._needs_sync = True
        elements = await self._send()  # as it was before; the kernel has all of it still
        if len(wanted) == 1:
            for key, compiled in wanted.items():
                self._refuse(key, compiled, words)
            return elements
        for half in _halves(wanted):
            elements += await self._add({key: wanted[key] for key in half})
        return elements

    async def _try_again(self, doubtful: Services) -> int:
        """Each Service that was refused before by itself, if it is time to."""
        elements = 0
        for key, compiled in doubtful.items():
            if not self.refusals.may_try(key):
                self._undecided.pop(key, None)
                continue
            if compiled is not None and isinstance(self._mode, Rehearsing):
                refused = await self._rehearse(self._mode, {key: compiled})
                if refused:
                    self._refuse(key, compiled, refused[key])
                    continue
            elements += await self._add({key: compiled})
        return elements

    def _refuse(self, key: ObjectKey, compiled: Compiled, words: str) -> None:
        self._wanted.setdefault(key, compiled)
        self._undecided.pop(key, None)
        self.refusals.refuse(key)
        self._tell_refused(key, words)

    # --- The table -------------------------------------------------------------------------------------------

    def _put(self, key: ObjectKey, compiled: Compiled) -> Update:
        update = self.table.update(key, compiled)
        if update.changes or update.old_cluster_ips != update.new_cluster_ips:
            self._pending.append(update)
        return update

    def _take_out(self, before: Services) -> Services:
        """Put these in the place of what their Services have, which is returned and remembered."""
        taken = {key: self.table.compiled(key) for key in before}
        self._undecided.update({key: compiled for key, compiled in taken.items() if key not in self._undecided})
        for key, compiled in before.items():
            self._put(key, compiled)
        return taken

    def _put_back(self, taken: Services) -> None:
        """What these had when they were taken out."""
        for key, compiled in taken.items():
            self._put(key, compiled)
            self._decide(key, compiled)

    def _decide(self, key: ObjectKey, compiled: Compiled) -> bool:
        """False: this is not what the Service is to have in the end, but what it had before."""
        if self._wanted.get(key, compiled) is not compiled:
            return False
        self._undecided.pop(key, None)
        return True

    def _measure(self, elements: int, seconds: float) -> None:
        self._metrics.programmed(elements, seconds, is_full=self._was_full, refused=len(self.refusals))
        log.log(
            logging.INFO if self._was_full else logging.DEBUG,
            "%s: %d Frontends, %d elements changed in %.0f ms",
            "full sync" if self._was_full else "sync",
            len(self.table),
            elements,
            seconds * 1000,
        )


def _halves(keys: Iterable[ObjectKey]) -> tuple[list[ObjectKey], list[ObjectKey]]:
    ordered = list(keys)
    middle = len(ordered) // 2
    return ordered[:middle], ordered[middle:]
