"""The IP sets: what the rules ask about a packet, whatever there is in the cluster. Pure.

The names, and what is in them, are kube-proxy's (kubernetes/pkg/proxy/ipvs, v1.32 and later) but for those that begin
with KUBE-IPVS-, of which it only has KUBE-IPVS-IPS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.network.ipset import SetType
from bridgehead.proxy.addresses import Family

CLUSTER_IP: Final = "KUBE-CLUSTER-IP"
EXTERNAL_IP: Final = "KUBE-EXTERNAL-IP"
EXTERNAL_IP_LOCAL: Final = "KUBE-EXTERNAL-IP-LOCAL"
LOAD_BALANCER: Final = "KUBE-LOAD-BALANCER"
LOAD_BALANCER_LOCAL: Final = "KUBE-LOAD-BALANCER-LOCAL"
GUARDED: Final = "KUBE-LOAD-BALANCER-FW"
SOURCE_CIDR: Final = "KUBE-LOAD-BALANCER-SOURCE-CIDR"
SOURCE_IP: Final = "KUBE-LOAD-BALANCER-SOURCE-IP"
LOOP_BACK: Final = "KUBE-LOOP-BACK"
BOUND: Final = "KUBE-IPVS-IPS"
HEALTH_CHECK: Final = "KUBE-HEALTH-CHECK-NODE-PORT"
# The following are not kube-proxy's.
MASQUERADED: Final = "KUBE-IPVS-MASQUERADE"  # cluster IPs that nobody may reach under his own address
DROPPED: Final = "KUBE-IPVS-DROP"  # what has no backend here, but elsewhere
INSIDE: Final = "KUBE-IPVS-INSIDE"  # what has a virtual server of its own for who is in the cluster

PROTOCOLS: Final = ("tcp", "udp", "sctp")

_KINDS: Final = {
    LOOP_BACK: "hash:ip,port,ip",
    SOURCE_IP: "hash:ip,port,ip",
    SOURCE_CIDR: "hash:ip,port,net",
    BOUND: "hash:ip",
    HEALTH_CHECK: "bitmap:port",
    **dict.fromkeys(
        (CLUSTER_IP, EXTERNAL_IP, EXTERNAL_IP_LOCAL, LOAD_BALANCER, LOAD_BALANCER_LOCAL, GUARDED,
         MASQUERADED, DROPPED, INSIDE), "hash:ip,port",
    ),
    **dict.fromkeys(
        (f"KUBE-NODE-PORT-{local}{protocol}" for local in ("", "LOCAL-") for protocol in ("TCP", "UDP")), "bitmap:port",
    ),
    **dict.fromkeys((f"KUBE-NODE-PORT-{local}SCTP-HASH" for local in ("", "LOCAL-")), "hash:ip,port"),
}  # fmt: skip
# Made by kube-proxy, or by older versions of it.
_FORMER: Final = (
    "KUBE-LOAD-BALANCER-MASQ",
    "KUBE-NODE-PORT-SCTP",
    "KUBE-NODE-PORT-LOCAL-SCTP",
)


def in_family(name: str, family: Family) -> str:
    """The name of a set in a family. No name may have more than 31 characters."""
    return name if family == 4 else name.replace("KUBE-", "KUBE-6-", 1)[:31]


def node_ports(protocol: str, *, local: bool) -> str:
    """The set of the node ports of a protocol; `local`: of those with externalTrafficPolicy Local."""
    word = "SCTP-HASH" if protocol == "sctp" else protocol.upper()
    return f"KUBE-NODE-PORT-{'LOCAL-' if local else ''}{word}"


def wanted(family: Family) -> dict[str, SetType]:
    """The sets that are to be there for a family."""
    return {in_family(name, family): SetType(kind, _family_of(kind, family), name == INSIDE)
            for name, kind in _KINDS.items()}  # fmt: skip


def all_names() -> Iterator[str]:
    """Every name of a set that is this mode's, or was kube-proxy's."""
    for family in (4, 6):
        for name in (*_KINDS, *_FORMER):
            yield in_family(name, family)


def _family_of(kind: str, family: Family) -> Family:
    """A bitmap of ports has no family, and the kernel tells 4."""
    return 4 if kind == "bitmap:port" else family
