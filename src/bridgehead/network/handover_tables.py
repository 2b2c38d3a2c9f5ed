"""Tables of nf_tables that send packets of unknown TCP connections to the node that knows them.

When an address moves from one node to another, the connections that clients have are in the connection tracking of the
old node. Their packets now arrive at the new one, where they would be taken for new connections and be answered with a
reset. In nft's syntax, for IPv4:

    table ip bridgehead-handover-PORT {                # flags owner
        map nodes { type ipv4_addr : ipv4_addr; }      # a moved address, and the address of the node that had it
        set lost { type ipv4_addr; }                   # addresses that this node had before
        chain prerouting { type filter hook prerouting priority mangle;
            NEW ip ttl >= 240 ip daddr @lost drop      # unknown_connections.py
            INVALID ip ttl >= 240 ip daddr @lost drop
            NEW ip ttl > 1 dup to ip daddr map @nodes drop
            INVALID ip ttl >= 240 ip daddr @nodes drop
            INVALID ip daddr @nodes ip ttl set 255 dup to ip daddr map @nodes drop
        }
    }

The copy is untracked, so no rule of this node translates it, and it goes to the other node as it came, but for the mark
of an invalid packet: it may belong to a connection of this node, and if so, the other one drops it. While an address
moves, two nodes may have rules for each other. A packet that neither knows circles until its TTL, which the kernel
decrements in copies, is 1; without that condition it would go from 0 to 255. A marked one that comes back is dropped:
forwarded by this node, it would return with a smaller TTL, and be marked again. The kernel removes the tables when the
process ends (Linux 5.12). PORT is that of its netlink socket: another speaker of the node, for a load-balancer class of
its own, has tables, too. Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from .closable import Closable
from .netlink_socket import NetlinkSocket, Request
from .nft_requests import (
    add_base_chain,
    add_rule,
    add_set,
    add_table,
    compare,
    duplicate,
    is_in,
    payload,
    value_in,
    verdict,
)
from .uapi.netfilter import NF_DROP, NF_INET_PRE_ROUTING
from .uapi.netfilter_ipv4 import NF_IP_PRI_MANGLE
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import NFT_CMP_GT, NFT_PAYLOAD_NETWORK_HEADER
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
)

_TABLES: Final = "bridgehead-handover"
_NODES: Final = "nodes"
_LOST: Final = "lost"
_CHAIN: Final = "prerouting"


class HandoverTables(Closable):
    """The tables, which the constructor makes in the current network namespace. Methods raise OSError."""

    def __init__(self) -> None:
        self._elements: dict[str, dict[Address, bytes]] = {_NODES: {}, _LOST: {}}
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        self._name = f"{_TABLES}-{self._netlink.port}"
        try:
            for family in (IPV4, IPV6):
                self._netlink.transact(NFNL_SUBSYS_NFTABLES, list(_table(family, self._name)))
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        """Remove the tables."""
        self._netlink.close()

    def update(self, nodes: Mapping[Address, Address], lost: Collection[Address]) -> None:
        """Set the moved addresses, each with the address of the node that had it, and the lost ones.

        The two addresses are of one family. After an error, only `close` may be called.
        """
        elements = {_NODES: {address: node.packed for address, node in nodes.items()}, _LOST: dict.fromkeys(lost, b"")}
        changes = (
            change
            for name, new in elements.items()
            for change in element_changes(self._name, name, self._elements[name], new)
        )
        self._netlink.transact_in_parts(NFNL_SUBSYS_NFTABLES, changes)
        self._elements = elements


def _table(family: Family, name: str) -> Iterator[Request]:
    number = family.number
    yield add_table(number, name, is_owned=True)
    yield add_set(number, name, _NODES, family.kind, family.size, identity=1, is_map=True)
    yield add_set(number, name, _LOST, family.kind, family.size, identity=2)
    yield add_base_chain(number, name, _CHAIN, NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE)
    is_lost = is_copy(family) + destination(family) + is_in(_LOST)
    is_passed_on = payload(NFT_PAYLOAD_NETWORK_HEADER, family.hop_limit, 1) + compare(bytes([1]), NFT_CMP_GT)
    node = destination(family) + value_in(_NODES)
    for expressions in (
        NEW + is_lost,
        INVALID + is_lost,
        NEW + is_passed_on + node + duplicate(),
        INVALID + is_copy(family) + node,
        INVALID + node + mark_copy(family) + node + duplicate(),
    ):
        yield add_rule(number, name, _CHAIN, expressions + verdict(NF_DROP))
