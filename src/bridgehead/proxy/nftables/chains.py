"""The chains: those that every table has, and those that Frontends share by their shape. README.md shows the result.

Pure. `render.py` writes what it gets from here, and counts how many Frontends use each shared chain.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bridgehead.proxy.addresses import Family, of_family
from bridgehead.proxy.frontends import Frontend, FrontendKey, SourceNat, Verdict
from bridgehead.proxy.mode import Settings

REFUSE = 0x8000  # mark
PROTOCOLS = ("tcp", "udp", "sctp")
INSIDE = 65536  # the backends of `Frontend.inside` are numbered from here
MOST_TURNS = 16  # backends that have turns; of more, a few thousand connections are uneven anyway
_TURNS_EACH = 61  # prime, so that hardly any regular pattern of connections meets the same turns again and again


class Chain(NamedTuple):
    """A chain and its rules. `hook` is what makes it a base chain, "" for one that is only jumped to.

    `behind` are the shared chains that its rules jump or go to.
    """

    family: Family
    name: str
    rules: tuple[str, ...]
    hook: str = ""
    behind: tuple[Chain, ...] = ()


def word(family: Family) -> str:
    """What nft calls the family."""
    return "ip6" if family == 6 else "ip"


def key_words(key: FrontendKey) -> str:
    """A Frontend's key as that of an element of the verdict maps."""
    return f"{key.protocol} . {key.port}" if key.is_node_port else f"{key.address} . {key.protocol} . {key.port}"


def backend_words(key: FrontendKey) -> str:
    """How the keys of the elements with its backends begin, in the maps that its protocol has for itself."""
    return str(key.port) if key.is_node_port else f"{key.address} . {key.port}"


def priority_words(number: int) -> str:
    """A packet's priority."""
    return f"{number >> 16:x}:{number & 0xFFFF:x}"


def containers(family: Family) -> dict[str, str]:
    """The maps and sets of a table whose elements come from Frontends, by name, as nft declarations."""
    return usual_containers(family) | affinity_containers(family)


def usual_containers(family: Family) -> dict[str, str]:
    """Those that every table has."""
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


CLIENTS = "affinity"  # the map that the kernel fills and, after their timeouts, empties
CLIENTS_SIZE = 524288  # of all sticky Services; who comes when it is full is spread evenly each time
SECOND_LIST = 0x10  # in the number of a backend: it is meant as one of `Frontend.inside`


def affinity_containers(family: Family) -> dict[str, str]:
    """Those that a table has beside them, and beside the map of clients, while it has sticky Frontends."""
    ip = word(family)
    declared = {
        "affinity-names": f"map affinity-names {{ typeof {ip} daddr . meta l4proto . th dport : {ip} daddr; }}",
        "affinity-nodeport-names": f"map affinity-nodeport-names {{ typeof meta l4proto . th dport : {ip} daddr; }}",
    }
    for name, address in (("affinity-choices", f"{ip} daddr . "), ("affinity-nodeport-choices", "")):
        key = f"{address}meta l4proto . th dport . numgen random mod 65536"
        declared[name] = f"map {name} {{ typeof {key} : meta priority; }}"
    for protocol in PROTOCOLS:
        key, value = f"{protocol} dport . meta priority", f"{ip} daddr . {protocol} dport"
        for name, address in (("affinity-backends", f"{ip} daddr . "), ("affinity-nodeport-backends", "")):
            declared[f"{protocol}-{name}"] = f"map {protocol}-{name} {{ typeof {address}{key} : {value}; }}"
    return declared


def clients_map(family: Family) -> str:
    """The nft declaration of the map from a client of a sticky Service port to the number of its backend."""
    # nft 1.0.6 cannot read `typeof jhash` back; a random number has the same type.
    key = "numgen random mod 65536 . numgen random mod 65536" if family == 6 else "ip saddr . ip daddr"
    return f"map {CLIENTS} {{ typeof {key} : meta priority; flags dynamic,timeout; size {CLIENTS_SIZE}; }}"


def _client(family: Family) -> str:
    """Its key: the client and the Service port, which is the destination by then.

    nft 1.0.6 has room for 16 bytes in the key of an element that a rule adds (it aborts, or overwrites a part with the
    value), so IPv6 addresses are hashed, twice.
    """
    if family == 4:
        return "ip saddr . ip daddr"
    return " . ".join(f"jhash ip6 saddr . ip6 daddr mod 4294967295 seed {seed}" for seed in ("0x1", "0x2"))


