"""The directive `bufsize`: the largest reply by UDP.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.config import DnsConfig
from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, number
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.messages import wire


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    size = number(directive) if directive.arguments else DnsConfig.udp_size
    if not wire.UDP_SIZE <= size <= 4096:
        raise directive.invalid(f"bufsize {size}: {wire.UDP_SIZE} to 4096")
    draft.set(udp_size=size)


BUFSIZE = Spec("bufsize [BYTES]", "the largest reply by UDP", _read)
