"""Chains, maps and sets of the tables, as nft text. README.md shows a whole ruleset.

Pure: no I/O, no clock, no randomness.

`render.py` writes what it gets from here, and counts how many Frontends use each shared chain.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bridgehead.proxy.address_texts import Family, of_family
from bridgehead.proxy.frontends import ANY_LOCAL, Frontend, FrontendKey, SourceNat, Verdict
from bridgehead.proxy.mode import Settings

FEW = 3  # Frontends of cluster IPs with so many backends, or fewer, share a chain

MAJOR = {False: 1, True: 2}  # the major half of a backend's number: one of `backends`, one of `cluster_backends`

CLIENTS = "affinity"  # the map that the kernel fills, and empties after the timeouts
CLIENTS_SIZE = 524288  # for all Services with affinity; when it is full, further clients are served without affinity


class Chain(NamedTuple):
    """A chain and its rules.

    `hook` is the declaration of a base chain, "" for a regular chain. `targets` are the shared chains that the rules
    jump or go to.
    """

    family: Family
    name: str
    rules: tuple[str, ...]
    hook: str = ""
    targets: tuple[Chain, ...] = ()


def family_keyword(family: Family) -> str:
    """Return nft's name of the address family."""
    return "ip6" if family == 6 else "ip"


def frontend_text(key: FrontendKey) -> str:
    """Return a Frontend's key in `services`. Keys of its elements in other maps begin with it.

    The address of a node port is 0.0.0.0 or ::.
    """
    return f"{key.address} . {key.protocol} . {key.port}"


def class_id(number: int) -> str:
    """Return a packet's priority as nft writes it, "MAJOR:MINOR" in hex. Neither may be 0: nft writes 0 differently."""
    return f"{number >> 16:x}:{number & 0xFFFF:x}"


def backend_number(index: int, *, is_cluster: bool) -> int:
    """Return the number of `backends[index]` (1:1, 1:2, ...) or `cluster_backends[index]` (2:1, 2:2, ...)."""
    return MAJOR[is_cluster] << 16 | index + 1


def containers(family: Family) -> dict[str, str]:
    """Return nft declarations, by name, of the maps and sets whose elements come from Frontends."""
    return basic_containers(family) | affinity_containers(family)


def basic_containers(family: Family) -> dict[str, str]:
    """Return declarations of the maps and sets that every table has."""
    address = _address_type(family)
    frontend = f"{address} . inet_proto . inet_service"
    return {
        "services": f"map services {{ type {frontend} : verdict; }}",
        "endpoints": f"map endpoints {{ type {frontend} . classid : {address} . inet_service; }}",
        "cluster-ips": f"set cluster-ips {{ type {address}; }}",
        "hairpin": f"set hairpin {{ type {address} . {address}; }}",
    }


def affinity_containers(family: Family) -> dict[str, str]:
    """Return declarations of the maps that a table has while there is affinity, beside the map of clients."""
    address = _address_type(family)
    frontend = f"{address} . inet_proto . inet_service"
    return {
        "affinity-names": f"map affinity-names {{ type {frontend} : {address}; }}",
        "affinity-choices": f"map affinity-choices {{ type {frontend} . classid : classid; }}",
    }


def clients_map(family: Family) -> str:
    """Return the declaration of the map from a client and a Service port's name to the number of a backend."""
    # nft 1.0.6 cannot read `typeof jhash` back; a random number has the same type.
    key = "numgen random mod 65536 . numgen random mod 65536" if family == 6 else "ip saddr . ip daddr"
    return f"map {CLIENTS} {{ typeof {key} : meta priority; flags dynamic,timeout; size {CLIENTS_SIZE}; }}"


def _address_type(family: Family) -> str:
    return "ipv6_addr" if family == 6 else "ipv4_addr"


def _client(family: Family) -> str:
    """Return the key of the map of clients: the client, and the Service port's name, which is the destination by then.

    nft 1.0.6 has room for 16 bytes in the key of an element that a rule adds (with more it aborts, or overwrites a part
    with the value). IPv6 addresses are therefore hashed, twice.
    """
    if family == 4:
        return "ip saddr . ip daddr"
    return " . ".join(f"jhash ip6 saddr . ip6 daddr mod 4294967295 seed {seed}" for seed in ("0x1", "0x2"))


