"""The directive `bind`: the addresses that are listened on.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress

from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, WrongArguments
from bridgehead.dns.corefile.parser import Directive


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `bind ADDRESS...`. Every server block is served at the addresses of all."""
    if not directive.arguments:
        raise WrongArguments
    for text in directive.arguments:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise directive.invalid(f"bind {text!r}: only addresses, not names of interfaces or hosts") from None
    draft.bound += directive.arguments
    ports = dict.fromkeys(port for _, port in draft.config.listen)
    draft.set(listen=tuple((host, port) for port in ports for host in dict.fromkeys(draft.bound)))


BIND = Spec("bind ADDRESS...", "the addresses that are listened on", _read)
