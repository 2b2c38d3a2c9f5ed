"""Tables of nf_tables that send packets of unknown TCP connections to all other nodes, one of which knows them.

Routers that spread connections over nodes (BGP) spread them otherwise when their next hops change: packets of a
connection arrive at a node whose connection tracking does not know it, and nobody knows where it was. In nft's syntax,
for IPv4:

    table ip bridgehead-search-PORT {                  # flags owner; PORT is that of its netlink socket
        set announced { type ipv4_addr; }              # addresses that nodes announce together
        set moved { type ipv4_addr; }                  # those whose connections may have moved a short while ago
        set sources { type ipv4_addr; size 65536; flags dynamic,timeout; timeout 10s; }
        chain prerouting { type filter hook prerouting priority mangle;
            UNKNOWN ip ttl >= 240 ip daddr @announced drop       # NEW and INVALID of unknown_connections.py
            UNKNOWN ip daddr @moved update @sources { ip saddr limit rate over 5000/second burst 5000 packets } drop
            UNKNOWN ip daddr @moved limit rate 20000/second burst 20000 packets
                ip ttl set 255 dup to 10.0.0.202 dup to 10.0.0.203 drop
            UNKNOWN ip daddr @moved drop
        }
    }

A node that knows the connection goes on with it and answers the client itself. The others drop their copies by the
first rule: a reset would end the connection. Copies are not copied again. The kernel decrements their TTL, and computes
their checksums anew.

The limits bound what a flood of packets without a connection makes the nodes send each other. TCP takes a packet that
is dropped for congestion; a reset would end its connection. The kernel removes the tables when the process ends
(Linux 5.12). Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from .closable import Closable
from .netlink_socket import NetlinkSocket, Request
from .nft_requests import (
    add_base_chain,
    add_rule,
    add_set,
    add_table,
    constant,
    delete_rules,
    duplicate,
    is_in,
    limit,
    put_into,
    verdict,
)
from .uapi.netfilter import NF_DROP, NF_INET_PRE_ROUTING
from .uapi.netfilter_ipv4 import NF_IP_PRI_MANGLE
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import NFT_DYNSET_OP_UPDATE
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES
from .unknown_connections import (
    INVALID,
    IPV4,
    IPV6,
    NEW,
    Address,
    Family,
    destination,
    element_changes,
    is_copy,
    mark_copy,
    source,
)

_TABLES: Final = "bridgehead-search"
_ANNOUNCED: Final = "announced"
_MOVED: Final = "moved"
_SOURCES: Final = "sources"
_CHAIN: Final = "prerouting"
# Packets per second for which a node searches, of one client and of all. The kernel joins packets of fast uploads.
_CLIENT_RATE: Final = 5_000
_RATE: Final = 20_000
_MOST_SOURCES: Final = 1 << 16  # beyond that, only the limit for all counts
_SOURCE_SECONDS: Final = 10  # without a packet


class SearchTables(Closable):
    """The tables, which the constructor makes in the current network namespace. Methods raise OSError."""

    def __init__(self) -> None:
        self._sets: dict[str, dict[Address, bytes]] = {_ANNOUNCED: {}, _MOVED: {}}
        self._nodes: frozenset[Address] = frozenset()
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        self._name = f"{_TABLES}-{self._netlink.port}"
        try:
            requests = [request for family in (IPV4, IPV6) for request in _table(family, self._name)]
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, requests)
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        """Remove the tables."""
        self._netlink.close()

    def update(self, announced: Collection[Address], moved: Collection[Address], nodes: Collection[Address]) -> None:
        """Set the announced addresses, those of them whose connections may have moved, and the other nodes' addresses.

        After an error, only `close` may be called.
        """
        sets = {_ANNOUNCED: dict.fromkeys(announced, b""), _MOVED: dict.fromkeys(moved, b"")}
        wanted = frozenset(nodes)
        requests: list[Request] = []
        if wanted != self._nodes:  # first, so that one transaction replaces the rules
            requests += [request for family in (IPV4, IPV6) for request in _rules(family, self._name, wanted)]
        for name, addresses in sets.items():
            requests += element_changes(self._name, name, self._sets[name], addresses)
        self._netlink.transact_in_parts(NFNL_SUBSYS_NFTABLES, requests)
        self._sets, self._nodes = sets, wanted


def _table(family: Family, table: str) -> Iterator[Request]:
    number, kind, size = family.number, family.kind, family.size
    yield add_table(number, table, is_owned=True)
    for identity, name in enumerate((_ANNOUNCED, _MOVED), 1):
        yield add_set(number, table, name, kind, size, identity=identity)
    yield add_set(number, table, _SOURCES, kind, size, identity=3, seconds=_SOURCE_SECONDS, most=_MOST_SOURCES)
    yield add_base_chain(number, table, _CHAIN, NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE)
    yield from _rules(family, table, frozenset())


def _rules(family: Family, table: str, nodes: frozenset[Address]) -> Iterator[Request]:
    """Yield the requests that replace the rules."""
    yield delete_rules(family.number, table, _CHAIN)
    drop = verdict(NF_DROP)
    ends = [is_copy(family) + destination(family) + is_in(_ANNOUNCED) + drop]
    copies = [constant(node.packed) + duplicate() for node in sorted(nodes, key=str) if len(node.packed) == family.size]
    if copies:
        is_moved = destination(family) + is_in(_MOVED)
        floods = source(family) + put_into(_SOURCES, NFT_DYNSET_OP_UPDATE, limit(_CLIENT_RATE, is_over=True))
        ends.append(is_moved + floods + drop)
        ends.append(is_moved + limit(_RATE) + mark_copy(family) + b"".join(copies) + drop)
        ends.append(is_moved + drop)
    for end in ends:
        for unknown in (NEW, INVALID):
            yield add_rule(family.number, table, _CHAIN, unknown + end)
