"""The directive `transfer`: clients that may have the whole zone.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress

from bridgehead.dns.config import Network, parse_address
from bridgehead.dns.corefile.draft import Draft, ServerBlock, Spec, Table, Where, WrongArguments, read_line
from bridgehead.dns.corefile.parser import Directive, invalid
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages.domain_names import as_zones


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read the networks that may transfer the zone. NOTIFY is not sent."""
    if any(zone != draft.config.zone.domain for zone in as_zones(directive.arguments)):
        draft.reject(directive, directive.text, "only the domain of `kubernetes` can be transferred")
    for option in directive.block:
        read_line(draft, block, option, OPTIONS)


def _to(draft: Draft, block: ServerBlock, option: Directive) -> None:
    if not option.arguments:
        raise WrongArguments
    found = [network for text in option.arguments for network in _networks(text, option.line)]
    draft.set(transfer_to=(*draft.config.transfer_to, *found))


def _networks(text: str, line: int | str) -> tuple[Network, ...]:
    """Parse "*", an address (with or without a port) or a range."""
    if text == "*":
        return ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")
    try:
        return (ipaddress.ip_network(text if "/" in text else parse_address("", text, 53)[0], strict=False),)
    except (ValueError, ConfigInvalid) as error:
        raise invalid(line, f"{text!r} is neither an address nor a range") from error


OPTIONS: Table[ServerBlock] = {"to": Spec("to ADDRESS|RANGE|*...", "clients that may have the zone", _to)}

TRANSFER = Spec("transfer [ZONE]", "clients that may have the whole zone", _read, Where.CLUSTER, has_options=True)
