"""The directive `cancel`: the time for one query to upstreams.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, one_argument, seconds
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `cancel [TIMEOUT]`: the time for one query to upstreams."""
    if not directive.arguments:
        return
    one_argument(directive)
    timeout = seconds(directive)
    if timeout <= 0:
        raise directive.invalid("cancel: the time has to be longer than 0")
    draft.set(forward_seconds=timeout)


CANCEL = Spec("cancel [TIMEOUT]", "the time for one query to upstreams", _read)
