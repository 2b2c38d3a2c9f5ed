"""The few iptables rules of the ipvs mode, which match IP sets and never change with a Service.

Pure: no I/O, no clock, no randomness. Rules are written as iptables-save prints them, without `-A CHAIN`. Chains have
kube-proxy's names. Some of them are also those of the iptables mode: they belong to the mode that wrote last, and the
other one keeps them when it is removed (`is_ours`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from bridgehead.proxy.address_texts import Family, of_family
from bridgehead.proxy.iptables.chains import (
    CANARY,
    Chain,
    Jump,
    Rules,
    from_outside,
    internal_sources,
    reject,
)
from bridgehead.proxy.iptables.transaction import EMPTY, Tables, Transaction
from bridgehead.proxy.mode import Settings

from . import sets

# A mark that chooses a virtual server. Bits 14 and 15 are Kubernetes' own: masquerade, and (formerly) drop.
MARK_MASK: Final = 0x3FFF

_is_only_ours = {
    "nat": re.compile("KUBE-(?:NODE-PORT|LOAD-BALANCER|FIRE-WALL)").fullmatch,
    "filter": re.compile("KUBE-(?:NODE-PORT|IPVS-FILTER|IPVS-OUT-FILTER|SOURCE-RANGES-FIREWALL)").fullmatch,
    "mangle": re.compile("KUBE-(?:IPVS|PROXY-FIREWALL|SOURCE-RANGES-FIREWALL)").fullmatch,
}
_is_shared = {
    "nat": re.compile("KUBE-(?:SERVICES|POSTROUTING|MARK-MASQ|PROXY-CANARY)").fullmatch,
    "filter": re.compile("KUBE-(?:FORWARD|PROXY-FIREWALL|PROXY-CANARY)").fullmatch,
    "mangle": re.compile("(?!)").fullmatch,
}


def is_ours(table: str, chain: str, tables: Tables) -> bool:
    """Return whether this mode may change and remove a chain of the tables that were read."""
    return _is_only_ours[table](chain) is not None or (
        _is_shared[table](chain) is not None and not is_of_iptables(tables)
    )


def is_named_ours(table: str, chain: str) -> bool:
    """Return whether a chain has a name that only this mode or the iptables mode gives."""
    return _is_only_ours[table](chain) is not None or _is_shared[table](chain) is not None


def is_of_iptables(tables: Tables) -> bool:
    """Return whether the tables that were read have rules of the iptables mode, ours or kube-proxy's."""
    return "KUBE-NODEPORTS" in tables.get("nat", EMPTY).chains


def jumps() -> Iterator[Jump]:
    """Yield the rules of built-in chains in the order in which they are inserted, each at the head of its chain."""

    def jump(table: str, chain: str, target: str, comment: str) -> Jump:
        return Jump(table, chain, f'-m comment --comment "{comment}" -j {target}')

    for table, chain in (("mangle", "OUTPUT"), ("mangle", "PREROUTING")):
        yield jump(table, chain, "KUBE-IPVS", "kubernetes service portals")
    yield jump("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules")
    yield jump("filter", "INPUT", "KUBE-NODE-PORT", "kubernetes health check rules")
    yield jump("filter", "INPUT", "KUBE-IPVS-FILTER", "kubernetes ipvs access filter")
    yield jump("filter", "OUTPUT", "KUBE-IPVS-OUT-FILTER", "kubernetes ipvs access filter")
    for chain in ("OUTPUT", "PREROUTING"):
        yield jump("nat", chain, "KUBE-SERVICES", "kubernetes service portals")
    yield jump("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules")


def chains(family: Family, settings: Settings) -> dict[Chain, Rules]:
    """Return every chain of the family's tables, with its rules."""
    return {**_mangle(family, settings), **_filter(family, settings), **_nat(family, settings)}


