"""Names of chains, the chains that every node has, and the rules that jump to them. README.md shows the result.

Pure: no I/O, no clock, no randomness.

Rules are written as iptables-save prints them, without `-A CHAIN`, so that they can be compared with its output. The
names, comments and order are kube-proxy's (kubernetes/pkg/proxy/iptables, v1.32 and later): operators and other
programs know them.
"""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bridgehead.proxy.address_texts import Family, of_family
from bridgehead.proxy.mode import Settings

TABLES = ("mangle", "filter", "nat")  # the order in which they are sent: kube-proxy's
CANARY = "KUBE-PROXY-CANARY"

Rules = tuple[str, ...]


class Chain(NamedTuple):
    """The table and the name of a chain."""

    table: str
    name: str


SERVICES = Chain("nat", "KUBE-SERVICES")
NODE_PORTS = Chain("nat", "KUBE-NODEPORTS")
FILTER_SERVICES = Chain("filter", "KUBE-SERVICES")
EXTERNAL_SERVICES = Chain("filter", "KUBE-EXTERNAL-SERVICES")
PROXY_FIREWALL = Chain("filter", "KUBE-PROXY-FIREWALL")
FILTER_NODE_PORTS = Chain("filter", "KUBE-NODEPORTS")
CLUSTER_IPS = Chain("filter", "KUBE-CLUSTER-IPS")  # kube-proxy has neither this chain nor the next
REJECT = Chain("filter", "KUBE-REFUSE")
FIREWALL = Chain("filter", "KUBE-FIREWALL")

# Chains in which every Service has lines.
SHARED = (FILTER_SERVICES, EXTERNAL_SERVICES, PROXY_FIREWALL, FILTER_NODE_PORTS, SERVICES, NODE_PORTS)

# Chains of the iptables and the ipvs mode. They belong to the mode that wrote them last; removing the other mode
# leaves them.
SHARED_WITH_IPVS = frozenset(
    (
        *(Chain("nat", name) for name in ("KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", CANARY)),
        *(Chain("filter", name) for name in ("KUBE-FORWARD", CANARY)),
    )
)

_is_our_name = {
    "nat": re.compile(
        r"KUBE-(?:(?:SVC|SVL|EXT|FW|SEP|XLB)-[A-Z2-7]{16}|SERVICES|NODEPORTS|MARK-MASQ|POSTROUTING|PROXY-CANARY)"
    ).fullmatch,
    "filter": re.compile(
        r"KUBE-(?:SERVICES|EXTERNAL-SERVICES|NODEPORTS|FORWARD|FIREWALL|PROXY-FIREWALL|CLUSTER-IPS|REFUSE|PROXY-CANARY)"
    ).fullmatch,
    "mangle": re.compile(CANARY).fullmatch,
}


# The rule of KUBE-FIREWALL that the kubelet and kube-proxy write. IPv6 routes nothing from outside to ::1.
LOOPBACK_GUARD: Rules = (
    '! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" '
    "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP",
)
KUBELETS = frozenset(("KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"))  # chains in table mangle on a node with a kubelet


class Jump(NamedTuple):
    """A rule in a built-in chain that jumps to one of ours."""

    table: str
    chain: str
    rule: str

    @property
    def target(self) -> str:
        return target_of(self.rule)


def target_of(rule: str) -> str:
    """Return the target of a rule that ends with it, as all rules do that jump to a chain."""
    return rule.rpartition("-j ")[2]


def is_ours(table: str, chain: str) -> bool:
    """Return whether a chain of that name belongs to this proxy (or to kube-proxy), to change and to delete."""
    return _is_our_name[table](chain) is not None


def hash_of(text: str) -> str:
    """Return the sixteen characters at the end of a chain's name."""
    return base64.b32encode(hashlib.sha256(text.encode("utf-8", "replace")).digest())[:16].decode()


