"""The directive `reload`: changes of the file are noticed, with or without it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import replace

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, WrongArguments, seconds
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `reload [INTERVAL [JITTER]]`: a change is noticed within a second, sooner than any interval."""
    if directive.arguments == ("off",):
        draft.reject(directive, "reload off", "changes of the file are always noticed")
        return
    if len(directive.arguments) > 2:
        raise WrongArguments
    for text in directive.arguments:
        seconds(replace(directive, tokens=("reload", text)))


RELOAD = Spec("reload [INTERVAL [JITTER]]", "changes of the file are noticed anyway", _read)