def fixed_chains(family: Family, settings: Settings) -> tuple[Chain, ...]:
    """Return the chains that every table has."""
    ip, mark = family_keyword(family), settings.masquerade_mark
    # ANY_LOCAL is the address of node ports in the map. A packet that really has it must not pass for one.
    services = [f"{ip} daddr != {ANY_LOCAL[family]} {ip} daddr . meta l4proto . th dport vmap @services"]
    local = f"fib daddr type local {ip} daddr != " + ("::1" if family == 6 else "127.0.0.0/8")
    if settings.node_port_cidrs is not None:
        ranges = of_family(settings.node_port_cidrs, family)
        local = f"{local} {ip} daddr {_set(ranges)}" if ranges else ""
    if local:
        services.append(f"{local} {_any_local(family)} . meta l4proto . th dport vmap @services")
    # A host port on 127.0.0.1 is for the node itself. The kernel drops packets from others to loopback addresses only
    # after prerouting, when the address would be a pod's already.
    from_others = [f"ip daddr != 127.0.0.0/8 {services[0]}", *services[1:]] if family == 4 else services
    masquerade = (
        f"ct status dnat fib saddr type != local {ip} saddr . {ip} daddr @hairpin masquerade fully-random",
        f"meta mark and {mark:#x} == {mark:#x} meta mark set meta mark xor {mark:#x} masquerade fully-random",
    )
    # Connection tracking does not translate what it cannot assign to a connection, such as a segment out of the
    # window. The segment's receiver knows no such connection and answers with a reset (RFC 9293 3.10.7: without ACK,
    # since the segment had one), which would end the connection that the segment belongs to. decisions/0012.
    stray_reset = "ct state invalid tcp flags & (rst | ack) == rst"
    # Packets that are still addressed to a cluster IP here: `invalid` ones that connection tracking did not translate,
    # connections to an undefined port, and connections to an endpoint that is another Service's cluster IP, which are
    # not translated twice. Right after nat and not before: another proxy may have Services there (label
    # service-proxy-name).
    untranslated = [f"ct state new {ip} daddr @cluster-ips {rule}" for rule in _REJECTIONS]
    ranges = of_family(settings.service_cidrs, family)
    if ranges:
        # An address of the node itself is not dropped: other proxies and DNS caches serve such addresses.
        untranslated.append(f"ct state invalid,new {ip} daddr {_set(ranges)} fib daddr type != local drop")
    else:
        untranslated.append(f"ct state invalid {ip} daddr @cluster-ips drop")
    # Before routing, so that a rejection needs no route to an address that nobody has.
    prerouting = (_REJECT_ARRIVED, f"{stray_reset} fib daddr type != local drop", *untranslated)
    output = (f"{stray_reset} drop", *untranslated)
    nat, filter_ = (f"type {kind} hook {{}} priority {{}}; policy accept;" for kind in ("nat", "filter"))
    return (
        Chain(family, "nat-prerouting", tuple(from_others), nat.format("prerouting", -100)),
        Chain(family, "nat-output", tuple(services), nat.format("output", -100)),
        Chain(family, "nat-postrouting", masquerade, nat.format("postrouting", 100)),
        Chain(family, "filter-prerouting", prerouting, filter_.format("prerouting", -90)),
        Chain(family, "filter-output", output, filter_.format("output", -90)),
    )


class Dispatch(NamedTuple):
    """The verdict of a Frontend's element in `services`, and the shared chain that it goes to, if any."""

    verdict: str
    chain: Chain | None = None

    @property
    def targets(self) -> tuple[Chain, ...]:
        """The targets of a chain that has this verdict in a rule."""
        return () if self.chain is None else (self.chain,)


def _go_to(chain: Chain) -> Dispatch:
    return Dispatch(f"goto {chain.name}", chain)


_REJECTIONS = ("meta l4proto tcp reject with tcp reset", "reject")
# A datagram that is rejected on its way out is reported to its sender as EPERM ("Operation not permitted"), not as
# ECONNREFUSED. A datagram to an address of the node itself is therefore marked by its priority, and rejected when it
# comes back.
_TO_BE_REJECTED = class_id(3 << 16 | 1)
_REJECT_ARRIVED = f'iif "lo" meta priority {_TO_BE_REJECTED} reject'


