"""The verdict on a run, and the tables of the report and of docs/chaos.md.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .connections import ClientKind, Connection
from .convergence import Convergence
from .effects import HINDRANCES, Effect, Healer, Oracle, effect_of
from .faults import MODES, FaultKind, Occurrence

CONVERGED_WITHIN = 10.0
_MOST_LINES = 40
_MOST_CHARACTERS = 200  # of what was last to converge
_STEP_SECONDS = 2


@dataclass(frozen=True)
class Observed:
    """All that was seen in one run."""

    mode: str
    begun: float
    seconds: float
    used: Sequence[Connection]  # what clients do again and again; without times
    occurrences: Sequence[Occurrence]
    impossible: Sequence[tuple[FaultKind, str]]
    made: Counter[ClientKind]
    failed: Sequence[Connection]
    acknowledged: int
    lost: Sequence[str]
    given_twice: Sequence[str]
    convergence: Convergence
    unread: Sequence[str]  # clients whose records could not be read


@dataclass(frozen=True)
class Verdict:
    observed: Observed
    explained: Sequence[tuple[Connection, Occurrence]]
    unexplained: Sequence[Connection]
    strictness: float
    converged_within: float

    @property
    def is_sound(self) -> bool:
        seen = self.observed
        after = seen.convergence.after
        is_settled = after is not None and after <= self.converged_within
        is_complete = bool(seen.made) and not (seen.convergence.wrong or seen.unread)
        return is_settled and is_complete and not (self.unexplained or seen.lost or seen.given_twice)

    def findings(self) -> Iterator[str]:
        """Return the problems, one line each; connections with the same problem within ten seconds are one."""
        seen = self.observed
        yield from (f"lost write: {line}" for line in seen.lost)
        yield from (f"duplicate address: {line}" for line in seen.given_twice)
        yield from (f"wrong after the run: {line}" for line in (*seen.convergence.wrong, *seen.unread))
        if not seen.made:
            yield "clients made no connection"
        if seen.convergence.after is None:
            yield "never converged"
        elif seen.convergence.after > self.converged_within:
            yield f"converged only {seen.convergence.after:.1f} s after the last fault; last: {seen.convergence.last}"
        alike = Counter((int(failed.start - seen.begun) // 10 * 10, str(failed)) for failed in self.unexplained)
        for (second, failed), count in sorted(alike.items()):
            yield f"unexplained: {failed}, {count} times from second {second} on"

    def details(self) -> Iterator[str]:
        """Every fault, and every connection that failed, by time."""
        seen = self.observed
        origin = min((fault.start for fault in seen.occurrences), default=0.0)
        lines = [(fault.start, f"to {fault.end - origin:6.1f}  FAULT {fault}") for fault in seen.occurrences]
        lines += [(failed.start, _detail(failed, str(fault), origin)) for failed, fault in self.explained]
        lines += [(failed.start, _detail(failed, "no fault", origin)) for failed in self.unexplained]
        yield from (f"{seen.mode} {start - origin:6.1f} {text}" for start, text in sorted(lines))


def _detail(failed: Connection, explanation: str, origin: float) -> str:
    return f"to {failed.end - origin:6.1f}  {failed}; explained by {explanation}"


def judge(seen: Observed, slack: float = 1.0) -> Verdict:
    """`slack` is how many times as long as on a machine of its own everything may take."""
    oracle = Oracle(seen.occurrences, seen.mode, slack)
    explained, unexplained = [], []
    for connection in seen.failed:
        fault = oracle.explain(connection)
        if fault is None:
            unexplained.append(connection)
        else:
            explained.append((connection, fault))
    return Verdict(seen, explained, unexplained, _strictness(seen, oracle), slack * CONVERGED_WITHIN)


def _strictness(seen: Observed, oracle: Oracle) -> float:
    """The share of all connections for which no fault would have explained a failure."""
    moments = [seen.begun + step for step in range(0, round(seen.seconds), _STEP_SECONDS)]
    tried = [replace(used, start=moment, end=moment) for used in seen.used for moment in moments]
    return sum(oracle.explain(connection) is None for connection in tried) / max(1, len(tried))


def describe(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Lines of Markdown."""
    yield from _table(
        (
            "mode",
            "minutes",
            "faults",
            "connections",
            "explained failures",
            "unexplained failures",
            "no failure allowed",
            "acknowledged writes",
            "lost writes",
            "duplicate addresses",
            "convergence",
        ),
        [_row(verdict) for verdict in verdicts],
    )
    for verdict in verdicts:
        seen = verdict.observed
        if seen.convergence.last:
            yield f"Last to converge in {seen.mode}: {seen.convergence.last[:_MOST_CHARACTERS]}"
            yield ""
    yield "## Faults of each kind, and the failed connections that they explain"
    yield ""
    modes = [verdict.observed.mode for verdict in verdicts]
    rows = [[kind.value, *(_count(verdict, kind) for verdict in verdicts)] for kind in FaultKind]
    yield from _table(("fault", *modes), rows)
    for verdict in verdicts:
        findings = list(verdict.findings())
        if findings:
            yield f"## Violations in mode {verdict.observed.mode}"
            yield ""
            yield from (f"- {line}" for line in findings[:_MOST_LINES])
            if len(findings) > _MOST_LINES:
                yield f"- and {len(findings) - _MOST_LINES} more"
            yield ""


