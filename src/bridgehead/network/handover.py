"""Tables of nf_tables that send packets of unknown TCP connections to the node that knows them.

When an address moves from one node to another, the connections that clients have are in the connection tracking of the
old node. Their packets now arrive at the new one, where they would be taken for new connections and be answered with a
reset. In nft's syntax, for IPv4:

    table ip bridgehead-handover-PORT {                # flags owner
        map nodes { type ipv4_addr : ipv4_addr; }      # a moved address, and the address of the node that had it
        chain prerouting { type filter hook prerouting priority mangle;
            UNKNOWN ip ttl > 1 dup to ip daddr map @nodes drop    # unknown_connections.py
        }
    }

The copy is untracked, so no rule of this node translates it, and it goes to the other node as it came. While an address
moves, two nodes may have rules for each other. A packet that neither knows circles until its TTL, which the kernel
decrements in copies, is 1; without that condition it would go from 0 to 255. The kernel removes the tables when the
process ends (Linux 5.12). PORT is that of its netlink socket: another speaker of the node, for a load-balancer class of
its own, has tables, too. Source: linux/netfilter/nf_tables.h.
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
    compare,
    delete_element,
    duplicate,
    payload,
    value_in,
    verdict,
)
from .uapi.netfilter import NF_DROP, NF_INET_PRE_ROUTING
from .uapi.netfilter_ipv4 import NF_IP_PRI_MANGLE
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import NFT_CMP_GT, NFT_PAYLOAD_NETWORK_HEADER
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES
from .unknown_connections import IPV4, IPV6, UNKNOWN, Family, destination

_TABLES: Final = "bridgehead-handover"
_MAP: Final = "nodes"
_CHAIN: Final = "prerouting"


class HandoverTables(Closable):
    """The tables, which the constructor makes in the current network namespace. Methods raise OSError."""

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}
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

    def set_nodes(self, nodes: Mapping[str, str]) -> None:
        """Set the moved addresses, each with the address of the node that had it, of the same family.

        After an error, only `close` may be called.
        """
        self._netlink.transact_in_parts(NFNL_SUBSYS_NFTABLES, self._changes(nodes))
        self._nodes = dict(nodes)

    def _changes(self, nodes: Mapping[str, str]) -> Iterator[Request]:
        for address in self._nodes.keys() | nodes.keys():
            old, new = self._nodes.get(address), nodes.get(address)
            if old != new and old is not None:
                yield _change(self._name, address, "")
            if old != new and new is not None:
                yield _change(self._name, address, new)


def _table(family: Family, name: str) -> Iterator[Request]:
    number = family.number
    yield add_table(number, name, is_owned=True)
    yield add_set(number, name, _MAP, family.kind, family.size, identity=1, is_map=True)
    yield add_base_chain(number, name, _CHAIN, NF_INET_PRE_ROUTING, NF_IP_PRI_MANGLE)
    for unknown in UNKNOWN:
        is_passed_on = payload(NFT_PAYLOAD_NETWORK_HEADER, family.hop_limit, 1) + compare(bytes([1]), NFT_CMP_GT)
        node = destination(family) + value_in(_MAP)
        expressions = unknown + is_passed_on + node + duplicate() + verdict(NF_DROP)
        yield add_rule(number, name, _CHAIN, expressions)


def _change(table: str, address: str, node: str) -> Request:
    """Return the request that adds an element, or deletes it if there is no node."""
    number = (IPV6 if ":" in address else IPV4).number
    key = pack_address(address)[2]
    if not node:
        return delete_element(number, table, _MAP, key)
    return add_element(number, table, _MAP, key, pack_address(node)[2])
