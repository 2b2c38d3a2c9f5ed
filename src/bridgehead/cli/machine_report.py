"""The requirements of a machine (`bridgehead doctor --machine`) as text and as JSON.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from bridgehead.lab.machine_checks import Requirement

_WIDTH = len("missing")


def is_fit(requirements: Iterable[Requirement]) -> bool:
    """Return whether a lab can run."""
    return not any(each.lack and each.is_needed for each in requirements)


def state_of(requirement: Requirement) -> str:
    """Return `ok`, `missing` (without it there is no lab) or `limited` (something works less well)."""
    if not requirement.lack:
        return "ok"
    return "missing" if requirement.is_needed else "limited"


def render_text(requirements: Sequence[Requirement]) -> str:
    """Return a line for each requirement, with the reason, the effect and the remedy of each that is not met."""
    lines = [line for each in requirements for line in _lines(each)]
    limited = sum(state_of(each) == "limited" for each in requirements)
    if not is_fit(requirements):
        lines.append("\nA lab cannot run on this machine.")
    elif limited:
        lines.append(f"\nA lab can run on this machine, with {limited} limitation{'s' if limited > 1 else ''}.")
    else:
        lines.append("\nA lab can run on this machine.")
    return "".join(f"{line}\n" for line in lines)


def _lines(requirement: Requirement) -> Iterator[str]:
    yield f"{state_of(requirement):<{_WIDTH}}  {requirement.name}{f': {requirement.lack}' if requirement.lack else ''}"
    indent = " " * (_WIDTH + 2)
    if requirement.lack and requirement.without:
        yield f"{indent}Effect: {requirement.without}"
    if requirement.lack and requirement.remedy:
        yield f"{indent}Fix: {requirement.remedy}"


def render_json(requirements: Sequence[Requirement]) -> str:
    """Return `{fit, requirements: [{name, state, lack, remedy, without, needed}]}`."""
    document = {
        "fit": is_fit(requirements),
        "requirements": [
            {
                "name": each.name,
                "state": state_of(each),
                "lack": each.lack,
                "remedy": each.remedy,
                "without": each.without,
                "needed": each.is_needed,
            }
            for each in requirements
        ],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"
