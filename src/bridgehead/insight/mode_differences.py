"""Observable differences between two proxy modes, for the Services of a cluster.

Both modes get the same Frontends, so they differ only in what is listed in `_ASPECTS`, and in the settings that the
configuration has for each mode. The READMEs of `proxy` and of its modes have the reasons.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.proxy.address_texts import is_loopback, of_family
from bridgehead.proxy.frontends import Frontend, Publication, SourceNat

from .expectations import Expectations, service_of

NFTABLES, IPTABLES, IPVS, USERSPACE = "nftables", "iptables", "ipvs", "userspace"

_IPVS_TCP_SECONDS, _IPVS_UDP_SECONDS = 900, 300  # the kernel's defaults (net/netfilter/ipvs)


class Aspect(msgspec.Struct, frozen=True, kw_only=True):
    """One difference. `behaviours`: a text for each of the two modes. `services`: `namespace/name`, sorted; () if the
    difference is one of the whole node.
    """

    name: str
    behaviours: tuple[str, str]
    services: tuple[str, ...] = ()


def compare_modes(first: Expectations, second: Expectations, services: Iterable[str] | None = None) -> list[Aspect]:
    """Return the differences between two modes on a node: `expect_node(..., mode=...)` of each.

    `services`: only those, `namespace/name`; None: all, and the differences of the node.
    """
    wanted = set(services) if services is not None else None
    found: list[Aspect] = []
    for aspect in _ASPECTS:
        grouped: dict[tuple[str, tuple[str, str]], set[str]] = {}
        for frontend in first.table:
            name = str(service_of(frontend.owner))
            if wanted is not None and name not in wanted:
                continue
            other = second.table.get(frontend.key) or frontend
            if not (aspect.applies(frontend) or aspect.applies(other)):
                continue
            texts = aspect.describe(frontend, first), aspect.describe(other, second)
            if texts[0] != texts[1]:
                kind = f", {frontend.published_as.value}" if aspect.of_each_address else ""
                grouped.setdefault((f"{aspect.name}{kind}", texts), set()).add(name)
        found += (
            Aspect(name=title, behaviours=texts, services=tuple(sorted(names)))
            for (title, texts), names in grouped.items()
        )
    if wanted is None:
        for name, describe in _OF_NODE:
            behaviours = describe(first), describe(second)
            if behaviours[0] != behaviours[1]:
                found.append(Aspect(name=name, behaviours=behaviours))
    return found


class _Aspect(NamedTuple):
    """`of_each_address`: kinds of addresses of a Service may differ, so the name has the kind."""

    name: str
    applies: Callable[[Frontend], bool]
    describe: Callable[[Frontend, Expectations], str]
    of_each_address: bool = False


def _by_mode(**texts: str) -> Callable[[Frontend, Expectations], str]:
    """Return a description that depends on the mode alone. `others`: the text of modes without one."""
    return lambda _, expected: texts.get(expected.mode, texts.get("others", ""))


# --- When an aspect applies ----------------------------------------------------------------------------------


def _has_backends(frontend: Frontend) -> bool:
    return bool(frontend.backends or frontend.cluster_backends)


def _is_cluster_ip(frontend: Frontend) -> bool:
    return frontend.published_as is Publication.CLUSTER_IP


def _is_external(frontend: Frontend) -> bool:
    is_address = frontend.published_as in (Publication.EXTERNAL_IP, Publication.LOAD_BALANCER)
    return is_address and not is_loopback(frontend.key.address)


def _is_carried(frontend: Frontend, protocol: str) -> bool:
    return frontend.key.protocol == protocol and _has_backends(frontend)


# --- Descriptions --------------------------------------------------------------------------------------------


def _client_address(frontend: Frontend, expected: Expectations) -> str:
    if expected.mode == USERSPACE or frontend.source_nat is SourceNat.ALWAYS:
        return "an address of the node, for every client"
    if frontend.source_nat is SourceNat.OUTSIDE:
        return "the address of the client if that is a pod, else an address of the node"
    return "the address of the client"


def _node_port_addresses(_: Frontend, expected: Expectations) -> str:
    settings = expected.settings
    if settings.node_port_cidrs is None:
        where = "every address of the node but loopback"
    else:
        where = f"addresses of the node in {', '.join(settings.node_port_cidrs)}"
    return f"{where}, and 127.0.0.1" if settings.localhost_node_ports else where


def _choice(frontend: Frontend, expected: Expectations) -> str:
    count = max(len(frontend.backends), len(frontend.cluster_backends or ()))
    match expected.mode:
        case "ipvs" if frontend.affinity_seconds is not None:
            return "by a hash of the client's address if the Service has several addresses, else by the scheduler"
        case "ipvs":
            scheduler = expected.config.ipvs.scheduler
            return "in turn (scheduler rr)" if scheduler == "rr" else f"by the scheduler {scheduler}"
        case "userspace":
            return "in turn, for each address of the Service"
    return f"at random: each of {count} backends has a chance of {1 / count:.0%}" if count else "at random"


def _affinity(frontend: Frontend, expected: Expectations) -> str:
    seconds = frontend.affinity_seconds
    match expected.mode:
        case "nftables":
            return f"{seconds} s after the last new connection, on every address; 524,288 clients are remembered"
        case "iptables":
            return f"{seconds} s after the last new connection, on every address; 100 clients of each backend"
        case "userspace":
            return f"{seconds} s after the last new connection, on every address; 65,536 clients of each Service port"
    return (
        f"{seconds} s after the last connection, on each address by itself; the first choice is by a hash of the "
        "client where the Service has several addresses"
    )


def _ping(frontend: Frontend, expected: Expectations) -> str:
    if expected.mode == IPVS:
        return "the node from which it comes answers: it has the address itself, on kube-ipvs0"
    if expected.mode == IPTABLES and not of_family(expected.settings.service_cidrs, frontend.key.family):
        return "no answer: the packet leaves the node by its default route"
    return "Destination Port Unreachable, from the node from which it comes"


def _undefined_ports(frontend: Frontend, expected: Expectations) -> str:
    if expected.mode == IPTABLES and not of_family(expected.settings.service_cidrs, frontend.key.family):
        return "not rejected: packets leave the node by its default route"
    return "rejected"


def _external_address(_: Frontend, expected: Expectations) -> str:
    if expected.mode != IPVS:
        return "no interface has it; packets are translated where they arrive"
    arp = "" if expected.config.ipvs.strict_arp else ", and every node answers ARP for it (ipvs.strictARP is not set)"
    return f"every node has it, on kube-ipvs0{arp}"


def _idle_tcp(_: Frontend, expected: Expectations) -> str:
    config = expected.config
    match expected.mode:
        case "userspace":
            return "kept while both ends answer keep-alive probes"
        case "ipvs":
            return f"forgotten after {config.ipvs.tcp_timeout or _IPVS_TCP_SECONDS} s (ipvs.tcpTimeout)"
    return f"forgotten after {config.conntrack.tcp_established_timeout} s (conntrack.tcpEstablishedTimeout)"


def _idle_udp(_: Frontend, expected: Expectations) -> str:
    config = expected.config
    match expected.mode:
        case "userspace":
            return f"forgotten after {config.udp_idle_seconds:g} s (udpIdleTimeout); at most 16,384 are kept"
        case "ipvs":
            return f"forgotten after {config.ipvs.udp_timeout or _IPVS_UDP_SECONDS} s (ipvs.udpTimeout)"
    return "forgotten after 30 s without an answer, after 120 s with answers (conntrack.udpTimeout, udpStreamTimeout)"


def _masquerade_all(expected: Expectations) -> str:
    return "all connections to cluster IPs" if expected.config.masquerade_all else "only where it is needed"


def _masquerade_mark(expected: Expectations) -> str:
    return f"{expected.settings.masquerade_mark:#x}"


_ASPECTS: Sequence[_Aspect] = (
    _Aspect(
        "SCTP",
        lambda one: one.key.protocol == "sctp",
        _by_mode(userspace="connections are refused, with an Event", others="served"),
    ),
    _Aspect(
        "ports of 127.0.0.1",
        lambda one: is_loopback(one.key.address),
        _by_mode(ipvs="not served, with an Event", others="served"),
    ),
    _Aspect("client address that pods see", _has_backends, _client_address, of_each_address=True),
    _Aspect(
        "externalTrafficPolicy Local",
        lambda one: one.is_local and one.published_as is not Publication.CLUSTER_IP,
        _by_mode(
            userspace="keeps connections on the node, but pods do not see their clients; an Event says so",
            others="keeps connections on the node, and pods see their clients",
        ),
    ),
    _Aspect("addresses of node ports", lambda one: one.key.is_node_port, _node_port_addresses),
    _Aspect("choice of a backend", lambda one: max(len(one.backends), len(one.cluster_backends or ())) > 1, _choice),
    _Aspect(
        "a backend that does not answer",
        _has_backends,
        _by_mode(
            userspace="another backend is tried after 250 ms; the client does not notice",
            others="the client waits, until readiness takes the backend away",
        ),
    ),
    _Aspect("session affinity", lambda one: one.affinity_seconds is not None and _has_backends(one), _affinity),
    _Aspect(
        "the cluster IP on an interface",
        _is_cluster_ip,
        _by_mode(ipvs="yes: kube-ipvs0 on every node", others="no: it exists in rules only"),
    ),
    _Aspect("ping to the cluster IP", _is_cluster_ip, _ping),
    _Aspect("ports of the cluster IP that no Service has", _is_cluster_ip, _undefined_ports),
    _Aspect("external IP or load-balancer IP on an interface", _is_external, _external_address),
    _Aspect(
        "source ranges of a Service without endpoints",
        lambda one: bool(one.source_ranges) and not one.backends,
        _by_mode(
            iptables="all clients are rejected", others="allowed clients are rejected, and packets of others dropped"
        ),
    ),
    _Aspect(
        "health check port and a firewall on the node",
        lambda one: bool(one.health_check_port),
        _by_mode(
            iptables="accepted before the rules of others",
            ipvs="accepted before the rules of others",
            others="the firewall has to accept it",
        ),
    ),
    _Aspect(
        "forwarded connections where iptables' policy of FORWARD is DROP",
        _has_backends,
        _by_mode(
            iptables="masqueraded connections and replies are accepted",
            ipvs="masqueraded connections and replies are accepted",
            nftables="a rule of the user has to accept them",
            userspace="nothing is forwarded: the proxy connects itself",
        ),
    ),
    _Aspect(
        "idle TCP connections",
        lambda one: _is_carried(one, "tcp"),
        _idle_tcp,
    ),
    _Aspect(
        "idle UDP flows",
        lambda one: _is_carried(one, "udp"),
        _idle_udp,
    ),
    _Aspect(
        "a client port used again for the same pod, directly and through the Service",
        lambda one: _is_carried(one, "tcp"),
        _by_mode(
            ipvs="no answer until IPVS has forgotten the first connection, up to two minutes", others="works at once"
        ),
    ),
    _Aspect(
        "open connections when the proxy restarts",
        _has_backends,
        _by_mode(userspace="they end", others="they go on"),
    ),
    _Aspect(
        "open connections when the mode changes to another one",
        _has_backends,
        _by_mode(ipvs="they end", userspace="they end", others="they go on"),
    ),
)  # fmt: skip

_WHERE: Mapping[str, str] = {
    NFTABLES: "nft list table ip bridgehead",
    IPTABLES: "iptables-save -t nat | grep KUBE-",
    IPVS: "ipvsadm -Ln; ipset list; ip address show kube-ipvs0",
    USERSPACE: "nft list table ip bridgehead-userspace; ss -ltnup",
}

_OF_NODE: Sequence[tuple[str, Callable[[Expectations], str]]] = (
    ("masquerading (masqueradeAll)", _masquerade_all),
    ("mark of masqueraded packets", _masquerade_mark),
    ("where to see the rules", lambda expected: _WHERE.get(expected.mode, "")),
)
