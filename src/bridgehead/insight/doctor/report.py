"""A diagnosis as text for a terminal, and as JSON.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import msgspec

from bridgehead.insight.findings import Finding, Severity, grouped, printable

from .diagnosis import Diagnosis

_TITLES = {Severity.BROKEN: "is broken", Severity.DEGRADED: "is degraded", Severity.NOTICE: "has a notice"}


def render_text(diagnosis: Diagnosis) -> str:
    """Return the verdict on each subject with its evidence and fix, the healthy Services and what was not seen."""
    groups: dict[str, list[Finding]] = {}
    for finding in diagnosis.findings:
        groups.setdefault(finding.subject, []).append(finding)
    parts = ["".join(f"{line}\n" for line in _lines(subject, found)) for subject, found in groups.items()]
    parts.append(_summary(diagnosis))
    return "\n".join(filter(None, parts))


def _lines(subject: str, findings: Sequence[Finding]) -> Iterator[str]:
    first, *others = findings
    yield f"{subject} {_TITLES[first.severity]}: {first.cause}"
    yield f"  {first.text}"
    for line in first.evidence:
        yield f"    {line}"
    if first.fix:
        yield f"  Fix: {first.fix}"
    for finding in others:
        yield f"  Then ({finding.severity}): {finding.cause}: {finding.text}"
        if finding.fix:
            yield f"    Fix: {finding.fix}"


def _summary(diagnosis: Diagnosis) -> str:
    healthy = diagnosis.healthy
    is_one = len(diagnosis.services) == 1
    if diagnosis.is_partial:
        lines = [
            f"{healthy} {'Service has' if healthy == 1 else 'Services have'} no finding; not all could be looked at."
        ]
    elif is_one and healthy:
        lines = [f"service/{printable(next(iter(diagnosis.services)))} is healthy."]
    elif healthy or not diagnosis.findings:
        lines = [f"{healthy} {'Service is' if healthy == 1 else 'Services are'} healthy."]
    else:  # the findings are about all that somebody asked for
        lines = []
    lines += [f"service/{key} could not be looked at." for key in diagnosis.unknown]
    lines += [f"Could not look at {printable(str(unseen))}" for unseen in grouped(diagnosis.unseen)]
    return "".join(f"{line}\n" for line in lines)


def render_json(diagnosis: Diagnosis) -> str:
    """Return `{findings, services, unknown, unseen, healthy}`.

    `services` has the cause of each Service's verdict, or "".
    """
    document = {**msgspec.to_builtins(diagnosis), "healthy": diagnosis.healthy}
    return json.dumps(document, indent=2) + "\n"  # ASCII: names may have control characters
