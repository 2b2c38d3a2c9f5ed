"""The directive `log`: a line for each query.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.config import LOG_CLASSES
from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, Table, did_you_mean, read_line
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `log` for all names; a name or a format of its own is not supported."""
    if directive.arguments not in ((), (".",), ("{common}",), (".", "{common}")):
        draft.reject(directive, directive.text)
    classes: list[str] = []
    for option in directive.block:
        read_line(draft, classes, option, OPTIONS)
    draft.set(log_queries=True, log_classes=() if "all" in classes else tuple(dict.fromkeys(classes)))


def _class(draft: Draft, classes: list[str], option: Directive) -> None:
    known = (*LOG_CLASSES, "all")
    unknown = [name for name in option.arguments if name not in known]
    if unknown or not option.arguments:
        draft.reject(option, f"{option.text!r} in log", did_you_mean("".join(unknown[:1]), known))
    classes += option.arguments


OPTIONS: Table[list[str]] = {
    "class": Spec("class success|denial|error|all...", "only queries with such replies", _class)
}

LOG = Spec("log", "a line for each query", _read, has_options=True)
