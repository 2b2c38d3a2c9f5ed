"""A table of nf_tables that exempts packets to and from some addresses from connection tracking, and so from NAT.

The DNS has one on each node (`dns/serving/node_local.py`). In nft's syntax, for one IP family:

    table inet NAME {                                   # flags owner
        set queries4 { type ipv4_addr; }                # the addresses that are served now
        set replies4 { type ipv4_addr; }                # the addresses that were served since the start
        set peers4 { type ipv4_addr . inet_service; }   # clients whose TCP connections began with this server
        chain prerouting { type filter hook prerouting priority raw;
            ip daddr @queries4 udp dport 53 notrack
            ip saddr @replies4 udp sport 53 notrack     # and tcp
            ip daddr @queries4 tcp dport 53 tcp flags syn / fin,syn,rst,ack update @peers4 { ip saddr . tcp sport }
            ip daddr @replies4 tcp dport 53 ip saddr . tcp sport @peers4 update @peers4 { ... } notrack
        }
        chain output { type filter hook output priority raw; the same rules }
    }

A TCP connection stays with the server that it began with: connections from before the table stay tracked, and those of
this server stay untracked after an address is no longer served. A client that fills `peers` with connections that it
never opens has its next ones tracked.

The kernel removes the table when the process ends (`flags owner`, Linux 5.12). On older kernels the elements expire,
and `renew` has to be called in time. A table of the command `nft` would be removed when that ends.
Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

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
    is_in,
    masked,
    meta,
    notrack,
    payload,
    put_into,
    register_after,
    remove_table,
)
from .uapi.netfilter import NF_INET_LOCAL_OUT, NF_INET_PRE_ROUTING, NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6
from .uapi.netfilter_ipv4 import NF_IP_PRI_RAW
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import (
    NFT_DYNSET_OP_UPDATE,
    NFT_META_L4PROTO,
    NFT_META_NFPROTO,
    NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER,
)
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES
from .uapi.nft_datatype import TYPE_BITS, TYPE_INET_SERVICE, TYPE_IP6ADDR, TYPE_IPADDR
from .uapi.tcp import TH_ACK, TH_FIN, TH_RST, TH_SYN


class _Family(NamedTuple):
    """An IP family: NFPROTO_*, the type of its addresses (TYPE_*) and their length; their offsets in its header."""

    number: int
    kind: int
    size: int
    source: int
    destination: int


_FAMILIES: Final = {
    4: _Family(NFPROTO_IPV4, TYPE_IPADDR, 4, source=12, destination=16),
    6: _Family(NFPROTO_IPV6, TYPE_IP6ADDR, 16, source=8, destination=24),
}
_HOOKS: Final = {"prerouting": NF_INET_PRE_ROUTING, "output": NF_INET_LOCAL_OUT}
_USES: Final = ("queries", "replies", "peers")  # of the sets
_MOST_PEERS: Final = 1 << 16
_PEER_SECONDS: Final = 60  # without a segment
_PORT: Final = 53
_PORT_BYTES: Final = 4  # of a port in a set's key, padded
_SOURCE_PORT, _DESTINATION_PORT = 0, 2  # offsets in the headers of TCP and UDP
_TCP_FLAGS: Final = 13  # offset in the header of TCP


class UntrackedTable(Closable):
    """The table, which the constructor makes in the current network namespace.

    The constructor replaces a table that an earlier process left on an old kernel, and raises OSError with EPERM while
    another process owns a table of that name. `lease_seconds`: when elements expire where no process owns the table.
    Methods block for a moment, and raise OSError.
    """

    def __init__(self, name: str, families: Iterable[int], *, lease_seconds: float, may_own: bool = True) -> None:
        self._name = name
        self._families = tuple(families)
        self._lease_seconds = lease_seconds
        self._taken: set[str] = set()
        self.is_owned = may_own
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        try:
            self._remove()
            try:
                self._create()
            except OSError as error:
                if not may_own or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                    raise
                self.is_owned = False
                self._create()
        except OSError:
            self._netlink.close()
            raise

    def close(self) -> None:
        """Remove the table."""
        try:
            self._remove()
        finally:
            self._netlink.close()

    def take(self, addresses: Collection[str]) -> bool:
        """Exempt packets to the addresses from tracking; packets from them stay exempted until the table is removed.

        Return False if all are exempted already.
        """
        found = [address for address in addresses if address not in self._taken]
        if found:
            requests = [self._add("replies", address) for address in found]
            requests += [self._add("queries", address) for address in found]
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, requests)
            self._taken.update(found)
        return bool(found)

    def leave(self, addresses: Collection[str]) -> None:
        """Track packets to the addresses again; replies from them stay exempted."""
        found = [address for address in addresses if address in self._taken]
        if found:
            self._taken.difference_update(found)
            self._delete_queries(found)

    def renew(self) -> None:
        """Restart the timeouts of the elements where no process owns the table."""
        if self._taken and not self.is_owned:
            self._delete_queries(self._taken)
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, [self._add("queries", address) for address in self._taken])

    def _delete_queries(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            try:
                name, key = _set_and_key("queries", address)
                self._netlink.transact(NFNL_SUBSYS_NFTABLES, [delete_element(NFPROTO_INET, self._name, name, key)])
            except OSError as error:
                if error.errno != errno.ENOENT:  # the element has expired
                    raise

    def _remove(self) -> None:
        remove_table(self._netlink, NFPROTO_INET, self._name)

    def _create(self) -> None:
        requests = [add_table(NFPROTO_INET, self._name, is_owned=self.is_owned)]
        for family in self._families:
            requests += [self._set(use, family) for use in _USES]
        for chain, hook in _HOOKS.items():
            requests.append(add_base_chain(NFPROTO_INET, self._name, chain, hook, NF_IP_PRI_RAW))
            for family in self._families:
                requests += self._rules(chain, family)
        self._netlink.transact(NFNL_SUBSYS_NFTABLES, requests)

    def _set(self, use: str, family: int) -> Request:
        kind, size = _FAMILIES[family].kind, _FAMILIES[family].size
        seconds, most = 0.0, 0
        if use == "peers":
            kind, size = kind << TYPE_BITS | TYPE_INET_SERVICE, size + _PORT_BYTES
            seconds, most = _PEER_SECONDS, _MOST_PEERS
        elif use == "queries" and not self.is_owned:
            seconds = self._lease_seconds
        identity = family * 10 + _USES.index(use)
        name = f"{use}{family}"
        return add_set(NFPROTO_INET, self._name, name, kind, size, identity=identity, seconds=seconds, most=most)

    def _rules(self, chain: str, family: int) -> Iterator[Request]:
        layout = _FAMILIES[family]
        peer = payload(NFT_PAYLOAD_NETWORK_HEADER, layout.source, layout.size)
        peer += payload(NFT_PAYLOAD_TRANSPORT_HEADER, _SOURCE_PORT, 2, register_after(layout.size))
        remember = put_into(f"peers{family}", NFT_DYNSET_OP_UPDATE)
        begins = (
            payload(NFT_PAYLOAD_TRANSPORT_HEADER, _TCP_FLAGS, 1)
            + masked(bytes([TH_FIN | TH_SYN | TH_RST | TH_ACK]))
            + compare(bytes([TH_SYN]))
        )
        for protocol, use, address, port, then in (
            (socket.IPPROTO_UDP, "queries", layout.destination, _DESTINATION_PORT, notrack()),
            (socket.IPPROTO_UDP, "replies", layout.source, _SOURCE_PORT, notrack()),
            (socket.IPPROTO_TCP, "replies", layout.source, _SOURCE_PORT, notrack()),
            (socket.IPPROTO_TCP, "queries", layout.destination, _DESTINATION_PORT, begins + peer + remember),
            (
                socket.IPPROTO_TCP,
                "replies",
                layout.destination,
                _DESTINATION_PORT,
                peer + is_in(f"peers{family}") + remember + notrack(),
            ),
        ):
            expressions = (
                meta(NFT_META_NFPROTO)
                + compare(bytes([layout.number]))
                + meta(NFT_META_L4PROTO)
                + compare(bytes([protocol]))
                + payload(NFT_PAYLOAD_NETWORK_HEADER, address, layout.size)
                + is_in(f"{use}{family}")
                + payload(NFT_PAYLOAD_TRANSPORT_HEADER, port, 2)
                + compare(struct.pack("!H", _PORT))
                + then
            )
            yield add_rule(NFPROTO_INET, self._name, chain, expressions)

    def _add(self, use: str, address: str) -> Request:
        name, key = _set_and_key(use, address)
        return add_element(NFPROTO_INET, self._name, name, key)


def _set_and_key(use: str, address: str) -> tuple[str, bytes]:
    return f"{use}{6 if ':' in address else 4}", pack_address(address)[2]