def _reject(family: Family) -> Dispatch:
    tcp, others = _REJECTIONS
    to_itself = f'oif "lo" meta priority set {_TO_BE_REJECTED} accept'
    return _go_to(Chain(family, "reject-chain", (tcp, to_itself, others)))


def dispatch_for(frontend: Frontend, settings: Settings) -> Dispatch:
    """Return the dispatch of a Frontend: a function of its number of backends, policies, source ranges and affinity."""
    key, cluster_backends = frontend.key, frontend.cluster_backends
    return _dispatch(
        _Kind(key.family, key.is_node_port, frontend.affinity_seconds),
        len(frontend.backends),
        len(cluster_backends) if cluster_backends is not None else None,
        frontend.when_empty,
        frontend.source_nat,
        frontend.source_ranges,
        _pod_match(settings, key.family),
        settings.masquerade_mark,
    )


class _PodMatch(NamedTuple):
    """A match for packets of pods: a field, its value for all pods of the cluster, and for those of this node."""

    field: str
    cluster: str
    node: str


@lru_cache(maxsize=16)
def _pod_match(settings: Settings, family: Family) -> _PodMatch | None:
    """Return how pods are recognized. None: not known."""
    if settings.pod_interface:
        return _PodMatch("iifname", *2 * (f'"{settings.pod_interface}"',))
    cidrs = of_family(settings.cluster_cidrs, family)
    if not cidrs:
        return None
    return _PodMatch(f"{family_keyword(family)} saddr", _set(cidrs), _set(settings.internal_cidrs(family)))


class _Kind(NamedTuple):
    """Properties of a Frontend that decide how a rule chooses a backend, beside the number of backends."""

    family: Family
    is_node_port: bool
    affinity_seconds: int | None


@lru_cache(maxsize=4096)
def _dispatch(
    kind: _Kind,
    backends: int,
    cluster_backends: int | None,
    when_empty: Verdict,
    source_nat: SourceNat,
    source_ranges: tuple[str, ...] | None,
    pods: _PodMatch | None,
    mark: int,
) -> Dispatch:
    """Return a chain that checks the client's address, masquerades, and chooses a backend."""
    family, ip = kind.family, family_keyword(kind.family)
    choose = _choose if kind.affinity_seconds is None else _choose_with_affinity
    dispatch = _reject(family) if when_empty is Verdict.REJECT else Dispatch("drop")
    if backends:
        dispatch = _go_to(_masquerade(choose(kind, backends, is_cluster=False), source_nat, pods, mark))
    if cluster_backends is not None:
        from_pods = from_node = _reject(family)
        if cluster_backends:
            chain = choose(kind, cluster_backends, is_cluster=True)
            from_pods, from_node = _go_to(chain), _go_to(_masquerade(chain, SourceNat.ALWAYS, None, mark))
        rules = [f"fib saddr type local {from_node.verdict}", dispatch.verdict]
        if pods is not None:
            rules.insert(0, f"{pods.field} {pods.node} {from_pods.verdict}")
        name = "-or-".join(rule.split()[-1] for rule in (dispatch.verdict, from_pods.verdict))
        targets = dict.fromkeys((*dispatch.targets, *from_pods.targets, *from_node.targets))
        dispatch = _go_to(Chain(family, f"split-{name}", tuple(rules), targets=tuple(targets)))
    if source_ranges is not None:
        if not source_ranges:
            return Dispatch("drop")
        rules = [f"{ip} saddr != {_set(source_ranges)} drop", dispatch.verdict]
        name = f"from-{_digest(*source_ranges)}-{dispatch.verdict.split()[-1]}"
        dispatch = _go_to(Chain(family, name, tuple(rules), targets=dispatch.targets))
    return dispatch


@lru_cache(maxsize=4096)
def _choose(kind: _Kind, count: int, *, is_cluster: bool) -> Chain:
    """Return the chain that chooses one of `count` backends at random.

    The number of the backend is in the packet's priority until it is looked up. Forwarding resets the priority.

    The chain for a few backends tries one of `FEW` numbers, then one of fewer, and so on. A rule whose number no
    backend has ends without effect. All backends have the same chance in each rule, and the rule for as many as there
    are always finds one. Node ports are rarer, so each of their chains is for one number of backends.
    """
    what, counts = f"one-of-{count}", [count]
    if count <= FEW and not kind.is_node_port:
        what, counts = f"one-of-{FEW}-or-fewer", list(range(FEW, 0, -1))
    translate = _dnat(_destination(kind))
    rules = (f"meta priority set {_random(most, is_cluster=is_cluster)} {translate}" for most in counts)
    return Chain(kind.family, _name(kind, what, is_cluster), tuple(rules))