def fixed_chains(family: Family, settings: Settings) -> tuple[Chain, ...]:
    """The chains every table has, so ordered that none refers to a later one but `services` to the shared ones."""
    ip = word(family)
    services = [
        f"{ip} daddr . meta l4proto . th dport vmap @services",
        f"{ip} daddr @cluster-ips goto refuse",
    ]
    local = f"fib daddr type local {ip} daddr != " + ("::1" if family == 6 else "127.0.0.0/8")
    if settings.node_port_cidrs is not None:
        ranges = of_family(settings.node_port_cidrs, family)
        local = f"{local} {ip} daddr {_set(ranges)}" if ranges else ""
    if local:
        services.append(f"{local} meta l4proto . th dport vmap @nodeports")
    refuse, mark = refuse_mark(settings), settings.masquerade_mark
    refused = f"meta mark and {refuse:#x} == {refuse:#x} goto reject-refused"
    masquerade = (
        f"ct status dnat fib saddr type != local {ip} saddr . {ip} daddr @hairpin masquerade fully-random",
        f"meta mark and {mark:#x} == {mark:#x} meta mark set meta mark xor {mark:#x} masquerade fully-random",
    )
    # Connection tracking does not translate what it cannot place in a connection, such as a segment out of the window.
    # So that goes to somebody who knows of no connection and answers with a reset (RFC 9293 3.10.7: without ACK, since
    # the segment had one), which would end the connection that it does belong to. decisions/0012.
    lost = f"ct state invalid {ip} daddr @cluster-ips drop"
    # Nobody translated these, or to an address of another Service, which is not translated once more. Not sooner, since
    # there may be Services of another proxy (label service-proxy-name).
    astray = [f"ct state new {ip} daddr @cluster-ips goto reject-refused"]
    ranges = of_family(settings.service_cidrs, family)
    if ranges:
        # One that is an address of the node itself is served by somebody else: so do other proxies, and DNS caches.
        astray.append(f"ct state new {ip} daddr {_set(ranges)} fib daddr type != local drop")
    stray_reset = "ct state invalid tcp flags & (rst | ack) == rst drop"
    filtering, early = "type filter hook", (refused, lost, *astray)
    return (
        Chain(family, "refuse", (f"meta mark set meta mark or {refuse:#x}",)),
        Chain(family, "reject-refused", ("meta l4proto tcp reject with tcp reset", "reject")),
        Chain(family, "services", tuple(services)),
        Chain(family, "prerouting", ("goto services",), "type nat hook prerouting priority -100; policy accept;"),
        Chain(family, "output", ("goto services",), "type nat hook output priority -100; policy accept;"),
        # Right after the translation and before routing, so that a refusal needs no route to where nobody is.
        Chain(family, "refuse-prerouting", early, f"{filtering} prerouting priority -90; policy accept;"),
        Chain(family, "refuse-output", early, f"{filtering} output priority -90; policy accept;"),
        Chain(family, "stray-resets", (stray_reset,), "type filter hook postrouting priority 0; policy accept;"),
        Chain(family, "postrouting", masquerade, "type nat hook postrouting priority 100; policy accept;"),
    )


class Way(NamedTuple):
    """How a Frontend's connections go: the verdict of its element, and the shared chain that it names, if it does."""

    verdict: str
    chain: Chain | None = None

    @property
    def behind(self) -> tuple[Chain, ...]:
        """For a chain one of whose rules has this verdict."""
        return () if self.chain is None else (self.chain,)


def _to(chain: Chain) -> Way:
    return Way(f"goto {chain.name}", chain)


def way_of(frontend: Frontend, settings: Settings) -> Way:
    """The verdict for a Frontend, which depends only on its shape: how many backends, policies, ranges, affinity."""
    key, inside = frontend.key, frontend.inside
    return _way(
        _Kind(key.family, key.protocol, key.is_node_port, frontend.affinity_seconds, settings.node_name),
        len(frontend.backends),
        len(inside) if inside is not None else None,
        frontend.when_empty,
        frontend.source_nat,
        frontend.source_ranges,
        _inside(settings, key.family),
        settings.masquerade_mark,
    )


def refuse_mark(settings: Settings) -> int:
    """Another one than that for masquerading."""
    return REFUSE if settings.masquerade_mark != REFUSE else REFUSE >> 1


class _Inside(NamedTuple):
    """How packets of the cluster's pods are told, as two words of a match; `own` instead for this node's only."""

    field: str
    value: str
    own: str


