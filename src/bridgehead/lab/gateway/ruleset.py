"""The packet filter of a gateway, as text for `nft -f -`.

Pure: no I/O, no clock, no randomness. The machine may open connections to the lab's ranges, and the lab to the
outside; nothing in the lab may open one to the machine. User-mode networking connects with the rights and addresses of
a program of the machine, so its destinations are limited here: none that the machine itself would receive.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Final

from bridgehead.lab.range_choice import Network
from bridgehead.network.rtnetlink_listing import RouteRecord

from .addressing import (
    LAB_LINK,
    LINK_LOCAL4,
    MACHINE_LINK,
    MACHINE_LINK_PREFIX,
    OUTSIDE,
    OUTSIDE_LINK,
    OWN_PREFIX6,
    GatewayPlan,
    Version,
    networks_of,
)

_TABLE: Final = "inet bridgehead"
_KEYWORDS: Final[dict[Version, str]] = {4: "ip", 6: "ip6"}
# Never of another host's own: "this host" (Linux connects to itself), loopback, link-local (metadata services of
# clouds among them), multicast, reserved; IPv6: those that contain IPv4 addresses, too.
_NEVER: Final[dict[Version, tuple[str, ...]]] = {
    4: ("0.0.0.0/8", "127.0.0.0/8", LINK_LOCAL4, "224.0.0.0/3"),
    6: ("::/96", "::ffff:0:0/96", "fe80::/10", "ff00::/8", OWN_PREFIX6, OUTSIDE[6].network),
}
_REJECT: Final = "reject with icmpx no-route"
_OF_THE_MACHINE: Final = frozenset(("local", "broadcast", "anycast"))


def own_networks(routes: Iterable[RouteRecord]) -> dict[Version, list[Network]]:
    """Return the destinations by IP version that are the machine itself, or labs behind links of other gateways."""
    found: dict[Version, list[Network]] = {}
    for version, family in ((4, ipaddress.IPv4Network), (6, ipaddress.IPv6Network)):
        networks = [
            family(route.destination)
            for route in routes
            if route.family == version
            and route.destination != "default"
            and (route.kind in _OF_THE_MACHINE or route.device.startswith(MACHINE_LINK_PREFIX))
        ]
        found[4 if version == 4 else 6] = list(ipaddress.collapse_addresses(networks))  # type: ignore[type-var]
    return found


def render_ruleset(plan: GatewayPlan, machine: dict[Version, list[Network]]) -> str:
    """Return the whole table. `machine`: the destinations that are the machine itself."""
    rules = [line for ranges in plan.ranges for line in _outside_rules(ranges.version, plan)] if plan.outside else []
    return f"""\
table {_TABLE} {{
{_render_sets(machine)}
    chain input {{
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        icmpv6 type {{ nd-neighbor-solicit, nd-neighbor-advert }} accept
        {_REJECT}
    }}
    chain forward {{
        type filter hook forward priority filter; policy drop;
        ct state established,related accept
{_lines(_machine_rules(plan), 8)}
{_lines([f'iifname "{LAB_LINK}" oifname "{OUTSIDE_LINK}" jump outside'], 8)}
        {_REJECT}
    }}
    chain outside {{
{_lines(rules, 8)}
    }}
    chain postrouting {{
        type nat hook postrouting priority srcnat;
        oifname "{OUTSIDE_LINK}" masquerade
    }}
}}
"""


def render_machine_sets(machine: dict[Version, list[Network]]) -> str:
    """Return a transaction that replaces the destinations that are the machine itself."""
    lines = []
    for version in _KEYWORDS:
        lines.append(f"flush set {_TABLE} machine{version}")
        if machine[version]:
            lines.append(f"add element {_TABLE} machine{version} {{ {_join(machine[version])} }}")
    return "\n".join([*lines, ""])


def _render_sets(machine: dict[Version, list[Network]]) -> str:
    lines = []
    for version in _KEYWORDS:
        elements = f" elements = {{ {_join(machine[version])} }};" if machine[version] else ""
        kind = "ipv4_addr" if version == 4 else "ipv6_addr"
        lines.append(f"set machine{version} {{ type {kind}; flags interval; auto-merge;{elements} }}")
    return _lines(lines, 4)


def _machine_rules(plan: GatewayPlan) -> list[str]:
    """Return rules for connections from the machine; those that it would forward for others are none of them."""
    return [
        f'iifname "{MACHINE_LINK}" oifname "{LAB_LINK}" {_KEYWORDS[ranges.version]} saddr {pair.near}'
        f" {_KEYWORDS[ranges.version]} daddr {{ {', '.join(networks_of(ranges))} }} accept"
        for ranges, pair in zip(plan.ranges, plan.pairs, strict=False)
    ]


def _outside_rules(version: Version, plan: GatewayPlan) -> list[str]:
    keyword = _KEYWORDS[version]
    own = [network for ranges in plan.ranges if ranges.version == version for network in networks_of(ranges)]
    refused = ipaddress.collapse_addresses(map(ipaddress.ip_network, (*_NEVER[version], *own)))  # type: ignore[type-var]
    return [
        # The name server's other ports are the machine's, if that has its resolver on its loopback.
        f"{keyword} daddr {OUTSIDE[version].name_server} meta l4proto {{ tcp, udp }} th dport 53 accept",
        f"{keyword} daddr {{ {_join(refused)} }} {_REJECT}",
        f"{keyword} daddr @machine{version} {_REJECT}",
        f"meta nfproto {'ipv4' if version == 4 else 'ipv6'} accept",
    ]


def _join(networks: Iterable[Network]) -> str:
    return ", ".join(map(str, networks))


def _lines(lines: Sequence[str], indent: int) -> str:
    return "\n".join(f"{' ' * indent}{line}" for line in lines)
