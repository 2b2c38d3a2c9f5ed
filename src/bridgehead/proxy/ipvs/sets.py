"""The IP sets by which the rules classify packets. Pure: no I/O, no clock, no randomness.

The sets and their contents are kube-proxy's (kubernetes/pkg/proxy/ipvs, v1.32 and later), except those with names that
begin with KUBE-IPVS-, of which kube-proxy only has KUBE-IPVS-IPS.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.network.ipset import SetType
from bridgehead.proxy.address_texts import Family

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
MASQUERADED: Final = "KUBE-IPVS-MASQUERADE"  # cluster IPs whose clients are all masqueraded
DROPPED: Final = "KUBE-IPVS-DROP"  # policy Local without a backend on this node, but with one elsewhere
CLUSTER_CLIENTS: Final = "KUBE-IPVS-INSIDE"  # with a virtual server of its own for clients in the cluster

TRIAL: Final = "KUBE-IPVS-PROBE"  # of the probe, to ask the kernel for a type
INTERIM: Final = "KUBE-IPVS-INTERIM"  # has the elements of a set whose limit changes

PROTOCOLS: Final = ("tcp", "udp", "sctp")

_KINDS: Final = {
    LOOP_BACK: "hash:ip,port,ip",
    SOURCE_IP: "hash:ip,port,ip",
    SOURCE_CIDR: "hash:ip,port,net",
    BOUND: "hash:ip",
    HEALTH_CHECK: "bitmap:port",
    **dict.fromkeys(
        (CLUSTER_IP, EXTERNAL_IP, EXTERNAL_IP_LOCAL, LOAD_BALANCER, LOAD_BALANCER_LOCAL, GUARDED,
         MASQUERADED, DROPPED, CLUSTER_CLIENTS), "hash:ip,port",
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
    """Return the name of a set in a family. No name may have more than 31 characters."""
    return name if family == 4 else name.replace("KUBE-", "KUBE-6-", 1)[:31]


def is_of(name: str, family: Family) -> bool:
    """Return whether a set of that name belongs to a family."""
    return name.startswith("KUBE-6-") == (family == 6)


def node_ports(protocol: str, *, local: bool) -> str:
    """Return the set of a protocol's node ports; `local`: of those with externalTrafficPolicy Local."""
    suffix = "SCTP-HASH" if protocol == "sctp" else protocol.upper()
    return f"KUBE-NODE-PORT-{'LOCAL-' if local else ''}{suffix}"


def wanted(family: Family) -> dict[str, SetType]:
    """Return the sets of a family."""
    return {in_family(name, family): SetType(kind, _family_of(kind, family), name == CLUSTER_CLIENTS)
            for name, kind in _KINDS.items()}  # fmt: skip


def all_names() -> Iterator[str]:
    """Yield the names of this mode's sets, and of those of older kube-proxies."""
    for family in (4, 6):
        for name in (*_KINDS, *_FORMER, TRIAL, INTERIM):
            yield in_family(name, family)


def _family_of(kind: str, family: Family) -> Family:
    """Return the family that the kernel reports for a type: 4 for bitmaps of ports, which have none."""
    return 4 if kind == "bitmap:port" else family
