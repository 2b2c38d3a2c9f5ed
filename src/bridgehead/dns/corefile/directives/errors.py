"""The directive `errors`: errors are logged, with or without it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, WrongArguments
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    if directive.arguments not in ((), ("stdout",)):
        raise WrongArguments


ERRORS = Spec("errors", "errors are logged anyway", _read)