def _mangle(family: Family, settings: Settings) -> dict[Chain, Rules]:
    """Set the marks of virtual servers for clients in the cluster; drop packets that may not reach a virtual server.

    IPVS takes a packet in LOCAL_OUT before the filter table could drop it.
    """
    set_mark = f"-j SET --map-set {sets.in_family(sets.CLUSTER_CLIENTS, family)} dst,dst --map-mark"
    new = "-m conntrack --ctstate NEW "
    return {
        Chain("mangle", "KUBE-IPVS"): (
            *(f"{source} {set_mark}" for source in internal_sources(family, settings)),
            f"-m addrtype --src-type LOCAL {set_mark}",
            f"{new}{_match(sets.DROPPED, family, comment='no local endpoints')} "
            f"-m mark --mark 0x0/{MARK_MASK:#x} -j DROP",
            f"{new}-j KUBE-PROXY-FIREWALL",
        ),
        Chain("mangle", "KUBE-PROXY-FIREWALL"): (
            f"{_match(sets.GUARDED, family, comment=_ABOUT[sets.GUARDED])} -j KUBE-SOURCE-RANGES-FIREWALL",
        ),
        Chain("mangle", "KUBE-SOURCE-RANGES-FIREWALL"): (
            *(
                f"{_match(name, family, 'dst,dst,src', comment=_ABOUT[name])} -j RETURN"
                for name in (sets.SOURCE_CIDR, sets.SOURCE_IP)
            ),
            "-j DROP",
        ),
    }


def _filter(family: Family, settings: Settings) -> dict[Chain, Rules]:
    """Reject packets to a Service's address that are not for one of its ports: the node has the address, too."""
    bound = f"-m conntrack --ctstate NEW {_match(sets.BOUND, family, 'dst')}"
    refuse = (f"-p tcp {bound} -j {reject('tcp', family)}", f"{bound} -j {reject('', family)}")
    # Cluster IPs in use are addresses of the node: a packet that is forwarded or sent to the range is for no Service.
    lost = tuple(
        f'-d {cidr} -m comment --comment "cluster IPs that no Service has" -m conntrack --ctstate NEW -j DROP'
        for cidr in of_family(settings.service_cidrs, family)
    )
    mark = f"{settings.masquerade_mark:#x}/{settings.masquerade_mark:#x}"
    return {
        Chain("filter", "KUBE-FORWARD"): (
            *lost,
            f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark} -j ACCEPT',
            '-m comment --comment "kubernetes forwarding conntrack rule" '
            "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        ),
        # Health checks of load balancers are let in before others' rules.
        Chain("filter", "KUBE-NODE-PORT"): (
            f"{_match(sets.HEALTH_CHECK, family, 'dst', comment=_ABOUT[sets.HEALTH_CHECK])} -j ACCEPT",
        ),
        Chain("filter", "KUBE-IPVS-FILTER"): (
            *(f"{_match(name, family)} -j RETURN" for name in _ANSWERED),
            *refuse,
        ),
        Chain("filter", "KUBE-IPVS-OUT-FILTER"): (*refuse, *lost),
    }


def _nat(family: Family, settings: Settings) -> dict[Chain, Rules]:
    """Choose the packets that are masqueraded, and keep others' rules from translating those of virtual servers."""
    mark = f"{settings.masquerade_mark:#x}/{settings.masquerade_mark:#x}"
    from_here = "-m addrtype --src-type LOCAL"
    to_masquerade = "-j KUBE-MARK-MASQ"
    masquerade = '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully'
    return {
        **{Chain(table, CANARY): () for table in ("filter", "nat")},  # of the probe
        Chain("nat", "KUBE-SERVICES"): (
            f"-s {'::1/128' if family == 6 else '127.0.0.0/8'} -j RETURN",
            f"{_about(sets.LOAD_BALANCER, family)} -j KUBE-LOAD-BALANCER",
            f"{_outside(family, settings, _about(sets.CLUSTER_IP, family))} {to_masquerade}",
            f"{_about(sets.MASQUERADED, family)} {to_masquerade}",
            f"{_about(sets.EXTERNAL_IP, family)} {to_masquerade}",
            f"{_about(sets.EXTERNAL_IP_LOCAL, family)} {from_here} {to_masquerade}",
            "-m addrtype --dst-type LOCAL -j KUBE-NODE-PORT",
            *(f"{_match(name, family)} -j ACCEPT" for name in _ANSWERED),
        ),
        Chain("nat", "KUBE-LOAD-BALANCER"): (
            f"{_about(sets.LOAD_BALANCER_LOCAL, family)} {from_here} {to_masquerade}",
            f"{_about(sets.LOAD_BALANCER_LOCAL, family)} -j RETURN",
            to_masquerade,
        ),
        Chain("nat", "KUBE-NODE-PORT"): (*_node_ports(family, f"{from_here} {to_masquerade}", to_masquerade),),
        # IPVS compares the whole mark, so a packet with the mark of a virtual server gets a connection mark instead.
        Chain("nat", "KUBE-MARK-MASQ"): (
            f"-m mark ! --mark 0x0/{MARK_MASK:#x} -j CONNMARK --set-xmark {mark}",
            f"-m mark --mark 0x0/{MARK_MASK:#x} -j MARK --set-xmark {mark}",
        ),
        Chain("nat", "KUBE-POSTROUTING"): (
            f"{_match(sets.LOOP_BACK, family, 'dst,dst,src', comment=_ABOUT[sets.LOOP_BACK])} -j MASQUERADE",
            f"-m connmark --mark {mark} {masquerade}",
            f"-m mark ! --mark {mark} -j RETURN",
            # Clears the mark, for packets that traverse the chain again.
            f"-j MARK --set-xmark {settings.masquerade_mark:#x}/0x0",
            masquerade,
        ),
    }  # fmt: skip


