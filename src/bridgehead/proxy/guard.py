"""Repair rules that another program changed. `agent.py` runs the checks.

If the kernel reports every change (all rules of a mode are in nf_tables), the mode repairs exactly the reported
objects. If reports are missing, shortly after our own changes, and rarely for safety, the rules themselves are read. If
the kernel reports nothing (iptables-legacy, IPVS), they are read twice a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from math import inf
from pathlib import Path

from bridgehead.backoff import delay_after
from bridgehead.network.ruleset_events import Author, Commit, RulesetChange, RulesetEvents, try_open

from .frontend_table import FrontendTable
from .mode import NO_REPAIR, Mode, Repair, Repairing
from .operating.metrics import ProxyMetrics

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
SETTLE_SECONDS = 0.5  # after our own change: a check finds changes that coincided with it
LONGEST_SETTLE_SECONDS = 2.0  # after the first of several own changes: a check lists all rules anew

_EVENTS_FACTOR = 20  # times the safety period: all elements are compared that rarely if the kernel reports changes
_PAUSE_FACTOR = 4  # times the duration of a check that found nothing: the pause after it
_REPAIRS_AT_ONCE = 5  # within the window; more means that another program fights us
_WINDOW_SECONDS = 60.0
_FIRST_DELAY = 1.0
_LONGEST_DELAY = 30.0
_MAX_OBSERVED = 30_000  # transactions, or objects that they changed, between two checks; more are dropped


class RuleGuard:
    """Watches and repairs the rules of a mode.

    Call `start`, wrap our own changes in `ours`, and call `check` when `due_in` seconds have passed or `wake` was
    called. `safety_seconds`: the period in which every rule is compared even without a known change.
    """

    def __init__(
        self,
        mode: Mode,
        metrics: ProxyMetrics,
        wake: Callable[[], None],
        safety_seconds: float,
        *,
        open_events: Callable[[], RulesetEvents | None] = try_open,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._mode = mode
        self._metrics = metrics
        self._wake = wake
        self._safety_seconds = safety_seconds
        self._open_events = open_events
        self._now = now
        self._repair_limiter = RepairRateLimiter()
        self._events: RulesetEvents | None = None
        self._during_check: list[list[Commit] | None] | None = None  # what is observed during a check
        self._observed: dict[int, tuple[RulesetChange, ...]] = {}
        self._observed_objects = 0  # the number of objects that those changed
        self._authors: dict[Author, None] = {}  # of the changes of our rules since the last check
        self._is_changed = False
        self._saw_others = False  # changes of other rules: these advance the ruleset's generation as well
        self._due = now() + SETTLE_SECONDS
        # The check of own changes: when it is due, and when it is at the latest, if more of them follow.
        self._settled: tuple[float, float] | None = None
        self._compared = now()
        self._not_before = 0.0  # the pause between repairs if another program fights us
        self._pause_until = 0.0  # the pause after a check that found nothing
        self._was_unfounded = False  # the last check found nothing, though our rules had been changed

    def start(self) -> None:
        """Subscribe to the kernel's reports, if it has them for this mode."""
        if self._mode.watched is None:
            return
        self._events = self._open_events()
        if self._events is None:
            log.debug("the kernel does not report changes of rules; checking every %g s", POLL_SECONDS)
        else:
            asyncio.get_running_loop().add_reader(self._events.fileno(), self._read)

    def close(self) -> None:
        if self._events is not None:
            asyncio.get_running_loop().remove_reader(self._events.fileno())
            self._events.close()
            self._events = None

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """Wrap our own changes of rules."""
        if self._events is not None:
            self._events.pause()
            self._read()
        try:
            yield
        finally:
            if self._events is not None:
                self._events.resume()
            self._let_settle()

    def _let_settle(self) -> None:
        """Check our own changes when no others follow, but not those whose check is due already."""
        now = self._now()
        settled, latest = (inf, now + LONGEST_SETTLE_SECONDS) if self._settled is None else self._settled
        if settled > now:
            self._settled = min(now + SETTLE_SECONDS, latest), latest

    def due_in(self) -> float:
        """Return the seconds until the next `check`."""
        due = self._due if self._settled is None else min(self._due, self._settled[0])
        return max(max(due, self._not_before) - self._now(), 0.0)

    async def check(self, table: FrontendTable) -> None:
        """Check the rules if a check is due, and repair them. Raises TransactionFailed and OSError."""
        if self.due_in() > 0:
            return
        begun = self._now()
        self._read()
        authors, self._authors = list(self._authors), {}
        is_changed, self._is_changed = self._is_changed, False
        saw_others, self._saw_others = self._saw_others, False
        self._due = begun + (POLL_SECONDS if self._events is None else self._safety_seconds)
        self._settled = None
        self._during_check = []
        repair: Repair | None = None
        try:
            repair = await self._repair_observed(table)
            if repair is None or (repair.is_nothing and not is_changed):
                if begun < self._pause_until and (not is_changed or self._was_unfounded):
                    self._due = min(self._due, self._pause_until)
                else:
                    repair = await self._verify(table, begun, is_changed=is_changed, saw_others=saw_others)
        except BaseException:
            is_changed = True
            raise
        finally:
            self._read()
            during, self._during_check = self._during_check, None
            if repair is None:  # the next check starts with what this one knew
                self._is_changed, self._saw_others = is_changed, saw_others
                self._authors = dict.fromkeys([*authors, *self._authors])
        if repair is not None and not repair.is_nothing:
            # The changes observed during the check are this repair, or came with it.
            self._due = min(self._due, self._now() + SETTLE_SECONDS)
            self._report(repair, authors)
            return
        if repair is not None and authors:
            log.info("%s changed rules of this proxy; they are still correct", _names(authors))
        # This process may have written rules whose state was unknown: that is no foreign change.
        for commits in during:
            self._consider(commits and [commit for commit in commits if commit.author.name != _own_name()])

    async def _repair_observed(self, table: FrontendTable) -> Repair | None:
        """Repair the observed changes, if all were observed."""
        observed, self._observed, self._observed_objects = self._observed, {}, 0
        return await self._mode.repair(table, observed) if isinstance(self._mode, Repairing) else None

    async def _verify(self, table: FrontendTable, begun: float, *, is_changed: bool, saw_others: bool) -> Repair:
        """Read the rules, and repair them."""
        if self._events is None:
            thoroughly = begun - self._compared >= self._safety_seconds
        elif saw_others:  # the ruleset's generation advanced, so it cannot prove that our rules are unchanged
            thoroughly = is_changed or begun - self._compared >= _EVENTS_FACTOR * self._safety_seconds
        else:
            thoroughly = True  # free of cost if all changes were our own: the generation proves it
        repair = await self._mode.verify(table, thoroughly=thoroughly)
        if thoroughly:
            self._compared = begun
        ended = self._now()
        if repair is None:  # else `RepairRateLimiter` delays the next one
            self._pause_until = ended + _PAUSE_FACTOR * (ended - begun)
            self._was_unfounded = is_changed
        return repair or NO_REPAIR

    def _read(self) -> None:
        if self._events is None:
            return
        try:
            found = self._events.read()
        except OSError as error:
            log.warning("the kernel no longer reports changes of rules, checking every %g s: %s", POLL_SECONDS, error)
            self.close()
            found = None
        self._remember(found)
        if self._during_check is not None:
            self._during_check.append(found)
        else:
            self._consider(found)

    def _remember(self, commits: list[Commit] | None) -> None:
        """Keep completely observed transactions: the mode repairs what they changed."""
        for commit in commits or ():
            if commit.is_whole:
                self._observed[commit.generation] = ours = tuple(filter(self._concerns_us, commit.changes))
                self._observed_objects += len(ours)
        if commits is None or max(self._observed_objects, len(self._observed)) > _MAX_OBSERVED:
            self._observed, self._observed_objects = {}, 0

    def _consider(self, commits: list[Commit] | None) -> None:
        """Find out whether our rules were changed. `commits` None: reports were lost, so anything may have changed."""
        if commits is None:
            self._mark_changed()
        for commit in commits or ():
            if any(map(self._concerns_us, commit.changes)):
                self._authors[commit.author] = None
                self._mark_changed()
            else:
                self._saw_others = True

    def _concerns_us(self, object_: RulesetChange) -> bool:
        watched = self._mode.watched
        return watched is None or watched.concerns(object_.table, object_.chain)

    def _mark_changed(self) -> None:
        self._is_changed = True
        self._due = self._now()
        self._wake()

    def _report(self, repair: Repair, authors: list[Author]) -> None:
        self._metrics.repairs.inc()
        what = "tables or rules and " if repair.structure else ""
        delay = self._repair_limiter.repaired(self._now())
        self._not_before = max(self._not_before, self._now() + delay)
        log.warning("%s changed our rules; repaired %s%d elements", _names(authors), what, repair.elements)
        if delay:
            log.warning("%d repairs within a minute; the next one waits %g s", self._repair_limiter.recently, delay)


@lru_cache(maxsize=1)
def _own_name() -> str:
    """Return this process's name as the kernel reports it; "": unreadable."""
    try:
        return Path("/proc/self/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def _names(authors: list[Author]) -> str:
    return " and ".join(map(str, authors[:3])) or "another program"


class RepairRateLimiter:
    """Rate limiter of repairs: delays them once they are so many that another program must be reverting them."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    @property
    def recently(self) -> int:
        """The number of repairs within the window."""
        return len(self._times)

    def repaired(self, now: float) -> float:
        """Record a repair. Returns the seconds that the next one has to wait."""
        while self._times and now - self._times[0] >= _WINDOW_SECONDS:
            self._times.popleft()
        self._times.append(now)
        return delay_after(len(self._times) - _REPAIRS_AT_ONCE, _FIRST_DELAY, _LONGEST_DELAY)
