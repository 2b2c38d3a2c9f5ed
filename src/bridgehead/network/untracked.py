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
from .netlink import CREATE, EXCL, NETFILTER, NF_TABLES, Netlink, Request, address_family, attribute, nest, text

_NEWTABLE, _DELTABLE, _NEWCHAIN, _NEWRULE, _NEWSET, _NEWSETELEM, _DELSETELEM = 0, 2, 3, 6, 9, 12, 14
_INET: Final = 1  # NFPROTO_INET
_APPEND: Final = 0x800
_OWNER: Final = 2  # NFT_TABLE_F_OWNER
_PRIORITY_RAW: Final = -300
_HOOKS: Final = {"prerouting": 0, "output": 3}
_TIMEOUT, _EVAL = 0x10, 0x20  # NFT_SET_*
_REGISTER: Final = 1
_UDP, _TCP = 17, 6
_SYN, _FIN_SYN_RST_ACK = 0x02, 0x17
_INET_SERVICE: Final = 13  # nft's number of the type of ports; in a concatenation each part has six bits
_MOST_PEERS: Final = 1 << 16
_PEER_SECONDS: Final = 60  # without a segment
# By family: its number (NFPROTO_*), nft's number of its addresses' type, where a packet has source and destination.
_FAMILIES: Final = {4: (2, 7, 12, 16), 6: (10, 8, 8, 24)}
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
            requests = [self._element(_NEWSETELEM, "replies", address) for address in found]
            requests += [self._element(_NEWSETELEM, "queries", address) for address in found]
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
                NF_TABLES, [self._element(_NEWSETELEM, "queries", address) for address in self._taken]
            )

    def _delete_queries(self, addresses: Iterable[str]) -> None:
        for address in addresses:
            try:
                self._netlink.transact(NF_TABLES, [self._element(_DELSETELEM, "queries", address)])
            except OSError as error:
                if error.errno != errno.ENOENT:  # it has expired
                    raise

    def _remove(self) -> None:
        try:
            self._netlink.transact(
                NF_TABLES, [Request(_kind(_DELTABLE), 0, _HEAD + text(1, self._name), f"remove table {self._name}")]
            )
        except OSError as error:
            if error.errno != errno.ENOENT:
                raise

    def _create(self) -> None:
        flags = attribute(2, struct.pack("!I", _OWNER)) if self.is_owned else b""
        body = _HEAD + text(1, self._name) + flags
        requests = [Request(_kind(_NEWTABLE), CREATE | EXCL, body, f"add table {self._name}")]
        for family in self._families:
            requests += [self._set(use, family) for use in _USES]
        for chain, hook in _HOOKS.items():
            hooked = attribute(1, struct.pack("!I", hook)) + attribute(2, struct.pack("!i", _PRIORITY_RAW))
            body = _HEAD + text(1, self._name) + text(3, chain) + nest(4, hooked) + text(7, "filter")
            requests.append(Request(_kind(_NEWCHAIN), CREATE, body, f"add chain {chain}"))
            for family in self._families:
                requests += self._rules(chain, family)
        self._netlink.transact(NF_TABLES, requests)

    def _set(self, use: str, family: int) -> Request:
        kind, size = _FAMILIES[family][1], 4 if family == 4 else 16
        flags, seconds = 0, 0.0
        if use == "peers":
            flags, seconds = _TIMEOUT | _EVAL, _PEER_SECONDS
            kind, size = kind << 6 | _INET_SERVICE, size + 4
        elif use == "queries" and not self.is_owned:
            flags, seconds = _TIMEOUT, self._lease_seconds
        body = _HEAD + text(1, self._name) + text(2, f"{use}{family}")
        for attribute_kind, value in ((3, flags), (4, kind), (5, size), (10, family * 10 + _USES.index(use))):
            body += _number(attribute_kind, value)
        if use == "peers":
            body += nest(9, _number(1, _MOST_PEERS))
        if seconds:
            body += attribute(11, struct.pack("!Q", int(seconds * 1000)))
        return Request(_kind(_NEWSET), CREATE, body, f"add set {use}{family}")

    def _rules(self, chain: str, family: int) -> Iterator[Request]:
        number, _, source, destination = _FAMILIES[family]
        length = 4 if family == 4 else 16
        # Where the port goes in a key of address and port: the 32 bits behind the address.
        peer = _payload(1, source, length) + _payload(2, 0, 2, 9 if family == 4 else 2)
        remember = _expression("dynset", text(1, f"peers{family}") + _number(3, 1) + _number(4, _REGISTER))
        pass_over = _expression("notrack", b"")
        begins = _payload(2, 13, 1) + _masked(_FIN_SYN_RST_ACK) + _is(bytes([_SYN]))
        for protocol, use, address, port, then in (
            (_UDP, "queries", destination, 2, pass_over),
            (_UDP, "replies", source, 0, pass_over),
            (_TCP, "replies", source, 0, pass_over),
            (_TCP, "queries", destination, 2, begins + peer + remember),
            (_TCP, "replies", destination, 2, peer + _is_in(f"peers{family}") + remember + pass_over),
        ):
            expressions = (
                _meta(15)  # NFT_META_NFPROTO
                + _is(bytes([number]))
                + _meta(16)  # NFT_META_L4PROTO
                + _is(bytes([protocol]))
                + _payload(1, address, length)
                + _is_in(f"{use}{family}")
                + _payload(2, port, 2)
                + _is(struct.pack("!H", _PORT))
                + then
            )
            body = _HEAD + text(1, self._name) + text(2, chain) + nest(4, expressions)
            yield Request(_kind(_NEWRULE), CREATE | _APPEND, body, f"add rule to {chain}")

    def _element(self, kind: int, use: str, address: str) -> Request:
        family = 6 if ":" in address else 4
        packed = socket.inet_pton(address_family(family), address)
        element = nest(1, nest(1, attribute(1, packed)))
        body = _HEAD + text(1, self._name) + text(2, f"{use}{family}") + nest(3, element)
        flags = CREATE if kind == _NEWSETELEM else 0
        return Request(_kind(kind), flags, body, f"{address} in {use}")


_HEAD: Final = struct.pack("!BBH", _INET, 0, 0)  # struct nfgenmsg
_USES: Final = ("queries", "replies", "peers")


def _kind(number: int) -> int:
    return NF_TABLES << 8 | number


def _expression(name: str, data: bytes) -> bytes:
    return nest(1, text(1, name) + nest(2, data))


def _number(kind: int, value: int) -> bytes:
    return attribute(kind, struct.pack("!I", value))


def _meta(key: int) -> bytes:
    return _expression("meta", _number(1, _REGISTER) + _number(2, key))


def _payload(base: int, offset: int, length: int, register: int = _REGISTER) -> bytes:
    """`base` 1: the network header, 2: the transport header."""
    values = enumerate((register, base, offset, length), 1)
    return _expression("payload", b"".join(_number(kind, value) for kind, value in values))


def _masked(mask: int) -> bytes:
    """One byte, of which only these bits are of interest."""
    data = _number(1, _REGISTER) + _number(2, _REGISTER) + _number(3, 1)
    return _expression("bitwise", data + nest(4, attribute(1, bytes([mask]))) + nest(5, attribute(1, b"\0")))


def _is(value: bytes) -> bytes:
    return _expression("cmp", _number(1, _REGISTER) + _number(2, 0) + nest(3, attribute(1, value)))


def _is_in(name: str) -> bytes:
    return _expression("lookup", text(1, name) + _number(2, _REGISTER))
