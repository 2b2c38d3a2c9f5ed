"""The directive `prometheus`: the page /metrics.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, page_address
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    draft.set(metrics=page_address(directive, 9153, host="localhost"))


PROMETHEUS = Spec("prometheus [ADDRESS]", "the page /metrics", _read)
