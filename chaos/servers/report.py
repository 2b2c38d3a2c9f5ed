"""The verdict on a run with several API servers, and its part of the report.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from chaos.linearizability import violations

from .models import claim, register
from .recordings import Injected, Recording, claim_operations, longest_outage
from .watches import Sight, all_changes, find_wrong, most_at_once, objects_after

_MOST_LINES = 40
_MOST_CHARACTERS = 2000

# Objects of the run by resource, then by NAMESPACE/NAME: the revision of the last change.
Objects = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class Observed:
    """All that was seen. `lists` are the objects at the end by server, `stored` those in etcd.

    `quota_used` are all values of `used` that the quota had, the last one at the end.
    """

    seconds: float
    recording: Recording
    sights: Sequence[Sight]
    faults: Sequence[Injected]
    lists: Sequence[Objects]
    stored: Objects
    limited: str
    quota_hard: int
    quota_used: Sequence[int]
    unfinished: Sequence[str]


@dataclass(frozen=True)
class Verdict:
    observed: Observed
    findings: Sequence[str]

    @property
    def is_sound(self) -> bool:
        return not self.findings


def judge(seen: Observed) -> Verdict:
    return Verdict(seen, list(_findings(seen)))


def _findings(seen: Observed) -> Iterator[str]:
    recording = seen.recording
    yield from seen.unfinished
    yield from (f"unexpected answer: {line}" for line in recording.unexpected)
    yield from find_wrong(seen.sights, recording.acknowledged)
    services = all_changes(seen.sights, "services")
    for key, operations in violations(recording.registers, None, register).items():
        yield f"no order explains the answers about {key}: {operations}"
    for key, operations in violations(claim_operations(recording.services, services), None, claim).items():
        yield f"no order explains the answers about {key}: {operations}"
    yield from _wrong_at_the_end(seen)
    yield from _wrong_quota(seen)


def _wrong_at_the_end(seen: Observed) -> Iterator[str]:
    for resource, stored in seen.stored.items():
        known = {"the watchers": objects_after(all_changes(seen.sights, resource))}
        known |= {f"server {number}": objects[resource] for number, objects in enumerate(seen.lists)}
        for name, objects in known.items():
            if objects != stored:
                yield f"{resource}: {name} and etcd differ: {sorted(objects.items() ^ stored.items())}"


def _wrong_quota(seen: Observed) -> Iterator[str]:
    left = sum(name.startswith(f"{seen.limited}/") for name in seen.stored["configmaps"])
    if not seen.quota_used or seen.quota_used[-1] != left:
        yield f"the quota's used is {seen.quota_used[-1:]}, {left} objects are there"
    if max(seen.quota_used, default=0) > seen.quota_hard:
        yield f"the quota's used was {max(seen.quota_used)} of {seen.quota_hard}"
    most = most_at_once(all_changes(seen.sights, "configmaps"), seen.limited)
    if most > seen.quota_hard:
        yield f"there were {most} objects of {seen.quota_hard} that the quota allows"


def describe(verdict: Verdict) -> Iterator[str]:
    """Lines of Markdown."""
    seen, recording = verdict.observed, verdict.observed.recording
    yield "## Several API servers on one etcd"
    yield ""
    events = sorted({len(sight.events) for sight in seen.sights})
    yield from _table(
        {
            "seconds": f"{seen.seconds:.0f}",
            "acknowledged writes": f"{recording.written:,}",
            "writes per second": f"{recording.written / seen.seconds:.0f}",
            "writes of unknown outcome": f"{recording.unknown:,}",
            "reads": f"{recording.read:,}",
            "refused for a taken address or port": f"{sum(bool(one.refused) for one in recording.services):,}",
            "refused by the quota": f"{recording.over_quota:,}",
            "watchers": f"{len(seen.sights)}",
            "events per watcher": ", ".join(f"{count:,}" for count in events),
            "violations": f"{len(verdict.findings)}",
        }
    )
    yield "| fault | seconds | longest time without an answer |"
    yield "| --- | --- | --- |"
    for fault in seen.faults:
        outage = longest_outage(recording, fault.start, fault.end)
        yield f"| {fault.description} | {fault.end - fault.start:.1f} | {outage:.1f} s |"
    yield ""
    if verdict.findings:
        yield from ("### Violations", "")
        yield from (f"- {line[:_MOST_CHARACTERS]}" for line in verdict.findings[:_MOST_LINES])
        if len(verdict.findings) > _MOST_LINES:
            yield f"- and {len(verdict.findings) - _MOST_LINES} more"
        yield ""


def _table(row: Mapping[str, str]) -> Iterator[str]:
    for cells in (list(row), ["---"] * len(row), list(row.values())):
        yield f"| {' | '.join(cells)} |"
    yield ""
