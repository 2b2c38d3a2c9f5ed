"""The chains: those that every table has, and those that Frontends share by their shape. README.md shows the result.

Pure. `render.py` writes what it gets from here, and counts how many Frontends use each shared chain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bridgehead.proxy.frontends import Backend, Family, Frontend, SourceNat, Verdict, family_of
from bridgehead.proxy.mode import Settings

MASQUERADE = 0x4000  # mark: kube-proxy's default iptablesMasqueradeBit, which CNIs know to leave alone
REFUSE = 0x8000  # mark
PROTOCOLS = ("tcp", "udp", "sctp")
INSIDE = 65536  # the backends of `Frontend.inside` are numbered from here


class Chain(NamedTuple):
    """A chain and its rules. `hook` is what makes it a base chain, "" for one that is only jumped to.

    `affinity` names the set in which its rules remember clients, "" for a chain that remembers nobody.
    """

    family: Family
    name: str
    rules: tuple[str, ...]
    hook: str = ""
    affinity: str = ""


def word(family: Family) -> str:
    """What nft calls the family."""
    return "ip6" if family == 6 else "ip"


def containers(family: Family) -> dict[str, str]:
    """The maps and sets of a table, by name, as nft declarations."""
    ip = word(family)
    declared = {
        "services": f"map services {{ typeof {ip} daddr . meta l4proto . th dport : verdict; }}",
        "nodeports": "map nodeports { typeof meta l4proto . th dport : verdict; }",
    }
    # One for each protocol, since nft 1.0.6 cannot use a map that it reads back when the data's port says `th dport`.
    for protocol in PROTOCOLS:
        key, value = f"{protocol} dport . numgen random mod 65536", f"{ip} daddr . {protocol} dport"
        declared[f"{protocol}-endpoints"] = f"map {protocol}-endpoints {{ typeof {ip} daddr . {key} : {value}; }}"
        declared[f"{protocol}-nodeport-endpoints"] = f"map {protocol}-nodeport-endpoints {{ typeof {key} : {value}; }}"
    declared["cluster-ips"] = f"set cluster-ips {{ typeof {ip} daddr; }}"
    declared["hairpin"] = f"set hairpin {{ typeof {ip} saddr . {ip} daddr; }}"
    return declared


def affinity_set(family: Family, name: str) -> str:
    """The nft declaration of a set of clients. The kernel fills it and, after their timeouts, empties it.

    It takes 65535 clients of itself; with that as a declared size the kernel would reserve 2 MB for each set at once.
    Whoever comes when it is full is spread evenly each time.
    """
    return f"set {name} {{ typeof {word(family)} saddr; flags dynamic,timeout; }}"


def fixed_chains(family: Family, settings: Settings) -> tuple[Chain, ...]:
    """The chains every table has, so ordered that none refers to a later one but `services` to the shared ones."""
    ip = word(family)
    services = [
        f"{ip} daddr . meta l4proto . th dport vmap @services",
        f"{ip} daddr @cluster-ips goto refuse",
    ]
    ranges = _of_family(settings.service_cidrs, family)
    if ranges:
        services.append(f"{ip} daddr {_set(ranges)} drop")
    local = f"fib daddr type local {ip} daddr != " + ("::1" if family == 6 else "127.0.0.0/8")
    if settings.node_port_cidrs is not None:
        ranges = _of_family(settings.node_port_cidrs, family)
        local = f"fib daddr type local {ip} daddr {_set(ranges)}" if ranges else ""
    if local:
        services.append(f"{local} meta l4proto . th dport vmap @nodeports")
    refused = f"meta mark and {REFUSE:#x} == {REFUSE:#x} goto reject-refused"
    masquerade = (
        f"ct status dnat fib saddr type != local {ip} saddr . {ip} daddr @hairpin masquerade fully-random",
        f"meta mark and {MASQUERADE:#x} == {MASQUERADE:#x} meta mark set meta mark xor {MASQUERADE:#x} "
        "masquerade fully-random",
    )
    return (
        Chain(family, "refuse", (f"meta mark set meta mark or {REFUSE:#x}",)),
        Chain(family, "reject-refused", ("meta l4proto tcp reject with tcp reset", "reject")),
        Chain(family, "services", tuple(services)),
        Chain(family, "prerouting", ("goto services",), "type nat hook prerouting priority -100; policy accept;"),
        Chain(family, "output", ("goto services",), "type nat hook output priority -100; policy accept;"),
        # Right after the translation and before routing, so that a refusal needs no route to where nobody is.
        Chain(family, "refuse-prerouting", (refused,), "type filter hook prerouting priority -90; policy accept;"),
        Chain(family, "refuse-output", (refused,), "type filter hook output priority -90; policy accept;"),
        Chain(family, "postrouting", masquerade, "type nat hook postrouting priority 100; policy accept;"),
    )


class Way(NamedTuple):
    """How a Frontend's connections go: the verdict of its element, and the shared chains behind it, first used last."""

    verdict: str
    chains: tuple[Chain, ...]


