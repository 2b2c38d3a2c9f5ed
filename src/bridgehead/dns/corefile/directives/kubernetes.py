"""The directive `kubernetes`: which zone, and which names it has.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.dns.config import POD_MODES
from bridgehead.dns.corefile.draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    fallthrough_zones,
    no_argument,
    number,
    one_argument,
    one_of,
    read_line,
)
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.messages.domain_names import as_zones, is_in_any, is_within


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read the cluster's domain, the options, and which reverse zones do not fall through."""
    if draft.has_cluster:
        raise directive.invalid("a second `kubernetes`")
    draft.has_cluster = True
    zones = dict.fromkeys(as_zones(directive.arguments) or block.zones)
    domains = [zone for zone in zones if not zone.endswith((".arpa", "arpa"))]
    if len(domains) != 1:
        raise directive.invalid(f"kubernetes with {len(domains)} domains, not one")
    draft.set_zone(domain=domains[0], pods="disabled")
    for option in directive.block:
        read_line(draft, block, option, OPTIONS)
    # Addresses of the cluster have PTR records; for other addresses in zones that do not fall through no upstream is
    # asked.
    falling = [zone for line in directive.block if line.name == "fallthrough" for zone in fallthrough_zones(line)]
    reverse = [zone for zone in zones if zone not in domains]
    if reverse:
        draft.set_zone(reverse_zones=tuple(reverse))
    draft.set(owned_reverse_zones=tuple(zone for zone in reverse if not is_in_any(zone, falling)))


def _pods(draft: Draft, block: ServerBlock, option: Directive) -> None:
    draft.set_zone(pods=one_of(option, one_argument(option), POD_MODES))


def _namespaces(draft: Draft, block: ServerBlock, option: Directive) -> None:
    draft.set_zone(namespaces=option.arguments)


def _endpoint_pod_names(draft: Draft, block: ServerBlock, option: Directive) -> None:
    no_argument(option)
    draft.set_zone(endpoint_pod_names=True)


def _ttl(draft: Draft, block: ServerBlock, option: Directive) -> None:
    draft.set_zone(ttl=number(option))


def _fallthrough(draft: Draft, block: ServerBlock, option: Directive) -> None:
    """Read which names of the cluster fall through. For reverse zones `_read` reads it."""
    domain = draft.config.zone.domain
    zones = fallthrough_zones(option)
    if is_in_any(domain, zones):
        zones = (domain,)
    draft.set(falls_through=tuple(zone for zone in zones if is_within(zone, domain)))


OPTIONS: Table[ServerBlock] = {
    "pods": Spec("pods disabled|insecure|verified", "names of pods by their addresses", _pods),
    "ttl": Spec("ttl SECONDS", "TTL of the cluster's records", _ttl),
    "namespaces": Spec("namespaces NAMESPACE...", "only these have names", _namespaces),
    "endpoint_pod_names": Spec("endpoint_pod_names", "endpoints are named after their pods", _endpoint_pod_names),
    "fallthrough": Spec("fallthrough [ZONE...]", "zones whose unknown names are asked of upstreams", _fallthrough),
}

KUBERNETES = Spec("kubernetes [ZONE...]", "the cluster's domain, and reverse zones", _read, has_options=True)
