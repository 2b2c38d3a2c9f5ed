"""Tables of nf_tables by which a pod sends only as itself.

The container runtime has them on each node. A pod's end of its veth pair belongs to the pod, which may give itself any
address there, with NET_ADMIN, or send whole packets, with NET_RAW. So the node looks at each packet that comes in by
its own end: the source has to be an address that the node routes to that very interface. The interfaces are those of
the group `POD_GROUP` (IFLA_GROUP, given when the pair is made): a pod more or less changes nothing here. As nft prints:

    table ip bridgehead-pods {                          # flags owner
        chain from-pods { type filter hook prerouting priority -450;
            iifgroup != 25192 accept
            fib saddr . iif oif missing counter drop
            ip saddr 0.0.0.0/8 counter drop             # fib finds it right in broadcasts
            icmp type redirect counter drop
        }
    }
    table ip6 bridgehead-pods {
        set own { type iface_index . ipv6_addr; timeout 5m; }
        chain from-pods { type filter hook prerouting priority -450;
            iifgroup != 25192 accept
            icmpv6 type 133-137 counter drop            # neighbour discovery, routers, redirects; from :: too
            iif . ip6 saddr @own accept                 # was found right before
            fib saddr . iif oif missing counter drop
            ip6 saddr fe80::/10 counter drop            # everything is link-local to every link
            add @own { iif . ip6 saddr }
        }
    }
    table arp bridgehead-pods {
        chain from-pods { type filter hook input priority filter;
            iifgroup 25192 counter drop
        }
    }

Neither side of the pair resolves the other: both have permanent neighbours. The priority is before the reassembly of
fragments and before connection tracking, so that nothing forged has a flow.

A look at IPv6's routes costs 1 us a packet, four times that of a set, and as much as IPv4's routes do. An index of an
interface is not given again for long after it has gone, so that what was found right once is right.

The kernel removes the tables with the process, however that ends, and nobody else can (`flags owner`, Linux 5.12; on
older kernels a flush of the ruleset takes them along, and they stay until the next runtime).
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

from .closable import Closable
from .netlink import NETFILTER, NF_TABLES, Netlink, Request
from .nf_tables import (
    ACCEPT,
    ADD,
    ARP,
    ARP_INPUT,
    DROP,
    GREATER_OR_EQUAL,
    IFINDEX_TYPE,
    IIF,
    IIFGROUP,
    IPV4,
    IPV6,
    IPV6_TYPE,
    L4PROTO,
    LESS_OR_EQUAL,
    NETWORK_HEADER,
    NOT_EQUAL,
    PREROUTING,
    PRIORITY_FILTER,
    PRIORITY_RAW_BEFORE_DEFRAG,
    TRANSPORT_HEADER,
    WORDS,
    add_base_chain,
    add_rule,
    add_set,
    add_table,
    compare,
    counter,
    has_no_route_back,
    is_in,
    masked,
    meta,
    payload,
    put_into,
    remove_table,
    verdict,
)

TABLE: Final = "bridgehead-pods"
# Any number would do that nobody else on a machine uses.
POD_GROUP: Final = 25192
_GROUP: Final = struct.pack("=I", POD_GROUP)
_DROP: Final = counter() + verdict(DROP)
_SOURCE_4, _SOURCE_6 = 12, 8  # where a header has it
_REDIRECT: Final = 5  # ICMP
_ROUTER_SOLICITATION, _REDIRECT_6 = 133, 137  # the first and the last type of RFC 4861
_CHAIN, _OWN = "from-pods", "own"
_OWN_SECONDS, _MOST_OWN = 300, 4096  # more pods than a node has, and those that were
_FAMILIES: Final = {IPV4: "IPv4", IPV6: "IPv6", ARP: "ARP"}
_DEFAULT_RP_FILTER: Final = "/proc/sys/net/ipv4/conf/default/rp_filter"
_STRICT: Final = "1"


class PodGuard(Closable):
    """The tables, loaded by the constructor into the network namespace of the moment, whatever was there. Use as a
    context manager, or `close` it.

    `missing` is "", or says in one sentence what is not guarded and why. Without IPv4's table, interfaces that are made
    from then on check sources by themselves (rp_filter), as far as that goes.

    Whoever has its socket could remove the tables: forked children that run what a pod wants must close `fileno()`.
    """

    def __init__(self) -> None:
        self._netlink = Netlink(NETFILTER)
        self._loaded: list[int] = []
        self._is_owned = True
        self._rp_filter = ""
        failed: dict[int, OSError] = {}
        for family in _families():
            try:
                self._load(family)
                self._loaded.append(family)
            except OSError as error:
                failed[family] = error
        self.missing = _describe(failed)
        if IPV4 in failed:
            self.missing += self._fall_back()

    def fileno(self) -> int:
        return self._netlink.fileno()

    def close(self) -> None:
        """Remove the tables. Raises OSError."""
        try:
            for family in self._loaded:
                remove_table(self._netlink, family, TABLE)
            if self._rp_filter:
                _write(_DEFAULT_RP_FILTER, self._rp_filter)
        finally:
            self._netlink.close()

    def _load(self, family: int) -> None:
        try:
            self._add(family)
        except FileExistsError:
            # An older kernel's runtime was killed. Not removed to begin with: a transaction that fails costs 10 ms.
            remove_table(self._netlink, family, TABLE)
            self._add(family)

    def _add(self, family: int) -> None:
        try:
            self._netlink.transact(NF_TABLES, _table(family, is_owned=self._is_owned))
        except OSError as error:
            if not self._is_owned or error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            self._is_owned = False
            self._netlink.transact(NF_TABLES, _table(family, is_owned=False))

    def _fall_back(self) -> str:
        try:
            with open(_DEFAULT_RP_FILTER, encoding="ascii") as file:
                before = file.read().strip()
            _write(_DEFAULT_RP_FILTER, _STRICT)
        except OSError as error:
            return f"; rp_filter cannot be set either: {os.strerror(error.errno or 0)}"
        self._rp_filter = before
        return "; IPv4 sources are checked by rp_filter instead, which is later and lets the node's own flows through"


def _write(path: str, value: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(value)


def _families() -> Iterator[int]:
    yield IPV4
    if socket.has_ipv6 and os.path.exists("/proc/sys/net/ipv6"):
        yield IPV6
    yield ARP


def _describe(failed: dict[int, OSError]) -> str:
    if not failed:
        return ""
    if any(error.errno == errno.EPERM for error in failed.values()):
        why = f'the table "{TABLE}" belongs to another process, or CAP_NET_ADMIN is missing'
    elif all(error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.EAFNOSUPPORT) for error in failed.values()):
        why = "this kernel's nf_tables has no such tables or no fib expression"
    else:
        why = str(next(iter(failed.values())))
    names = ", ".join(_FAMILIES[family] for family in failed)
    return f"pods can send with foreign source addresses ({names}): {why}"


def _table(family: int, *, is_owned: bool) -> list[Request]:
    rules = {IPV4: _rules_4, IPV6: _rules_6, ARP: _rules_arp}[family]()
    chain = add_base_chain(family, TABLE, _CHAIN, PREROUTING, PRIORITY_RAW_BEFORE_DEFRAG)
    if family == ARP:
        chain = add_base_chain(family, TABLE, _CHAIN, ARP_INPUT, PRIORITY_FILTER)
    requests = [add_table(family, TABLE, is_owned=is_owned), chain]
    if family == IPV6:
        kind = IFINDEX_TYPE << 6 | IPV6_TYPE
        requests.append(add_set(family, TABLE, _OWN, kind, 20, identity=1, seconds=_OWN_SECONDS, most=_MOST_OWN))
    return [*requests, *(add_rule(family, TABLE, _CHAIN, rule) for rule in rules)]


def _rules_4() -> Iterator[bytes]:
    yield meta(IIFGROUP) + compare(_GROUP, NOT_EQUAL) + verdict(ACCEPT)
    yield has_no_route_back() + _DROP
    yield payload(NETWORK_HEADER, _SOURCE_4, 1) + compare(b"\0") + _DROP
    yield _icmp(socket.IPPROTO_ICMP, _REDIRECT, _REDIRECT) + _DROP


def _rules_6() -> Iterator[bytes]:
    source = payload(NETWORK_HEADER, _SOURCE_6, 16)
    link_local = masked(b"\xff\xc0" + bytes(14)) + compare(b"\xfe\x80" + bytes(14))
    own = meta(IIF) + payload(NETWORK_HEADER, _SOURCE_6, 16, WORDS + 1)
    yield meta(IIFGROUP) + compare(_GROUP, NOT_EQUAL) + verdict(ACCEPT)
    yield _icmp(socket.IPPROTO_ICMPV6, _ROUTER_SOLICITATION, _REDIRECT_6) + _DROP
    yield own + is_in(_OWN) + verdict(ACCEPT)
    yield has_no_route_back() + _DROP
    yield source + link_local + _DROP
    yield own + put_into(_OWN, ADD)


def _rules_arp() -> Iterator[bytes]:
    yield meta(IIFGROUP) + compare(_GROUP) + _DROP


def _icmp(protocol: int, first: int, last: int) -> bytes:
    """Messages of these types."""
    kind = payload(TRANSPORT_HEADER, 0, 1)
    if first == last:
        kind += compare(bytes([first]))
    else:
        kind += compare(bytes([first]), GREATER_OR_EQUAL) + compare(bytes([last]), LESS_OR_EQUAL)
    return meta(L4PROTO) + compare(bytes([protocol])) + kind
