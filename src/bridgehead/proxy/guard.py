"""Keeps others from changing our rules for long: looks when the kernel tells of a change, and repairs. `agent.py` asks.

Where the kernel tells of every change (all rules of a mode are in nf_tables) the mode mends what it is told of, if that
is all that happened. Else, shortly after our own changes, and rarely for safety, it looks at the rules themselves; and
twice a second where the kernel tells nothing (iptables-legacy, IPVS).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

from bridgehead.network.ruleset_events import Author, Commit, RulesetEvents, Touched, try_open

from .changes import FrontendTable
from .mode import NOTHING, Mending, Mode, Repair
from .operating.metrics import ProxyMetrics

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
SETTLE_SECONDS = 0.5  # after our own change: whatever came between, or in it, is seen then

_TRUST = 20  # how much rarer rules are compared one by one where the kernel would have told of a change
_REST = 4  # how many times as long as it took in vain the next look waits: others may change things all the time
_REPAIRS_AT_ONCE = 5  # within the window; more means that somebody fights us
_WINDOW_SECONDS = 60.0
_LONGEST_DELAY = 30.0
_HEARD_AT_ONCE = 30_000  # transactions, or things they touched, until the next look; more are not remembered


class RuleGuard:
    """`start`, wrap our own changes in `ours`, and call `check` when `due_in` seconds have passed or `wake` was called.

    `safety_seconds`: how often every rule is compared though nobody is known to have changed any.
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
        self._pace = RepairPace()
        self._events: RulesetEvents | None = None
        self._aside: list[list[Commit] | None] | None = None  # what is heard while we look, and maybe repair
        self._heard: dict[int, tuple[Touched, ...]] = {}
        self._heard_touched = 0  # how much those touched
        self._authors: dict[Author, None] = {}  # of the changes that concern us since the last look
        self._is_touched = False
        self._saw_others = False  # changes that don't concern us: they, too, move the ruleset's generation
        self._due = now() + SETTLE_SECONDS
        self._compared = now()
        self._not_before = 0.0  # since somebody fights us
        self._rest_until = 0.0  # since it took long to look, and nothing was wrong
        self._was_touched_in_vain = False  # though somebody had touched our rules

    def start(self) -> None:
        if self._mode.watched is None:
            return
        self._events = self._open_events()
        if self._events is None:
            log.debug("the kernel does not tell who changes rules; looking every %g s", POLL_SECONDS)
        else:
            asyncio.get_running_loop().add_reader(self._events.fileno(), self._read)

    def close(self) -> None:
        if self._events is not None:
            asyncio.get_running_loop().remove_reader(self._events.fileno())
            self._events.close()
            self._events = None

    @contextlib.contextmanager
    def ours(self) -> Iterator[None]:
        """What happens inside is our own doing."""
        if self._events is not None:
            self._events.pause()
            self._read()
        try:
            yield
        finally:
            if self._events is not None:
                self._events.resume()
            self._due = min(self._due, self._now() + SETTLE_SECONDS)

    def due_in(self) -> float:
        """Seconds until `check` has something to do."""
        return max(max(self._due, self._not_before) - self._now(), 0.0)

    async def check(self, table: FrontendTable) -> None:
        """Look, if it is time to, and repair. Raises TransactionFailed and OSError."""
        if self.due_in() > 0:
            return
        begun = self._now()
        self._read()
        authors, self._authors = list(self._authors), {}
        is_touched, self._is_touched = self._is_touched, False
        saw_others, self._saw_others = self._saw_others, False
        self._due = begun + (POLL_SECONDS if self._events is None else self._safety_seconds)
        self._aside = []
        repair: Repair | None = None
        try:
            repair = await self._mend(table)
            if repair is None or (repair.is_nothing and not is_touched):
                if begun < self._rest_until and (not is_touched or self._was_touched_in_vain):
                    self._due = min(self._due, self._rest_until)
                else:
                    repair = await self._verify(table, begun, is_touched=is_touched, saw_others=saw_others)
        except BaseException:
            is_touched = True
            raise
        finally:
            self._read()
            aside, self._aside = self._aside, None
            if repair is None:  # that is for next time
                self._is_touched, self._saw_others = is_touched, saw_others
                self._authors = dict.fromkeys([*authors, *self._authors])
        if repair is not None and not repair.is_nothing:
            # What was heard meanwhile is this repair, or came with it.
            self._due = min(self._due, self._now() + SETTLE_SECONDS)
            self._tell(repair, authors)
            return
        if repair is not None and authors:
            log.info("%s changed our rules, which are as they should be", _names(authors))
        # Rules whose state was not known were written anew, maybe: that was this process, and no news.
        for some in aside:
            self._consider(some and [commit for commit in some if commit.author.name != _own_name()])

    async def _mend(self, table: FrontendTable) -> Repair | None:
        """Put right what was heard of, if that is all there was."""
        heard, self._heard, self._heard_touched = self._heard, {}, 0
        return await self._mode.mend(table, heard) if isinstance(self._mode, Mending) else None

    async def _verify(self, table: FrontendTable, begun: float, *, is_touched: bool, saw_others: bool) -> Repair:
        """Look at the rules themselves."""
        if self._events is None:
            thoroughly = begun - self._compared >= self._safety_seconds
        elif saw_others:  # they moved the ruleset's generation, which else would tell that nothing has happened
            thoroughly = is_touched or begun - self._compared >= _TRUST * self._safety_seconds
        else:
            thoroughly = True  # costs nothing if our own changes were the only ones, and if not, they came in between
        repair = await self._mode.verify(table, thoroughly=thoroughly)
        if thoroughly:
            self._compared = begun
        ended = self._now()
        if repair is None:  # else `RepairPace` says how soon the next may come
            self._rest_until = ended + _REST * (ended - begun)
            self._was_touched_in_vain = is_touched
        return repair or NOTHING

    def _read(self) -> None:
        if self._events is None:
            return
        try:
            found = self._events.read()
        except OSError as error:
            log.warning("the kernel no longer tells who changes rules, looking every %g s: %s", POLL_SECONDS, error)
            self.close()
            found = None
        self._remember(found)
        if self._aside is not None:
            self._aside.append(found)
        else:
            self._consider(found)

    def _remember(self, heard: list[Commit] | None) -> None:
        """For the mode, which mends what it knows of without looking at the rest."""
        for commit in heard or ():
            if commit.is_whole:
                self._heard[commit.generation] = ours = tuple(filter(self._concerns_us, commit.touched))
                self._heard_touched += len(ours)
        if heard is None or max(self._heard_touched, len(self._heard)) > _HEARD_AT_ONCE:
            self._heard, self._heard_touched = {}, 0

    def _consider(self, heard: list[Commit] | None) -> None:
        """Find out whether it concerns us. None is too much at once: anything may have been changed."""
        if heard is None:
            self._touched()
        for commit in heard or ():
            if any(map(self._concerns_us, commit.touched)):
                self._authors[commit.author] = None
                self._touched()
            else:
                self._saw_others = True

    def _concerns_us(self, touched: Touched) -> bool:
        watched = self._mode.watched
        return watched is None or watched.concerns(touched.table, touched.chain)

    def _touched(self) -> None:
        self._is_touched = True
        self._due = self._now()
        self._wake()

    def _tell(self, repair: Repair, authors: list[Author]) -> None:
        self._metrics.repairs.inc()
        what = "tables or rules and " if repair.structure else ""
        delay = self._pace.repaired(self._now())
        self._not_before = max(self._not_before, self._now() + delay)
        log.warning("%s changed our rules; repaired %s%d elements", _names(authors), what, repair.elements)
        if delay:
            log.warning("it happened %d times within a minute; the next repair waits %g s", self._pace.recently, delay)


@lru_cache(maxsize=1)
def _own_name() -> str:
    """As the kernel tells it; "" where it can't be read."""
    try:
        return Path("/proc/self/comm").read_text().rstrip("\n")
    except OSError:
        return ""


def _names(authors: list[Author]) -> str:
    return " and ".join(map(str, authors[:3])) or "somebody else"


class RepairPace:
    """Repairs are made at once, unless there are so many that somebody must be fighting us. Pure."""

    def __init__(self) -> None:
        self._times: deque[float] = deque()

    @property
    def recently(self) -> int:
        return len(self._times)

    def repaired(self, now: float) -> float:
        """How many seconds the next repair has to wait."""
        while self._times and now - self._times[0] >= _WINDOW_SECONDS:
            self._times.popleft()
        self._times.append(now)
        excess = len(self._times) - _REPAIRS_AT_ONCE
        return 0.0 if excess <= 0 else min(2.0 ** (excess - 1), _LONGEST_DELAY)