@lru_cache(maxsize=1)
def jumps() -> tuple[Jump, ...]:
    """Return the jumps, in the order in which kube-proxy inserts them, each at the head of its chain."""
    new = "-m conntrack --ctstate NEW "
    portals = "kubernetes externally-visible service portals"

    def jump(table: str, chain: str, target: str, comment: str, match: str = "") -> Jump:
        return Jump(table, chain, f'{match}-m comment --comment "{comment}" -j {target}')

    firewall = "kubernetes load balancer firewall"
    return (
        Jump("filter", "INPUT", "-j KUBE-FIREWALL"),
        Jump("filter", "OUTPUT", "-j KUBE-FIREWALL"),
        *(jump("filter", chain, "KUBE-EXTERNAL-SERVICES", portals, new) for chain in ("INPUT", "FORWARD")),
        # kube-proxy does not have this jump. Packets from this node to itself are left to INPUT: a datagram that is
        # rejected on its way out is reported to its sender as EPERM, not as a refused connection.
        jump("filter", "OUTPUT", "KUBE-EXTERNAL-SERVICES", portals, f"! -o lo {new}"),
        jump("filter", "INPUT", "KUBE-NODEPORTS", "kubernetes health check service ports"),
        *(
            jump("filter", chain, "KUBE-SERVICES", "kubernetes service portals", new)
            for chain in ("FORWARD", "OUTPUT")
        ),
        jump("filter", "FORWARD", "KUBE-FORWARD", "kubernetes forwarding rules"),
        *(
            jump("filter", chain, "KUBE-PROXY-FIREWALL", firewall, new)
            for chain in ("INPUT", "OUTPUT", "FORWARD")
        ),
        jump("nat", "OUTPUT", "KUBE-SERVICES", "kubernetes service portals"),
        jump("nat", "PREROUTING", "KUBE-SERVICES", "kubernetes service portals"),
        jump("nat", "POSTROUTING", "KUBE-POSTROUTING", "kubernetes postrouting rules"),
    )  # fmt: skip


def fixed_chains(family: Family, settings: Settings) -> dict[Chain, Rules]:
    """Return the chains that do not depend on any Service."""
    # Connection tracking does not translate packets that it cannot assign to a connection, such as a segment out of
    # the window. The segment's receiver knows no such connection and answers with a reset (RFC 9293 3.10.7: without
    # ACK, since the segment had one), which would end the connection that the segment belongs to. kube-proxy drops all
    # INVALID packets that are forwarded, which breaks one-way routing, and does not drop this node's own resets.
    # decisions/0012.
    invalid = "-m conntrack --ctstate INVALID"
    untranslated = tuple(f"-d {cidr} {invalid} -j DROP" for cidr in of_family(settings.service_cidrs, family))
    stray_reset = f"-p tcp {invalid} -m tcp --tcp-flags RST,ACK RST"
    bit = settings.masquerade_mark
    mark = f"{bit:#x}/{bit:#x}"
    return {
        **{Chain(table, CANARY): () for table in TABLES},
        FIREWALL: (
            *(LOOPBACK_GUARD if family == 4 else ()),
            *untranslated,
            f"{stray_reset} -m addrtype --src-type LOCAL -j DROP",
        ),
        Chain("filter", "KUBE-FORWARD"): (
            *untranslated,
            f"{stray_reset} -j DROP",
            f'-m comment --comment "kubernetes forwarding rules" -m mark --mark {mark} -j ACCEPT',
            '-m comment --comment "kubernetes forwarding conntrack rule" '
            "-m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT",
        ),
        REJECT: (f"-p tcp -j {reject('tcp', family)}", f"-j {reject('', family)}"),
        Chain("nat", "KUBE-MARK-MASQ"): (f"-j MARK --set-xmark {mark}",),
        Chain("nat", "KUBE-POSTROUTING"): (
            f"-m mark ! --mark {mark} -j RETURN",
            f"-j MARK --set-xmark {bit:#x}/0x0",  # clears the mark, in case the packet passes again
            '-m comment --comment "kubernetes service traffic requiring SNAT" -j MASQUERADE --random-fully',
        ),
    }