def _node_ports(family: Family, from_here: str, to_masquerade: str) -> Iterator[str]:
    for protocol, match in (("tcp", "dst"), ("udp", "dst"), ("sctp", "dst,dst")):
        for local, purpose, end in (
            (True, "with externalTrafficPolicy=local", from_here),
            (True, "with externalTrafficPolicy=local", "-j RETURN"),
            (False, "for masquerade purpose", to_masquerade),
        ):
            comment = f"Kubernetes nodeport {protocol.upper()} port {purpose}"
            name = sets.node_ports(protocol, local=local)
            yield f"-p {protocol} {_match(name, family, match, comment=comment)} {end}"


_ANSWERED: Final = (sets.LOAD_BALANCER, sets.CLUSTER_IP, sets.EXTERNAL_IP, sets.EXTERNAL_IP_LOCAL)
_ABOUT: Final = {
    sets.CLUSTER_IP: "Kubernetes service cluster ip + port for masquerade purpose",
    sets.EXTERNAL_IP: "Kubernetes service external ip + port for masquerade and filter purpose",
    sets.EXTERNAL_IP_LOCAL: "Kubernetes service external ip + port with externalTrafficPolicy=local",
    sets.LOAD_BALANCER: "Kubernetes service lb portal",
    sets.LOAD_BALANCER_LOCAL: "Kubernetes service load balancer ip + port with externalTrafficPolicy=local",
    sets.GUARDED: "Kubernetes service load balancer ip + port for load balancer with sourceRange",
    sets.SOURCE_CIDR: "Kubernetes service load balancer ip + port + source cidr for packet filter purpose",
    sets.SOURCE_IP: "Kubernetes service load balancer ip + port + source IP for packet filter purpose",
    sets.LOOP_BACK: "Kubernetes endpoints dst ip:port, source ip for solving hairpin purpose",
    sets.HEALTH_CHECK: "Kubernetes health check node port",
    sets.MASQUERADED: "Kubernetes service cluster ip + port, masqueraded for everybody",
}


def _match(name: str, family: Family, directions: str = "dst,dst", *, comment: str = "") -> str:
    commented = f'-m comment --comment "{comment}" ' if comment else ""
    return f"{commented}-m set --match-set {sets.in_family(name, family)} {directions}"


def _about(name: str, family: Family) -> str:
    return _match(name, family, comment=_ABOUT[name])


def _outside(family: Family, settings: Settings, match: str) -> str:
    """Match clients outside the cluster, and the node, which uses a Service's address as its source."""
    found = from_outside(family, settings)
    if found is None:
        return f"{match} -m addrtype --src-type LOCAL"
    return f"{found.source}{found.interface}{match}{found.ranges}"


def compare(
    family: Family, settings: Settings, tables: Tables, transaction: Transaction, *, compares_text: bool
) -> None:
    """Add to the transaction what repairs the family's tables. `compares_text`: see `Transaction.write`."""
    wanted = chains(family, settings)
    transaction.write(family, tables, wanted, jumps(), compares_text=compares_text)
    transaction.remove(family, tables, lambda table, name: is_ours(table, name, tables), keep=wanted)


def remove(family: Family, tables: Tables, transaction: Transaction) -> None:
    """Add to the transaction the removal of everything of this mode from the family's tables."""
    transaction.remove(family, tables, lambda table, name: is_ours(table, name, tables))