@lru_cache(maxsize=16)
def _inside(settings: Settings, family: Family) -> _Inside | None:
    """None: nothing is known of them."""
    if settings.pod_interface:
        return _Inside("iifname", *2 * (f'"{settings.pod_interface}"',))
    cidrs = of_family(settings.cluster_cidrs, family)
    if not cidrs:
        return None
    return _Inside(f"{word(family)} saddr", _set(cidrs), _set(settings.insider_cidrs(family)))


class _Kind(NamedTuple):
    """Which maps a Frontend's backends are in, and how one of them is picked."""

    family: Family
    protocol: str
    is_node_port: bool
    affinity_seconds: int | None
    node_name: str


@lru_cache(maxsize=4096)
def _way(
    kind: _Kind,
    backends: int,
    inside: int | None,
    when_empty: Verdict,
    source_nat: SourceNat,
    source_ranges: tuple[str, ...] | None,
    cluster: _Inside | None,
    mark: int,
) -> Way:
    pick = _pick if kind.affinity_seconds is None else _pick_sticky
    insiders = None
    if inside is not None:
        insiders = pick(kind, inside, is_inside=True) if inside else Way("goto refuse")
    picked = pick(kind, backends, is_inside=False) if backends else None
    return _compose(kind.family, picked, insiders, when_empty, source_nat, source_ranges, cluster, mark)


def _compose(
    family: Family,
    picked: Way | None,
    insiders: Way | None,
    when_empty: Verdict,
    source_nat: SourceNat,
    source_ranges: tuple[str, ...] | None,
    cluster: _Inside | None,
    mark: int,
) -> Way:
    """What comes before a backend is picked: source ranges, then inside or outside, then masquerading.

    `picked` is None when there is no backend, `insiders` when there are no others for connections from inside.
    """
    ip = word(family)
    way = Way("goto refuse" if when_empty is Verdict.REJECT else "drop")
    if picked is not None:
        way = _masquerading(picked, family, source_nat, cluster, mark)
    if insiders is not None:
        from_node = insiders
        if insiders.chain is not None:
            from_node = _masquerading(insiders, family, SourceNat.ALWAYS, None, mark)
        rules = [f"fib saddr type local {from_node.verdict}", way.verdict]
        if cluster is not None:
            rules.insert(0, f"{cluster.field} {cluster.own} {insiders.verdict}")
        name = "-or-".join(rule.split()[-1] for rule in (way.verdict, insiders.verdict))
        behind = dict.fromkeys((*way.behind, *insiders.behind, *from_node.behind))
        way = _to(Chain(family, f"split-{name}", tuple(rules), behind=tuple(behind)))
    if source_ranges is not None:
        if not source_ranges:
            return Way("drop")
        rules = [f"{ip} saddr != {_set(source_ranges)} drop", way.verdict]
        name = f"from-{_digest(*source_ranges)}-{way.verdict.split()[-1]}"
        way = _to(Chain(family, name, tuple(rules), behind=way.behind))
    return way


@lru_cache(maxsize=4096)
def _pick(kind: _Kind, count: int, *, is_inside: bool) -> Way:
    """`n3-tcp`, `p3-tcp`: one of the three backends of an address, of a node port; `n3i-tcp`: of the inside ones.

    A few backends have their turns. The rule's counter belongs to all Frontends with as many, so that plain turns could
    fall in step with a client of two of them: `turns` mixes them. Many are chosen by chance. decisions/0009.
    """
    shape = f"{'i' if is_inside else ''}-{kind.protocol}"
    rule, numbered = _translate(kind, _number_below(count, is_inside)), tuple[Chain, ...]()
    if 1 < count <= MOST_TURNS:
        numbered = tuple(
            # The only number below 1, with an offset: what nft 1.0.6 can read back as a part of a key.
            Chain(kind.family, f"{_letter(kind)}th{number}{shape}", (_translate(kind, _number(number, is_inside)),))
            for number in range(count)
        )
        order = turns(count, kind.node_name)
        map_ = ", ".join(f"{turn} : goto {numbered[number].name}" for turn, number in enumerate(order))
        rule = f"numgen inc mod {len(order)} vmap {{ {map_} }}"
    return _to(Chain(kind.family, f"{_letter(kind)}{count}{shape}", (rule,), behind=numbered))


def _translate(kind: _Kind, number: str) -> str:
    """To the backend of that number, of a packet's destination."""
    key, target = f"{kind.protocol} dport", f"{kind.protocol}-nodeport-endpoints"
    if not kind.is_node_port:
        key, target = f"{word(kind.family)} daddr . {key}", f"{kind.protocol}-endpoints"
    return f"dnat to {key} . {number} map @{target}"