def _choose_with_affinity(kind: _Kind, count: int, *, is_cluster: bool) -> Chain:
    """Return the chain that chooses the backend that a client had before, or else one of `count` backends at random.

    Two fields of the packet hold what the rules find: the destination becomes the Service port's name, which all its
    addresses share, and the priority the backend's number. Translation overwrites the one, forwarding the other.
    """
    seconds, client = kind.affinity_seconds, _client(kind.family)
    original = _destination(kind, "ct original ")
    record = f"update @{CLIENTS} {{ {client} timeout {seconds}s : meta priority }}"
    mark = f"meta priority set meta priority or {CLUSTER_BACKEND:#x} " if is_cluster else ""
    translate = f"{mark}{_dnat(original)}"
    recall = Chain(
        kind.family,
        _name(kind, "recall", is_cluster),
        (
            # Ends at the first map that has nothing: an unknown client, or one whose backend is gone.
            f"meta priority set {client} map @{CLIENTS} {record} {translate}",
            # An update alone would keep the old backend.
            f"delete @{CLIENTS} {{ {client} : meta priority }}",
        ),
    )
    remember = Chain(
        kind.family,
        _name(kind, "remember", is_cluster),
        (record, translate, "drop"),  # two rules, so that a client is served also when the map is full
    )
    return Chain(
        kind.family,
        _name(kind, f"one-of-{count}", is_cluster),
        (
            f"{family_keyword(kind.family)} daddr set {_destination(kind)} map @affinity-names",
            f"jump {recall.name}",
            f"meta priority set {_random(count, is_cluster=is_cluster)}",
            f"meta priority set {original} . meta priority map @affinity-choices",
            f"goto {remember.name}",
        ),
        targets=(recall, remember),
    )


CLUSTER_BACKEND = 0x10  # bit of a backend's number in affinity: it is one of `cluster_backends`


def _name(kind: _Kind, what: str, is_cluster: bool) -> str:
    """Return a name such as one-of-3, one-of-3-nodeport, one-of-3-cluster-10800s."""
    timeout = f"{kind.affinity_seconds}s" if kind.affinity_seconds is not None else ""
    return "-".join(filter(None, (what, "cluster" * is_cluster, "nodeport" * kind.is_node_port, timeout)))


def _destination(kind: _Kind, original: str = "") -> str:
    """Return the packet fields of a Frontend's key. `original`: "ct original " where the destination is overwritten."""
    address = f"{original}{family_keyword(kind.family)} daddr"
    return f"{_any_local(kind.family) if kind.is_node_port else address} . meta l4proto . th dport"


def _any_local(family: Family) -> str:
    """Return an expression for ANY_LOCAL, as a part of a key. nft takes no constant there."""
    return f"{family_keyword(family)} daddr and {ANY_LOCAL[family]}"


def _dnat(destination: str) -> str:
    return f"dnat to {destination} . meta priority map @endpoints"


def _random(count: int, *, is_cluster: bool) -> str:
    return f"numgen random mod {count} offset {backend_number(0, is_cluster=is_cluster)}"


def _masquerade(chain: Chain, source_nat: SourceNat, pods: _PodMatch | None, mark: int) -> Chain:
    """Return a chain that also marks for masquerading, where `source_nat` asks for it."""
    set_mark = f"meta mark set meta mark or {mark:#x}"
    first, *rest = chain.rules
    if source_nat is SourceNat.ALWAYS:
        return chain._replace(name=f"{chain.name}-masquerade", rules=(f"{set_mark} {first}", *rest))
    if source_nat is SourceNat.OUTSIDE and pods is not None:
        rule = f"{pods.field} != {pods.cluster} {set_mark}"
        return chain._replace(name=f"{chain.name}-outside", rules=(rule, first, *rest))
    return chain


def _set(elements: Sequence[str]) -> str:
    return "{ " + ", ".join(elements) + " }"


def _digest(*texts: str) -> str:
    return hashlib.sha256(",".join(texts).encode()).hexdigest()[:12]
