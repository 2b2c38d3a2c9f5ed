"""A Corefile as settings of this server (source: CoreDNS' manual and plugins).

The directives that kubeadm, distributions and NodeLocal DNSCache use are supported; README.md lists them. All that is
not supported is named in one error: half a configuration would give answers that its owner does not expect.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads files.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from bridgehead.dns.config import Address, DnsConfig, parse_address
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages.domain_names import as_zones

from .directives import DIRECTIVES
from .directives.cache import set_caches
from .directives.forward import excepted_domains
from .draft import Draft, ServerBlock, read_line
from .parser import Directive, invalid, parse
from .referenced_files import Sources

# The placeholders of NodeLocal DNSCache, which its own program replaces.
_CLUSTER_DNS, _UPSTREAM_SERVERS = "__PILLAR__CLUSTER__DNS__", "__PILLAR__UPSTREAM__SERVERS__"


class Reading(NamedTuple):
    """The settings, and what in the file has no effect here, for the log."""

    config: DnsConfig
    remarks: tuple[str, ...]


def read_corefile(text: str, base: DnsConfig, sources: Sources) -> Reading:
    """Return `base` changed by the Corefile; `sources` has what the text refers to. Raises ConfigInvalid.

    With `base.node_local` the file may be that of NodeLocal DNSCache.
    """
    draft = Draft(replace(base, upstreams=(), health=None, ready=None, metrics=None), sources)
    servers = parse(text, sources)
    if base.node_local and not any(line.name == "kubernetes" for server in servers for line in server.block):
        servers = tuple(_with_own_answers(server, _block(server).zones, base.zone.domain) for server in servers)
    ports: list[tuple[int, Directive]] = []
    blocks = [_block(server) for server in servers]
    for block, server in zip(blocks, servers, strict=True):
        ports += [(port, server) for port in block.ports]
        _read_server(draft, block, server)
    return _finish(draft, blocks, ports)


def _read_server(draft: Draft, block: ServerBlock, server: Directive) -> None:
    if block.is_cluster and not draft.has_cluster:
        hosts = dict.fromkeys(host for host, _ in draft.config.listen)
        draft.set(listen=tuple((host, port) for port in dict.fromkeys(block.ports) for host in hosts))
    for directive in server.block:
        spec = DIRECTIVES.get(directive.name)
        if spec is not None and not block.allows(spec.where):
            draft.reject(directive, f"{directive.name} outside the cluster's server block")
        else:
            read_line(draft, block, directive, DIRECTIVES)
            names = ((f"{zone}.", directive.name) for zone in block.zones)
            draft.set(directives=tuple(dict.fromkeys((*draft.config.directives, *names))))


def _finish(draft: Draft, blocks: Iterable[ServerBlock], ports: Iterable[tuple[int, Directive]]) -> Reading:
    served = {port for _, port in draft.config.listen}
    for port, server in ports:
        if draft.has_cluster and port not in served:
            draft.reject(server, f"port {port}", "all names are served at the port of the cluster's server block")
    if draft.unsupported:
        raise ConfigInvalid(f"Corefile: not supported: {', '.join(draft.unsupported)}; remove what is not needed")
    if not draft.has_cluster:
        raise ConfigInvalid("Corefile: no server block has a `kubernetes` directive")
    stubs = {zone for zone, _ in draft.stubs}
    denied: dict[str, int] = {}
    for zone, rcode in draft.denied:
        if zone not in stubs:
            denied.setdefault(zone, rcode)
    draft.set(
        stub_domains=tuple(draft.stubs),
        denied=(*denied.items(), *excepted_domains(draft)),
        owned_reverse_zones=tuple(zone for zone in draft.config.owned_reverse_zones if zone not in (*stubs, *denied)),
    )
    set_caches(draft, blocks)
    return Reading(draft.config, tuple(draft.remarks))


def _block(server: Directive) -> ServerBlock:
    """Return the zones and ports in a server block's keys. Raises ConfigInvalid."""
    keys = [_parse_key(key, server.line) for key in " ".join(server.tokens).replace(",", " ").split()]
    is_cluster = any(directive.name == "kubernetes" for directive in server.block)
    return ServerBlock(as_zones(zone for zone, _ in keys), tuple(port for _, port in keys), is_cluster)


def _parse_key(key: str, line: int | str) -> Address:
    """Return zone and port of ".:53", "dns://corp.example:1053", "corp.example" or "10.0.0.0/8"."""
    scheme, separator, rest = key.rpartition("://")
    if separator and scheme != "dns":
        raise invalid(line, f"{scheme!r} is not supported, only plain DNS")
    return parse_address(f"Corefile, line {line}", rest, 53)


# --- NodeLocal DNSCache --------------------------------------------------------------------------------


def _with_own_answers(server: Directive, zones: tuple[str, ...], domain: str) -> Directive:
    """Return a server block of NodeLocal DNSCache with `kubernetes` in place of forwarding to the cluster DNS.

    `zones` are those of the block, `domain` is the cluster's.
    """
    lines: list[Directive] = []
    for line in server.block:
        if line.name == "forward" and domain in zones:
            pods = Directive(line.line, ("pods", "insecure"))
            lines.append(Directive(line.line, ("kubernetes", *zones), (pods,)))
        elif line.name == "forward" and line.arguments[1:] == (_CLUSTER_DNS,):
            continue  # reverse zones: the PTR records of the cluster are here
        else:
            tokens = ("/etc/resolv.conf" if word == _UPSTREAM_SERVERS else word for word in line.tokens)
            lines.append(replace(line, tokens=tuple(tokens)))
    return replace(server, block=tuple(lines))