def describe_effects() -> Iterator[str]:
    """The table of `effects` as docs/chaos.md has it."""
    rows = []
    for kind in FaultKind:
        cells = [_effect(effect_of(kind, client, "nftables")) for client in ClientKind]
        in_userspace = [_effect(effect_of(kind, client, "userspace")) for client in ClientKind]
        rows.append((f"`{kind.value}`", *cells, ""))
        if in_userspace != cells:
            rows.append((f"`{kind.value}`", *in_userspace, "userspace"))
    yield from _table(("fault", *(client.value for client in ClientKind), "mode"), rows)


def _effect(effect: Effect) -> str:
    roles = [" or ".join(sorted(effect.roles))] if effect.roles else []
    if effect.hindered:
        roles.append(f"delayed: {' or '.join(sorted(effect.hindered))}")
    return f"{'; '.join(roles)}; {effect.settle:g} s" if roles else "nothing"


def describe_delays() -> Iterator[str]:
    """The second table of docs/chaos.md: the parts that repair a fault, and the parts that a fault delays."""
    rows = []
    for kind in FaultKind:
        effects = [effect_of(kind, client, mode) for client in ClientKind for mode in MODES]
        healers = frozenset().union(*(effect.healers for effect in effects))
        hindrance = HINDRANCES.get(kind)
        delayed = f"{_describe_healers(hindrance.healers)}; {hindrance.recovery:g} s" if hindrance else "nothing"
        rows.append((f"`{kind.value}`", _describe_healers(healers) if healers else "itself", delayed))
    yield from _table(("fault", "repaired by", "delays"), rows)


def _describe_healers(healers: frozenset[Healer]) -> str:
    return ", ".join(sorted(healers))


def _row(verdict: Verdict) -> list[str]:
    seen = verdict.observed
    after = "never" if seen.convergence.after is None else f"{seen.convergence.after:.1f} s"
    return [
        seen.mode,
        f"{seen.seconds / 60:.1f}",
        f"{len(seen.occurrences):,}",
        f"{seen.made.total():,}",
        f"{len(verdict.explained):,}",
        f"{len(verdict.unexplained):,}",
        f"{verdict.strictness:.0%}",
        f"{seen.acknowledged:,}",
        f"{len(seen.lost):,}",
        f"{len(seen.given_twice):,}",
        after,
    ]


def _count(verdict: Verdict, kind: FaultKind) -> str:
    injected = sum(occurrence.kind == kind for occurrence in verdict.observed.occurrences)
    impossible = sum(other == kind for other, _ in verdict.observed.impossible)
    broken = sum(fault.kind == kind for _, fault in verdict.explained)
    failures = f", {broken} failures" if broken else ""
    return f"{injected}{failures}" + (f", {impossible} impossible" if impossible else "")


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    for row in (columns, ["---"] * len(columns), *rows):
        yield f"| {' | '.join(row)} |"
    yield ""
