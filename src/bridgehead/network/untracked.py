"""A table of nf_tables by which connection tracking, and so NAT, passes over what is sent to and from addresses.

The DNS has one on each node (`dns/node_local.py`). As nft prints it, of one family:

    table inet NAME {                                   # flags owner
        set queries4 { type ipv4_addr; }                # where we answer
        set replies4 { type ipv4_addr; }                # where we have answered since we began
        set peers4 { type ipv4_addr . inet_service; }   # whose TCP connections have begun with us
        chain prerouting { type filter hook prerouting priority raw;
            ip daddr @queries4 udp dport 53 notrack
            ip saddr @replies4 udp sport 53 notrack     # and tcp
            ip daddr @queries4 tcp dport 53 tcp flags syn / fin,syn,rst,ack update @peers4 { ip saddr . tcp sport }
            ip daddr @replies4 tcp dport 53 ip saddr . tcp sport @peers4 update @peers4 { ... } notrack
        }
        chain output { type filter hook output priority raw; the same rules }
    }

A TCP connection stays where it began: those from before go on by way of connection tracking, ours after we have left.
Whoever fills `peers` with connections that never were has his next ones tracked.

The kernel removes the table with the process, however that ends (`flags owner`, Linux 5.12). Older kernels get elements
that expire, which `renew` has to forestall. Encoded by hand: a table that the command `nft` owned would end with it.
Source: linux/netfilter/nf_tables.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from .closable import Closable
from .netlink import CREATE, NETFILTER, NF_TABLES, Netlink, Request, address_family, attribute, nest, text
from .nf_tables import (
    DELSETELEM,
    INET,
    IPV4,
    IPV4_TYPE,
    IPV6,
    IPV6_TYPE,
    L4PROTO,
    NETWORK_HEADER,
    NEWSETELEM,
    NFPROTO,
    OUTPUT,
    PORT_TYPE,
    PREROUTING,
    PRIORITY_RAW,
    TRANSPORT_HEADER,
    UPDATE,
    WORDS,
    add_base_chain,
    add_rule,
    add_set,
    add_table,
    compare,
    expression,
    is_in,
    masked,
    meta,
    payload,
    put_into,
    remove_table,
    request,
)

_HOOKS: Final = {"prerouting": PREROUTING, "output": OUTPUT}
_UDP, _TCP = 17, 6
_SYN, _FIN_SYN_RST_ACK = 0x02, 0x17
_MOST_PEERS: Final = 1 << 16
_PEER_SECONDS: Final = 60  # without a segment
# By family: its number, its addresses' type, where a packet has source and destination.
_FAMILIES: Final = {4: (IPV4, IPV4_TYPE, 12, 16), 6: (IPV6, IPV6_TYPE, 8, 24)}
_PORT: Final = 53


class UntrackedTable(Closable):
    """Made by its constructor, in the network namespace of the moment. Use as a context manager, or `close` it.

    Methods block for a moment, and raise OSError. Making one removes what a process of an old kernel has left; it fails
    with EPERM while another process has a table of that name.
    """

    def __init__(self, name: str, families: Iterable[int], *, lease_seconds: float, may_own: bool = True) -> None:
        self._name = name
        self._families = tuple(families)
        self._lease_seconds = lease_seconds
        self._taken: set[str] = set()
        self.is_owned = may_own
        self._netlink = Netlink(NETFILTER)
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
        """From now on what is sent to these is not tracked, and what is sent from them never again is.

        False: they are all taken already.
        """
        found = [address for address in addresses if address not in self._taken]
        if found:
            requests = [self._element(NEWSETELEM, "replies", address) for address in found]
            requests += [self._element(NEWSETELEM, "queries", address) for address in found]
            self._netlink.transact(NF_TABLES, requests)
            self._taken.update(found)
        return bool(found)

    def leave(self, addresses: Collection[str]) -> None:
        """What is sent to these goes the way of everything else. Replies that are still to come do not."""
        found = [address for address in addresses if address in self._taken]
        if found:
            self._taken.difference_update(found)
            self._delete_queries(found)

    def renew(self) -> None:
        """Where nobody owns the table: what is taken would be no more after `lease_seconds`."""
        if self._taken and not self.is_owned:
            self._delete_queries(self._taken)
            self._netlink.transact(
                NF_TABLES, [self._element(NEWSETELEM, "queries", address) for address in self._taken]
            )

    def _delete_queries(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            try:
                self._netlink.transact(NF_TABLES, [self._element(DELSETELEM, "queries", address)])
            except OSError as error:
                if error.errno != errno.ENOENT:  # it has expired
                    raise

    def _remove(self) -> None:
        remove_table(self._netlink, INET, self._name)

    def _create(self) -> None:
        requests = [add_table(INET, self._name, is_owned=self.is_owned)]
        for family in self._families:
            requests += [self._set(use, family) for use in _USES]
        for chain, hook in _HOOKS.items():
            requests.append(add_base_chain(INET, self._name, chain, hook, PRIORITY_RAW))
            for family in self._families:
                requests += self._rules(chain, family)
        self._netlink.transact(NF_TABLES, requests)

    def _set(self, use: str, family: int) -> Request:
        kind, size = _FAMILIES[family][1], 4 if family == 4 else 16
        seconds, most = 0.0, 0
        if use == "peers":
            kind, size = kind << 6 | PORT_TYPE, size + 4
            seconds, most = _PEER_SECONDS, _MOST_PEERS
        elif use == "queries" and not self.is_owned:
            seconds = self._lease_seconds
        identity = family * 10 + _USES.index(use)
        return add_set(INET, self._name, f"{use}{family}", kind, size, identity=identity, seconds=seconds, most=most)

    def _rules(self, chain: str, family: int) -> Iterator[Request]:
        protocol_family, _, source, destination = _FAMILIES[family]
        length = 4 if family == 4 else 16
        # Where the port goes in a key of address and port: the 32 bits behind the address.
        peer = payload(NETWORK_HEADER, source, length) + payload(TRANSPORT_HEADER, 0, 2, WORDS + length // 4)
        remember = put_into(f"peers{family}", UPDATE)
        pass_over = expression("notrack", b"")
        begins = payload(TRANSPORT_HEADER, 13, 1) + masked(bytes([_FIN_SYN_RST_ACK])) + compare(bytes([_SYN]))
        for protocol, use, address, port, then in (
            (_UDP, "queries", destination, 2, pass_over),
            (_UDP, "replies", source, 0, pass_over),
            (_TCP, "replies", source, 0, pass_over),
            (_TCP, "queries", destination, 2, begins + peer + remember),
            (_TCP, "replies", destination, 2, peer + is_in(f"peers{family}") + remember + pass_over),
        ):
            expressions = (
                meta(NFPROTO)
                + compare(bytes([protocol_family]))
                + meta(L4PROTO)
                + compare(bytes([protocol]))
                + payload(NETWORK_HEADER, address, length)
                + is_in(f"{use}{family}")
                + payload(TRANSPORT_HEADER, port, 2)
                + compare(struct.pack("!H", _PORT))
                + then
            )
            yield add_rule(INET, self._name, chain, expressions)

    def _element(self, kind: int, use: str, address: str) -> Request:
        family = 6 if ":" in address else 4
        packed = socket.inet_pton(address_family(family), address)
        element = nest(1, nest(1, attribute(1, packed)))
        body = text(1, self._name) + text(2, f"{use}{family}") + nest(3, element)
        flags = CREATE if kind == NEWSETELEM else 0
        return request(kind, flags, INET, body, f"{address} in {use}")


_USES: Final = ("queries", "replies", "peers")
