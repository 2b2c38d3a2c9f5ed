"""Tables of nf_tables that send packets of unknown TCP connections to all other nodes, one of which knows them.

Routers that spread connections over nodes (BGP) spread them otherwise when their next hops change: packets of a
connection arrive at a node whose connection tracking does not know it, and nobody knows where it was. In nft's syntax,
for IPv4:

    table ip bridgehead-search {                       # flags owner
        set announced { type ipv4_addr; }              # addresses that nodes announce together
        set moved { type ipv4_addr; }                  # those whose connections may have moved a short while ago
        chain prerouting { type filter hook prerouting priority mangle;
            UNKNOWN ip ttl >= 240 ip daddr @announced drop       # unknown_connections.py
            UNKNOWN ip daddr @moved ip ttl set 255 dup to 10.0.0.202 dup to 10.0.0.203 drop
        }
    }

A node that knows the connection goes on with it and answers the client itself. The others drop their copies by the
first rule: a reset would end the connection. The TTL marks copies, which are not copied again: clients' systems begin
with 64 or 128. The kernel decrements it in copies, and computes their checksums anew. The kernel removes the tables
when the process ends (Linux 5.12). Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from .closable import Closable
from .netlink_socket import NetlinkSocket, Request
from .nft_requests import (
    add_base_chain,
    add_element,
    add_rule,
    add_set,
    add_table,
    compare,
    constant,
    delete_element,
    delete_rules,
    duplicate,
    is_in,
    payload,
    set_payload,
    verdict,
)
from .uapi.netfilter import NF_DROP, NF_INET_PRE_ROUTING
from .uapi.netfilter_ipv4 import NF_IP_PRI_MANGLE
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import NFT_CMP_GTE, NFT_PAYLOAD_NETWORK_HEADER
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES
from .unknown_connections import IPV4, IPV6, UNKNOWN, Family, destination

_Address = IPv4Address | IPv6Address

_TABLE: Final = "bridgehead-search"
_ANNOUNCED: Final = "announced"
_MOVED: Final = "moved"
_CHAIN: Final = "prerouting"
_COPIED: Final = bytes([255])  # TTL of copies before the kernel decrements it
_LEAST_COPIED: Final = bytes([240])


class SearchTables(Closable):
    """The tables, which the constructor makes in the current network namespace. Methods raise OSError."""

    def __init__(self) -> None:
        self._sets: dict[str, frozenset[_Address]] = {_ANNOUNCED: frozenset(), _MOVED: frozenset()}
        self._nodes: frozenset[_Address] = frozenset()
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        try:
            requests = [request for family in (IPV4, IPV6) for request in _table(family)]
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, requests)
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        """Remove the tables."""
        self._netlink.close()

    def update(self, announced: Collection[_Address], moved: Collection[_Address], nodes: Collection[_Address]) -> None:
        """Set the announced addresses, those of them whose connections may have moved, and the other nodes' addresses.

        After an error, only `close` may be called.
        """
        sets = {_ANNOUNCED: frozenset(announced), _MOVED: frozenset(moved)}
        wanted = frozenset(nodes)
        requests: list[Request] = []
        if wanted != self._nodes:  # first, so that one transaction replaces the rules
            requests += [request for family in (IPV4, IPV6) for request in _rules(family, wanted)]
        for name, addresses in sets.items():
            requests += _changes(name, old=self._sets[name], new=addresses)
        self._netlink.transact_in_parts(NFNL_SUBSYS_NFTABLES, requests)
        self._sets, self._nodes = sets, wanted


def _table(family: Family) -> Iterator[Request]:
    yield add_table(family.number, _TABLE, is_owned=True)
    for identity, name in enumerate((_ANNOUNCED, _MOVED), 1):
        yield add_set(family.number, _TABLE, name, family.kind, family.size, identity=identity)
    yield add_base_chain(family.number, _TABLE, _CHAIN, NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE)
    yield from _rules(family, frozenset())


def _rules(family: Family, nodes: frozenset[_Address]) -> Iterator[Request]:
    """Yield the requests that replace the rules."""
    yield delete_rules(family.number, _TABLE, _CHAIN)
    is_copy = payload(NFT_PAYLOAD_NETWORK_HEADER, family.hop_limit, 1) + compare(_LEAST_COPIED, NFT_CMP_GTE)
    for unknown in UNKNOWN:
        refusal = unknown + is_copy + destination(family) + is_in(_ANNOUNCED) + verdict(NF_DROP)
        yield add_rule(family.number, _TABLE, _CHAIN, refusal)
    copies = [constant(node.packed) + duplicate() for node in sorted(nodes, key=str) if len(node.packed) == family.size]
    marked = constant(_COPIED) + set_payload(NFT_PAYLOAD_NETWORK_HEADER, family.hop_limit, 1)
    for unknown in UNKNOWN if copies else ():
        search = unknown + destination(family) + is_in(_MOVED) + marked + b"".join(copies) + verdict(NF_DROP)
        yield add_rule(family.number, _TABLE, _CHAIN, search)


def _changes(name: str, *, old: frozenset[_Address], new: frozenset[_Address]) -> Iterator[Request]:
    """Yield the requests that make the set `new` of `old`."""
    for address in old - new:
        yield delete_element(_family(address).number, _TABLE, name, address.packed)
    for address in new - old:
        yield add_element(_family(address).number, _TABLE, name, address.packed)


def _family(address: _Address) -> Family:
    return IPV4 if address.version == 4 else IPV6
