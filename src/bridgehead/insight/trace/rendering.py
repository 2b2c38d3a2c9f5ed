"""A report as text for a terminal. Pure: no I/O, no clock, no randomness."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.insight.findings import printable

from .report import Report, State

_MARKS = {State.OK: "ok", State.FAILED: "FAILED", State.UNKNOWN: "unknown"}
_LONGEST_LINE = 400


def render(report: Report) -> str:
    return "".join(f"{printable_line(line)}\n" for line in _lines(report))


def printable_line(text: str) -> str:
    return printable(text, _LONGEST_LINE)


def _lines(report: Report) -> Iterator[str]:
    yield report.verdict
    for difference in report.differences:
        yield f"Difference: {difference}"
    yield ""
    where = f" ({report.destination})" if report.destination else ""
    yield f"{report.origin} -> {report.target}{where}, {report.protocol}"
    for number, step in enumerate(report.steps, 1):
        mark = "" if step.state is State.OK else f" [{_MARKS[step.state]}]"
        yield f"{number:2}. {step.name}{mark}: {step.text}"
        for line in step.evidence:
            yield f"      {line}"
    if report.unseen:
        yield ""
    for unseen in report.unseen:
        yield f"Could not look at {unseen}"
