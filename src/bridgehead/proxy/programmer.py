"""Bring the kernel to the table of Frontends, without the Services that it refuses. `agent.py` calls it.

A change goes to the kernel as one transaction. If the transaction fails, all rules are written anew. If that fails,
too, `bisection.py` finds the Services whose rules the kernel refuses. A refused Service keeps its earlier rules (none
if it is new) and is retried later (`refusals.py`). All other Services are served in the meantime.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Mapping

from bridgehead.objects.meta import ObjectKey

from .bisection import Batch, Fallbacks, Rejection, drive, find_refused, parts_to_withhold, suspects
from .errors import NotFound, Refused, TooBig, TransactionFailed
from .frontend_table import FrontendTable, Update
from .frontends import ServiceFrontends
from .mode import Mode, Validating
from .operating.metrics import ProxyMetrics
from .refusals import Refusals

log = logging.getLogger(__name__)

Compiled = ServiceFrontends | None
Services = dict[ObjectKey, Compiled]

_BLAMES_A_SERVICE = (Refused, NotFound)


class Phase(enum.Enum):
    """The state of the kernel's rules. `Programmer.program` starts and ends in one of the first three."""

    NEW = "no sync since the start, or since the settings changed"
    STALE = "the kernel's rules are not known to be right"
    CURRENT = "the kernel has the table but for the pending updates"
    APPLYING = "sending the pending updates"
    SYNCING = "writing all rules"
    SEARCHING = "looking for the Services that the kernel refuses"
    RETRYING = "trying Services again that the kernel refused earlier"


MOVES: Mapping[Phase, frozenset[Phase]] = {
    Phase.NEW: frozenset({Phase.NEW, Phase.SYNCING}),
    Phase.STALE: frozenset({Phase.NEW, Phase.STALE, Phase.SYNCING}),
    Phase.CURRENT: frozenset({Phase.NEW, Phase.STALE, Phase.APPLYING, Phase.RETRYING}),
    Phase.APPLYING: frozenset({Phase.CURRENT, Phase.SYNCING, Phase.STALE}),
    Phase.SYNCING: frozenset({Phase.CURRENT, Phase.SEARCHING, Phase.NEW, Phase.STALE}),
    Phase.SEARCHING: frozenset({Phase.CURRENT, Phase.NEW, Phase.STALE}),
    Phase.RETRYING: frozenset({Phase.CURRENT, Phase.STALE}),
}


