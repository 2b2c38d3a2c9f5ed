"""The directive `hosts`: names with fixed addresses.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads hosts files.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from bridgehead.dns.config import HostEntry, Hosts
from bridgehead.dns.corefile.draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    did_you_mean,
    fallthrough_zones,
    no_argument,
    number,
    one_argument,
    read_line,
    seconds,
)
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.domain_names import as_domains, as_zones, is_in_any, is_name


@dataclass
class HostsBlock:
    """The lines of one `hosts` directive."""

    entries: list[HostEntry] = field(default_factory=list)
    ttl: int = 3600
    has_reverse: bool = True
    falls_through: tuple[str, ...] = ()
    passes_types: Directive | None = None  # the line


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `hosts [FILE [ZONE...]]` and the file. Without zones, those of the server block count."""
    path, *own_zones = directive.arguments or ("/etc/hosts",)
    zones = as_zones(own_zones) or block.zones
    hosts = HostsBlock()
    for line in directive.block:
        entry = None if line.name in OPTIONS else parse_entry(line.tokens)
        if entry is not None:
            hosts.entries.append(entry)
        elif line.name in OPTIONS:
            read_line(draft, hosts, line, OPTIONS)
        else:
            draft.reject(line, f"{line.text!r} in hosts", did_you_mean(line.name, OPTIONS))
    outside = [name for _, names in hosts.entries for name in names if not is_in_any(name, zones)]
    if outside:
        draft.remark(directive, f"{', '.join(outside)}: not in a zone of these hosts")
    try:
        hosts.entries += parse_hosts(draft.sources.read(path))
    except OSError as error:
        draft.remark(directive, f"{path}: {error.strerror}")
    if "" in zones and "" not in hosts.falls_through:
        raise directive.invalid("hosts without `fallthrough` would deny every other name")
    if hosts.passes_types is not None and not hosts.falls_through:
        raise hosts.passes_types.invalid("fallthrough_unsupported without fallthrough")
    draft.denied += [(zone, wire.SERVFAIL) for zone in zones if not is_in_any(zone, hosts.falls_through)]
    entries = [(address, tuple(name for name in names if is_in_any(name, zones))) for address, names in hosts.entries]
    found = Hosts(
        tuple((address, names) for address, names in entries if names),
        hosts.ttl,
        hosts.has_reverse,
        hosts.falls_through if hosts.passes_types is not None else (),
    )
    draft.set(hosts=(*draft.config.hosts, found))
    draft.host_blocks.append(block)


def parse_hosts(text: str) -> tuple[HostEntry, ...]:
    """Parse a hosts file (hosts(5)). Invalid lines are left out, as the C library does."""
    found = (parse_entry(tuple(line.partition("#")[0].split())) for line in text.splitlines())
    return tuple(entry for entry in found if entry is not None)


def parse_entry(fields: tuple[str, ...]) -> HostEntry | None:
    """Parse an address and its names; invalid names are left out. Returns None without an address or a valid name."""
    if not fields:
        return None
    try:
        address = ipaddress.ip_address(fields[0])
    except ValueError:
        return None
    names = tuple(name for name in as_domains(fields[1:]) if is_name(name))
    if not names or getattr(address, "scope_id", None):
        return None
    return str(address), names


def _ttl(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    hosts.ttl = number(option)


def _no_reverse(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    hosts.has_reverse = False


def _fallthrough(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    hosts.falls_through = fallthrough_zones(option)


def _reload(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    one_argument(option)
    if seconds(option) == 0:
        draft.reject(option, "reload 0 in hosts", "changes of the file are always noticed")


def _fallthrough_unsupported(draft: Draft, hosts: HostsBlock, option: Directive) -> None:
    no_argument(option)
    hosts.passes_types = option


OPTIONS: Table[HostsBlock] = {
    "ttl": Spec("ttl SECONDS", "TTL of the records", _ttl),
    "no_reverse": Spec("no_reverse", "no PTR records", _no_reverse),
    "fallthrough": Spec("fallthrough [ZONE...]", "zones whose other names are asked of upstreams", _fallthrough),
    "fallthrough_unsupported": Spec(
        "fallthrough_unsupported", "questions for other types are asked of upstreams, too", _fallthrough_unsupported
    ),
    "reload": Spec("reload DURATION", "a change is noticed within a second, sooner than any interval", _reload),
}

HOSTS = Spec("hosts [FILE [ZONE...]]", "names with fixed addresses", _read, has_options=True)