def _pick_sticky(kind: _Kind, count: int, *, is_inside: bool) -> Way:
    """`n3-tcp-10800s`: one of three backends, and the same one for a client that comes again in time.

    Two fields of the packet hold what is found on the way: the destination becomes the Service port's name, which all
    its addresses share, and the priority the backend's number. Translation overwrites the one, forwarding the other.
    """
    ip, protocol, seconds = word(kind.family), kind.protocol, kind.affinity_seconds
    shape = f"{'i' if is_inside else ''}-{protocol}-{seconds}s"
    if kind.is_node_port:
        now = original = ""
        names, choices, backends = (f"affinity-nodeport-{what}" for what in ("names", "choices", "backends"))
    else:
        now, original = f"{ip} daddr . ", f"ct original {ip} daddr . "
        names, choices, backends = (f"affinity-{what}" for what in ("names", "choices", "backends"))
    client = _client(kind.family)
    note = f"update @{CLIENTS} {{ {client} timeout {seconds}s : meta priority }}"
    mark = f"meta priority set meta priority or {SECOND_LIST:#x} " if is_inside else ""
    translate = f"{mark}dnat to {original}{protocol} dport . meta priority map @{protocol}-{backends}"
    recall = Chain(
        kind.family,
        f"recall-{_letter(kind)}{shape}",
        (
            # Ends at the first map that has nothing: a client not known, or one whose backend is gone.
            f"meta priority set {client} map @{CLIENTS} {note} {translate}",
            # An update alone would keep the old backend.
            f"delete @{CLIENTS} {{ {client} : meta priority }}",
        ),
    )
    remember = Chain(
        kind.family,
        f"remember-{_letter(kind)}{shape}",
        (note, translate, "drop"),  # two rules: whoever finds the map full is not remembered, but served
    )
    sticky = Chain(
        kind.family,
        f"{_letter(kind)}{count}{shape}",
        (
            f"{ip} daddr set {now}meta l4proto . th dport map @{names}",
            f"jump {recall.name}",
            f"meta priority set {original}meta l4proto . th dport . {_number_below(count, is_inside)} map @{choices}",
            f"goto {remember.name}",
        ),
        behind=(recall, remember),
    )
    return _to(sticky)


def turns(count: int, node_name: str) -> tuple[int, ...]:
    """In which order that many backends have their turns, 61 each.

    Steps of the golden ratio around a circle in which each backend has a part (Weyl's equidistribution): any few turns
    that follow each other are spread evenly, and so are every second, every third, ... of them. Where on the circle it
    begins depends on the node: a thousand nodes that each make one connection do not all meet the first backend.
    """
    length = count * _TURNS_EACH
    step = round(length * (math.sqrt(5) - 1) / 2)
    while math.gcd(step, length) > 1:
        step += 1
    first = zlib.crc32(f"{node_name} {count}".encode())
    return tuple((first + turn * step) % length // _TURNS_EACH for turn in range(length))


def _letter(kind: _Kind) -> str:
    return "p" if kind.is_node_port else "n"


def _number_below(count: int, is_inside: bool) -> str:
    return f"numgen random mod {count}" + (f" offset {INSIDE}" if is_inside else "")


def _number(number: int, is_inside: bool) -> str:
    """Always the same: nft takes no constant in a key beside fields."""
    offset = number + (INSIDE if is_inside else 0)
    return "numgen inc mod 1" + (f" offset {offset}" if offset else "")


def _masquerading(way: Way, family: Family, source_nat: SourceNat, cluster: _Inside | None, mark: int) -> Way:
    """The same behind a chain that marks for masquerading, where `source_nat` asks for it."""
    picked = way.verdict.split()[-1]
    marked = f"meta mark set meta mark or {mark:#x}"
    if source_nat is SourceNat.ALWAYS:
        name, mark_it = f"{picked}-masquerade", marked
    elif source_nat is SourceNat.OUTSIDE and cluster is not None:
        name, mark_it = f"{picked}-outside", f"{cluster.field} != {cluster.value} {marked}"
    else:
        return way
    return _to(Chain(family, name, (mark_it, way.verdict), behind=way.behind))


def _set(elements: Sequence[str]) -> str:
    return "{ " + ", ".join(elements) + " }"


def _digest(*texts: str) -> str:
    return hashlib.sha256(",".join(texts).encode()).hexdigest()[:12]