def way_of(frontend: Frontend, settings: Settings) -> Way:
    """The verdict for a Frontend, which depends only on its shape: the number of backends, policies and ranges.

    Unless it is sticky: then its backends have chains of their own, which Frontends of the same owner share.
    """
    key, inside = frontend.key, frontend.inside
    cluster_cidrs = _of_family(settings.cluster_cidrs, key.family)
    if frontend.affinity_seconds is None:
        inside_count = len(inside) if inside is not None else None
        return _even_way(
            key.family,
            key.protocol,
            key.is_node_port,
            len(frontend.backends),
            inside_count,
            frontend.when_empty,
            frontend.source_nat,
            frontend.source_ranges,
            cluster_cidrs,
        )
    refuse = Way("goto refuse", ())
    return _compose(
        key.family,
        _pick_sticky(frontend, frontend.backends) if frontend.backends else None,
        None if inside is None else _pick_sticky(frontend, inside) if inside else refuse,
        frontend.when_empty,
        frontend.source_nat,
        frontend.source_ranges,
        cluster_cidrs,
    )


@lru_cache(maxsize=4096)
def _even_way(
    family: Family,
    protocol: str,
    is_node_port: bool,
    backends: int,
    inside: int | None,
    when_empty: Verdict,
    source_nat: SourceNat,
    source_ranges: tuple[str, ...] | None,
    cluster_cidrs: tuple[str, ...],
) -> Way:
    insiders = None
    if inside is not None:
        insiders = Way("goto refuse", ())
        if inside:
            insiders = _pick(family, protocol, is_node_port, inside, is_inside=True)
    picked = _pick(family, protocol, is_node_port, backends, is_inside=False) if backends else None
    return _compose(family, picked, insiders, when_empty, source_nat, source_ranges, cluster_cidrs)


def _compose(
    family: Family,
    picked: Way | None,
    insiders: Way | None,
    when_empty: Verdict,
    source_nat: SourceNat,
    source_ranges: tuple[str, ...] | None,
    cluster_cidrs: tuple[str, ...],
) -> Way:
    """What comes before a backend is picked: source ranges, then inside or outside, then masquerading.

    `picked` is None when there is no backend, `insiders` when there are no others for connections from inside.
    """
    ip = word(family)
    way = Way("goto refuse" if when_empty is Verdict.REJECT else "drop", ())
    if picked is not None:
        way = _masquerading(picked, family, source_nat, cluster_cidrs)
    if insiders is not None:
        from_node = insiders
        if insiders.chains:
            from_node = _masquerading(insiders, family, SourceNat.ALWAYS, ())
        rules = [f"fib saddr type local {from_node.verdict}", way.verdict]
        if cluster_cidrs:
            rules.insert(0, f"{ip} saddr {_set(cluster_cidrs)} {insiders.verdict}")
        name = "-or-".join(rule.split()[-1] for rule in (way.verdict, insiders.verdict))
        split = Chain(family, f"split-{name}", tuple(rules))
        both = dict.fromkeys((*way.chains, *insiders.chains, *from_node.chains, split))
        way = Way(f"goto {split.name}", tuple(both))
    if source_ranges is not None:
        if not source_ranges:
            return Way("drop", ())
        rules = [f"{ip} saddr != {_set(source_ranges)} drop", way.verdict]
        allowed = Chain(family, f"from-{_digest(*source_ranges)}-{way.verdict.split()[-1]}", tuple(rules))
        way = Way(f"goto {allowed.name}", (*way.chains, allowed))
    return way


