"""The directive `ready`: the page /ready.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, page_address
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    draft.set(ready=page_address(directive, 8181))


READY = Spec("ready [ADDRESS]", "the page /ready", _read)
