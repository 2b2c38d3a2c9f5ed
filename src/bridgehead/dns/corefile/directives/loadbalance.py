"""The directive `loadbalance`: addresses rotate, with or without it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, WrongArguments
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `loadbalance [round_robin]`: addresses rotate anyway."""
    if directive.arguments[:1] == ("weighted",):
        draft.reject(directive, "loadbalance weighted")
    elif directive.arguments not in ((), ("round_robin",)):
        raise WrongArguments


LOADBALANCE = Spec("loadbalance [round_robin]", "addresses rotate anyway", _read)