def _pick_sticky(frontend: Frontend, backends: Sequence[Backend]) -> Way:
    """One of the backends, and the same one for a client that comes again in time.

    Each backend has a set of the clients it served last, as kube-proxy's have, and a chain that adds to it. What
    Frontends of one Service port share is found by the names: a client meets the same backend at each of its addresses.
    """
    family, protocol, seconds = frontend.key.family, frontend.key.protocol, frontend.affinity_seconds
    ip = word(family)
    chains: list[Chain] = []
    lookups: list[str] = []
    verdicts: list[str] = []
    # By address: their numbers differ between Frontends and after a restart, and must not make other chains.
    for address, port in sorted((backend.address, backend.port) for backend in backends):
        digest = _digest(frontend.owner, protocol, address, str(port))
        clients = f"affinity-{digest}"
        target = f"[{address}]:{port}" if family == 6 else f"{address}:{port}"
        # Two rules: whoever finds the set full is not remembered, but served.
        rules = (
            f"update @{clients} {{ {ip} saddr timeout {seconds}s }}",
            f"meta l4proto {protocol} dnat to {target}",
        )
        chain = Chain(family, f"to-{digest}-{seconds}", rules, affinity=clients)
        chains.append(chain)
        lookups.append(f"{ip} saddr @{clients} goto {chain.name}")
        verdicts.append(f"{len(verdicts)} : goto {chain.name}")
    if len(chains) == 1:
        return Way(f"goto {chains[0].name}", tuple(chains))
    choice = (*lookups, f"numgen random mod {len(verdicts)} vmap {_set(verdicts)}")
    sticky = Chain(family, f"sticky-{_digest(*choice)}", choice)
    return Way(f"goto {sticky.name}", (*chains, sticky))


def _pick(family: Family, protocol: str, is_node_port: bool, count: int, *, is_inside: bool) -> Way:
    """`n3-tcp`, `p3-tcp`: one of the three backends of an address, of a node port; `n3i-tcp`: of the inside ones."""
    key, target = f"{protocol} dport", f"{protocol}-nodeport-endpoints"
    if not is_node_port:
        key, target = f"{word(family)} daddr . {key}", f"{protocol}-endpoints"
    offset = f" offset {INSIDE}" if is_inside else ""
    name = f"{'p' if is_node_port else 'n'}{count}{'i' if is_inside else ''}-{protocol}"
    rule = f"dnat to {key} . numgen random mod {count}{offset} map @{target}"
    return Way(f"goto {name}", (Chain(family, name, (rule,)),))


def _masquerading(way: Way, family: Family, source_nat: SourceNat, cluster_cidrs: tuple[str, ...]) -> Way:
    """The same behind a chain that marks for masquerading, where `source_nat` asks for it."""
    picked = way.verdict.split()[-1]
    mark = f"meta mark set meta mark or {MASQUERADE:#x}"
    if source_nat is SourceNat.ALWAYS:
        chain = Chain(family, f"{picked}-masquerade", (mark, way.verdict))
    elif source_nat is SourceNat.OUTSIDE and cluster_cidrs:
        source = f"{word(family)} saddr != {_set(cluster_cidrs)}"
        chain = Chain(family, f"{picked}-outside", (f"{source} {mark}", way.verdict))
    else:
        return way
    return Way(f"goto {chain.name}", (*way.chains, chain))


def _of_family(ranges: Sequence[str], family: Family) -> tuple[str, ...]:
    return tuple(sorted(text for text in ranges if family_of(text) == family))


def _set(elements: Sequence[str]) -> str:
    return "{ " + ", ".join(elements) + " }"


def _digest(*texts: str) -> str:
    return hashlib.sha256(",".join(texts).encode()).hexdigest()[:12]
