"""The directive `health`: the page /health.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, Table, page_address, read_line, seconds
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    draft.set(health=page_address(directive, 8080))
    for option in directive.block:
        read_line(draft, block, option, OPTIONS)


def _lameduck(draft: Draft, block: ServerBlock, option: Directive) -> None:
    draft.set(lameduck_seconds=seconds(option))


OPTIONS: Table[ServerBlock] = {
    "lameduck": Spec("lameduck DURATION", "time between SIGTERM and the end, in which queries are answered", _lameduck)
}

HEALTH = Spec("health [ADDRESS]", "the page /health", _read, has_options=True)
