"""The directive `minimal`: positive replies with answer records only.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, no_argument
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    no_argument(directive)
    draft.set(is_minimal=True)


MINIMAL = Spec("minimal", "positive replies have answer records only", _read)