def trial_rules(family: Family) -> dict[str, Rules]:
    """Return, by table, rules with the matches and targets that every Service needs, to ask the kernel for them."""
    backend = "[2001:db8::1]:80" if family == 6 else "192.0.2.1:80"
    fixed = fixed_chains(family, Settings())
    balanced = "-p tcp -m statistic --mode random --probability 0.5 -m tcp --dport 80"
    return {
        "nat": (
            *fixed[Chain("nat", "KUBE-MARK-MASQ")],
            *fixed[Chain("nat", "KUBE-POSTROUTING")],
            "-m addrtype --dst-type LOCAL -j RETURN",
            f"{balanced} -j DNAT --to-destination {backend}",
        ),
        "filter": (*fixed[FIREWALL], *fixed[Chain("filter", "KUBE-FORWARD")], *fixed[REJECT]),
    }


def closing_rules(chain: Chain, family: Family, settings: Settings) -> Rules:
    """Return the rules of a shared chain after the Services' lines."""
    if chain == FILTER_SERVICES:
        # Packets that table nat has translated are not addressed to the range any more.
        return tuple(
            f'-d {cidr} -m comment --comment "cluster IPs and ports that no Service has" -j {CLUSTER_IPS.name}'
            for cidr in of_family(settings.service_cidrs, family)
        )
    if chain != SERVICES:
        return ()
    last = (
        '-m comment --comment "kubernetes service nodeports; NOTE: this must be the last rule in this chain" '
        f"-m addrtype --dst-type LOCAL -j {NODE_PORTS.name}"
    )
    allows_loopback = settings.localhost_node_ports and family == 4
    everywhere = last if allows_loopback else f"! -d {'::1/128' if family == 6 else '127.0.0.0/8'} {last}"
    if settings.node_port_cidrs is None:
        return (everywhere,)
    networks = [ipaddress.ip_network(cidr) for cidr in of_family(settings.node_port_cidrs, family)]
    return tuple(
        f"-d {network} {last}" if network.prefixlen else everywhere
        for network in networks
        if allows_loopback or not network.is_loopback
    )


def cluster_ip_rules(cluster_ips: Sequence[str]) -> Rules:
    """Return KUBE-CLUSTER-IPS: rejects undefined ports of allocated addresses, and drops the rest of the range."""
    return (*(f"-d {host(ip)} -j {REJECT.name}" for ip in cluster_ips), "-j DROP")


def reject(protocol: str, family: Family) -> str:
    """Return the target that rejects. TCP gets a reset: clients may take an ICMP error for a temporary failure."""
    if protocol == "tcp":
        return "REJECT --reject-with tcp-reset"
    return f"REJECT --reject-with {'icmp6' if family == 6 else 'icmp'}-port-unreachable"


def host(address: str) -> str:
    """Return the range that holds only this address."""
    return f"{address}/128" if ":" in address else f"{address}/32"


def internal_sources(family: Family, settings: Settings) -> tuple[str, ...]:
    """Return matches for packets of the pods that use `cluster_backends`, whatever the external traffic policy."""
    if settings.pod_interface:
        return (f"-i {_interface(settings)}",)
    return tuple(f"-s {cidr}" for cidr in settings.internal_cidrs(family))


class Outside(NamedTuple):
    """A match for packets from outside the cluster, in parts, each for the place where iptables-save prints it."""

    source: str = ""  # before the destination
    interface: str = ""  # after it
    ranges: str = ""  # after the comment


def from_outside(family: Family, settings: Settings) -> Outside | None:
    """Return the match. None: the pods' ranges are unknown, or all addresses are in them."""
    if settings.pod_interface:
        return Outside(interface=f"! -i {_interface(settings)} ")
    networks = [ipaddress.ip_network(cidr) for cidr in of_family(settings.cluster_cidrs, family)]
    if not networks or not all(network.prefixlen for network in networks):
        return None
    first, *others = networks
    # A rule can exclude one source by -s; the iprange match, which can be repeated, excludes the others.
    ranges = "".join(f" -m iprange ! --src-range {one[0]}-{one[-1]}" for one in others)
    return Outside(source=f"! -s {first} ", ranges=ranges)


def _interface(settings: Settings) -> str:
    """Return the interface as iptables writes it."""
    return settings.pod_interface.replace("*", "+")