class Programmer:
    """`install` the compiled Services, then `program` the kernel. These two alone change the table.

    `on_refused` is called with a Service and the kernel's text, for each attempt that the kernel refuses.
    """

    def __init__(
        self,
        mode: Mode,
        metrics: ProxyMetrics,
        on_refused: Callable[[ObjectKey, str], None],
        *,
        refusals: Refusals | None = None,
    ) -> None:
        self.table = FrontendTable()
        self.refusals = refusals if refusals is not None else Refusals()
        self.phase = Phase.NEW
        self._mode = mode
        self._metrics = metrics
        self._on_refused = on_refused
        self._fallbacks: Services = {}  # what the Services that changed since the last success had then
        self._pending: list[Update] = []  # updates of the table since the last transaction
        self._elements = 0  # sent by the present `program`
        self._has_written_all = False  # in the present `program`

    def require_sync(self) -> None:
        """Write all rules next: the kernel's are not known to be right."""
        if self.phase is not Phase.NEW:
            self._move(Phase.STALE)

    def restart(self) -> None:
        """Write all rules next, without fallbacks: this node's facts or settings changed."""
        self._move(Phase.NEW)

    def install(self, key: ObjectKey, compiled: Compiled) -> Update:
        """Put a compiled Service into the table. None: the Service is deleted."""
        self._fallbacks.setdefault(key, self.table.compiled(key))
        return self._put(key, compiled)

    async def program(self) -> bool:
        """Bring the kernel to the table. Returns whether anything was sent.

        Raises TransactionFailed or OSError if no Service is to blame, or the kernel accepts nothing at all; the next
        call then writes all rules.
        """
        fallbacks, self._fallbacks = self._fallbacks, {}
        refused = {key: fallbacks.pop(key) for key in list(fallbacks) if key in self.refusals}
        if self.phase is Phase.CURRENT and not self._pending and not refused:
            return False
        begun, self._elements, self._has_written_all = time.monotonic(), 0, False
        is_new = self.phase is Phase.NEW
        to_retry = self._replace(refused)  # until each is tried alone
        try:
            await self._send({} if is_new else fallbacks)
            await self._retry(to_retry)
        except BaseException:
            self._replace({key: refused[key] for key in to_retry})
            for key in to_retry:
                self.refusals.hurry(key)
            self._fallbacks = {key: compiled for key, compiled in fallbacks.items() if key not in self.refusals}
            has_synced = not is_new or self.phase is Phase.RETRYING
            self._move(Phase.STALE if has_synced else Phase.NEW)
            raise
        self._measure(time.monotonic() - begun)
        return True

    def _move(self, phase: Phase) -> None:
        if phase not in MOVES[self.phase]:
            raise AssertionError(f"{self.phase.name} -> {phase.name} is not allowed")
        self.phase = phase

    # --- Sending ---------------------------------------------------------------------------------------------

    async def _send(self, fallbacks: Services) -> None:
        """Apply the pending updates, or write all rules, or find the Services that prevent both."""
        if self.phase is Phase.CURRENT:
            if not self._pending:
                return
            self._move(Phase.APPLYING)
            try:
                await self._apply()
            except TransactionFailed as error:
                self._metrics.partial_failures.inc()
                log.warning("a change was refused, writing all rules anew: %s", error)
            else:
                self._move(Phase.CURRENT)
                return
        self._move(Phase.SYNCING)
        try:
            await self._sync()
        except _BLAMES_A_SERVICE as error:
            self._metrics.failures.inc()
            log.warning("the kernel refuses the rules; looking for the Service it refuses: %s", error)
            self._move(Phase.SEARCHING)
            await self._search(fallbacks)
        self._move(Phase.CURRENT)

    async def _apply(self) -> None:
        pending, self._pending = self._pending, []
        if pending:
            self._elements += await self._mode.apply(pending)

    async def _sync(self) -> None:
        self._pending.clear()
        self._has_written_all = True
        self._elements += await self._mode.sync(self.table)

    # --- Finding refused Services ----------------------------------------------------------------------------

    async def _search(self, fallbacks: Services) -> None:
        """Program all Services but those that the kernel refuses. Raises TransactionFailed: no Service is to blame."""
        groups = suspects(fallbacks, self.table.services())
        for group in groups:
            if await self._search_by_validation(group):
                return
        for group in groups:
            if await self._search_by_trial(group):
                return
        await self._sync()

    async def _search_by_validation(self, fallbacks: Fallbacks[ServiceFrontends]) -> bool:
        """Search without changing the kernel's rules, if the mode can. False: this search did not help."""
        if not isinstance(self._mode, Validating):
            return False
        refused = await self._validate(self._mode, {key: self.table.compiled(key) for key in fallbacks})
        if not refused or await self._sync_without({key: fallbacks[key] for key in refused}) is None:
            return False
        self._record_refused(refused)
        return True

    async def _search_by_trial(self, fallbacks: Fallbacks[ServiceFrontends]) -> bool:
        """Leave out Services until the kernel accepts the rest, then add them in smaller and smaller batches.

        False: leaving out all of them did not help. The withheld Services miss their change, or all their rules,
        for the time of the search.
        """
        for part in parts_to_withhold(list(fallbacks)):
            withheld = await self._sync_without({key: fallbacks[key] for key in part})
            if withheld is not None:
                self._record_refused(await self._add(withheld))
                return True
        return False

    async def _sync_without(self, fallbacks: Services) -> Services | None:
        """Write all rules with these fallbacks. Returns what they replaced; None: refused, the table is unchanged."""
        withheld = self._replace(fallbacks)
        try:
            await self._sync()
        except BaseException as error:
            self._replace(withheld)
            if isinstance(error, _BLAMES_A_SERVICE):
                return None
            raise
        return withheld

    async def _validate(self, mode: Validating, services: Services) -> dict[ObjectKey, str]:
        """Return the Services that the kernel would refuse, with its texts."""

        async def attempt(batch: Batch) -> Rejection:
            table = FrontendTable()
            for key in batch:
                table.update(key, services[key])
            try:
                await mode.validate(table)
            except _BLAMES_A_SERVICE as error:
                return str(error)
            except TooBig as error:
                return str(error) if len(batch) > 1 else None  # in smaller batches; a single Service is not to blame
            return None

        return await drive(find_refused(services), attempt)

    async def _add(self, services: Services) -> dict[ObjectKey, str]:
        """Add Services to the kernel's rules. Returns the refused ones, which are unchanged, and the kernel's texts."""
        untried = dict(services)

        async def attempt(batch: Batch) -> Rejection:
            before = self._replace({key: services[key] for key in batch})
            try:
                await self._apply()
            except _BLAMES_A_SERVICE as error:
                self._metrics.partial_failures.inc()
                self._replace(before)
                await self._sync()
                return str(error)
            for key in batch:
                del untried[key]
            return None

        try:
            return await drive(find_refused(services), attempt)
        except BaseException:
            self._replace(untried)
            raise

    async def _retry(self, services: Services) -> None:
        """Try each refused Service alone, unless it was tried a moment ago, and remove it from `services`."""
        if services:
            self._move(Phase.RETRYING)
        for key, compiled in list(services.items()):
            if self.refusals.may_try(key):
                refused: dict[ObjectKey, str] = {}
                if compiled is not None and isinstance(self._mode, Validating):
                    refused = await self._validate(self._mode, {key: compiled})
                refused = refused or await self._add({key: compiled})
                if refused:
                    self._record_refused(refused)
                else:
                    self.refusals.accept(key)
            del services[key]
        if self.phase is Phase.RETRYING:
            self._move(Phase.CURRENT)

    def _record_refused(self, refused: Mapping[ObjectKey, str]) -> None:
        for key, text in refused.items():
            self.refusals.refuse(key)
            self._on_refused(key, text)

    # --- The table -------------------------------------------------------------------------------------------

    def _put(self, key: ObjectKey, compiled: Compiled) -> Update:
        update = self.table.update(key, compiled)
        if update.changes or update.old_cluster_ips != update.new_cluster_ips:
            self._pending.append(update)
        return update

    def _replace(self, services: Mapping[ObjectKey, Compiled]) -> Services:
        """Put Services into the table. Returns what they replaced."""
        replaced = {key: self.table.compiled(key) for key in services}
        for key, compiled in services.items():
            self._put(key, compiled)
        return replaced

    def _measure(self, seconds: float) -> None:
        self._metrics.record_sync(self._elements, seconds, is_full=self._has_written_all, refused=len(self.refusals))
        log.log(
            logging.INFO if self._has_written_all else logging.DEBUG,
            "%s: %d Frontends, %d elements changed in %.0f ms",
            "full sync" if self._has_written_all else "sync",
            len(self.table),
            self._elements,
            seconds * 1000,
        )
