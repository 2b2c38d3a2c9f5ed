"""The directive `any`: minimal answers to queries for ANY (RFC 8482).

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, no_argument
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    no_argument(directive)
    draft.set(has_minimal_any=True)


ANY = Spec("any", "queries for ANY get a minimal answer (RFC 8482)", _read)
