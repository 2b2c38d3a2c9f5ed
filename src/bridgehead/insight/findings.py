"""Findings: causes for which something does not work, each with its evidence and the fix.

`doctor` makes findings; commands, the terminal view and the dashboard show them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable

import msgspec

_LONGEST = 500  # characters of a text that anybody may have written


class Severity(enum.StrEnum):
    """The consequence of a finding for the users of its subject."""

    BROKEN = "broken"  # no connection works, or none of some clients
    DEGRADED = "degraded"  # some connections fail, or go where they should not
    NOTICE = "notice"  # everything works today


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One cause.

    `cause`: its name in the catalogue (`doctor/catalogue.py`), in CamelCase like the reason of an Event. `subject`:
    `service/NAMESPACE/NAME`, `node/NAME`, `pod/NAMESPACE/NAME` or `cluster`. `text`: one sentence. `fix`: a command or
    a sentence with the remedy; "" if it depends on what the user wants. `evidence`: what was seen, a line each.
    """

    cause: str
    subject: str
    text: str
    fix: str = ""
    evidence: tuple[str, ...] = ()
    severity: Severity = Severity.BROKEN


class Unseen(msgspec.Struct, frozen=True):
    """A part of the cluster that could not be looked at (`pods`, `node node2`, `nftables of node2`), and why."""

    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.what}: {self.why}"


_FORBIDDEN = re.compile(r".* is forbidden: (User .*) cannot (\w+) resource \S+ in API group \S+ (.*)")


def grouped(unseen: Iterable[Unseen]) -> list[Unseen]:
    """Return parts with the same reason as one; missing rights on several kinds are one reason."""
    parts: dict[str, list[str]] = {}
    for each in unseen:
        match = _FORBIDDEN.fullmatch(each.why)
        why = f"{match[1]} may not {match[2]} them {match[3]}" if match is not None else each.why
        parts.setdefault(why, []).append(each.what)
    return [Unseen(", ".join(sorted(set(what))), why) for why, what in parts.items()]


def printable(text: str, most: int = _LONGEST) -> str:
    """Return a text that anybody may have written as one line of at most `most` characters, without control characters.

    Terminal escapes lose their effect, and characters that change the direction of text are replaced, too.
    """
    cut = text if len(text) <= most else text[: most - 3] + "..."
    if cut.isprintable():  # as nearly every text is, of the many in a live view
        return cut
    return "".join(character if character.isprintable() else "?" for character in cut)
