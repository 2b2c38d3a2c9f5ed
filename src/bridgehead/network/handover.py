"""Tables of nf_tables that send packets of unknown TCP connections to the node that knows them.

When an address moves from one node to another, the connections that clients have are in the connection tracking of the
old node. Their packets now arrive at the new one, where they would be taken for new connections and be answered with a
reset. In nft's syntax, for IPv4:

    table ip bridgehead-handover {                     # flags owner
        map nodes { type ipv4_addr : ipv4_addr; }      # a moved address, and the address of the node that had it
        chain prerouting { type filter hook prerouting priority mangle;
            meta l4proto tcp tcp flags & syn == 0 ct state invalid,new dup to ip daddr map @nodes drop
        }
    }

The copy is untracked, so no rule of this node translates it, and it goes to the other node as it came. The kernel
removes the tables when the process ends (Linux 5.12). Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from .closable import Closable
from .inet import pack_address
from .netlink_socket import NetlinkSocket, Request
from .nft_requests import (
    add_base_chain,
    add_element,
    add_rule,
    add_set,
    add_table,
    delete_element,
    duplicate,
    value_in,
    verdict,
)
from .uapi.netfilter import NF_DROP, NF_INET_PRE_ROUTING
from .uapi.netfilter_ipv4 import NF_IP_PRI_MANGLE
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES
from .unknown_connections import IPV4, IPV6, IS_UNKNOWN, Family, destination

_TABLE: Final = "bridgehead-handover"
_MAP: Final = "nodes"
_CHAIN: Final = "prerouting"


class HandoverTables(Closable):
    """The tables, which the constructor makes in the current network namespace. Methods raise OSError."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        try:
            for family in (IPV4, IPV6):
                self._netlink.transact(NFNL_SUBSYS_NFTABLES, list(_table(family)))
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        """Remove the tables."""
        self._netlink.close()

    def set_nodes(self, nodes: Mapping[str, str]) -> None:
        """Set the moved addresses, each with the address of the node that had it, of the same family.

        The call is one transaction: an error leaves the tables as they were.
        """
        requests = [_change(address, "") for address in self._nodes if nodes.get(address) != self._nodes[address]]
        requests += [_change(address, node) for address, node in nodes.items() if self._nodes.get(address) != node]
        if requests:
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, requests)
            self._nodes = dict(nodes)


def _table(family: Family) -> Iterator[Request]:
    number = family.number
    yield add_table(number, _TABLE, is_owned=True)
    yield add_set(number, _TABLE, _MAP, family.kind, family.size, identity=1, is_map=True)
    yield add_base_chain(number, _TABLE, _CHAIN, NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE)
    expressions = IS_UNKNOWN + destination(family) + value_in(_MAP) + duplicate() + verdict(NF_DROP)
    yield add_rule(number, _TABLE, _CHAIN, expressions)


def _change(address: str, node: str) -> Request:
    """Return the request that adds an element, or deletes it if there is no node."""
    number = (IPV6 if ":" in address else IPV4).number
    key = pack_address(address)[2]
    if not node:
        return delete_element(number, _TABLE, _MAP, key)
    return add_element(number, _TABLE, _MAP, key, pack_address(node)[2])
