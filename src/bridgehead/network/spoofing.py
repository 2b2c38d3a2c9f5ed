"""A table of nf_tables that drops packets of pods with foreign source addresses.

The container runtime has it on each node. A pod's end of its veth pair belongs to the pod, which may give it any
address (with NET_ADMIN; docs/security.md has the limit) or send raw packets (with NET_RAW). The node therefore checks
each packet that comes in by its own end: the source has to be an address that the node routes to that very interface.
The interfaces are those of the link group `POD_GROUP` (IFLA_GROUP, given when the pair is made), so a new pod changes
nothing here. In nft's syntax:

    table inet bridgehead-pods {                        # flags owner
        chain from-pods { type filter hook prerouting priority -450;
            iifgroup 25192 fib saddr . iif oif missing counter drop
            iifgroup 25192 ip saddr 0.0.0.0/8 counter drop      # fib accepts it in broadcasts
            iifgroup 25192 ip daddr 127.0.0.0/8 counter drop    # route_localnet is on for pods with host ports
            iifgroup 25192 icmp type redirect counter drop
            iifgroup 25192 ip6 saddr fe80::/10 counter drop     # a link-local source passes fib on every link
            iifgroup 25192 icmpv6 type 133-137 counter drop     # neighbour discovery, routers, redirects; from :: too
        }
    }

On a kernel without IPv6 it is a table of family `ip`. ARP needs no rule: the node's end has the flag NOARP, so the
kernel drops ARP that comes in there (arp_rcv). Neither side of the pair resolves the other: both have permanent
neighbours. The priority is before the reassembly of fragments and before connection tracking, so that nothing forged
has a flow.

The kernel removes the table when the process ends, and no other process can (`flags owner`, Linux 5.12). On older
kernels a flush of the ruleset removes it, and it stays until the next runtime starts.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterator
from typing import Final

from .closable import Closable
from .netlink_socket import NetlinkSocket, Request
from .nft_requests import (
    add_base_chain,
    add_rule,
    add_table,
    compare,
    counter,
    has_no_route_back,
    masked,
    meta,
    payload,
    remove_table,
    verdict,
)
from .uapi.icmp import ICMP_REDIRECT
from .uapi.icmp6 import ND_REDIRECT, ND_ROUTER_SOLICIT
from .uapi.netfilter import NF_DROP, NF_INET_PRE_ROUTING, NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6
from .uapi.netfilter_ipv4 import NF_IP_PRI_RAW_BEFORE_DEFRAG
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nf_tables import (
    NFT_CMP_GTE,
    NFT_CMP_LTE,
    NFT_META_IIFGROUP,
    NFT_META_L4PROTO,
    NFT_META_NFPROTO,
    NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER,
)
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES

TABLE: Final = "bridgehead-pods"
POD_GROUP: Final = 25192  # arbitrary: a link group that no other program uses
_GROUP: Final = struct.pack("=I", POD_GROUP)
_IPV4_SOURCE, _IPV4_DESTINATION, _IPV6_SOURCE = 12, 16, 8  # offsets of addresses in the headers
_IPV6_BYTES: Final = 16
_CHAIN: Final = "from-pods"
_DEFAULT_RP_FILTER: Final = "/proc/sys/net/ipv4/conf/default/rp_filter"
_STRICT: Final = "1"
_IPV6: Final = "/proc/sys/net/ipv6"


class PodGuard(Closable):
    """The table, which the constructor makes or replaces in the current network namespace.

    `missing` is "", or one sentence about what is not guarded and why. Without the table, interfaces that are made from
    then on check IPv4 sources by rp_filter, which is weaker.

    A process with this object's socket can remove the table: forked children that run a pod's programs must close
    `fileno()`.
    """

    def __init__(self) -> None:
        self._netlink = NetlinkSocket(NETLINK_NETFILTER)
        self._family = NFPROTO_INET if socket.has_ipv6 and os.path.exists(_IPV6) else NFPROTO_IPV4
        self._is_loaded = False
        self._rp_filter = self.missing = ""
        try:
            self._load()
            self._is_loaded = True
        except OSError as error:
            self.missing = f"pods can send with foreign source addresses: {_describe(error)}{self._fall_back()}"

    def fileno(self) -> int:
        return self._netlink.fileno()

    def close(self) -> None:
        """Remove the table. Raises OSError."""
        try:
            if self._is_loaded:
                remove_table(self._netlink, self._family, TABLE)
            if self._rp_filter:
                _write(_DEFAULT_RP_FILTER, self._rp_filter)
        finally:
            self._netlink.close()

    def _load(self) -> None:
        try:
            self._add()
        except FileExistsError:
            # A runtime was killed on an old kernel. Without a table to remove, a first `remove_table` would cost 10 ms.
            remove_table(self._netlink, self._family, TABLE)
            self._add()

    def _add(self) -> None:
        try:
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, _table(self._family, is_owned=True))
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):
                raise
            self._netlink.transact(NFNL_SUBSYS_NFTABLES, _table(self._family, is_owned=False))

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


def _describe(error: OSError) -> str:
    if error.errno == errno.EPERM:
        return f'the table "{TABLE}" belongs to another process, or CAP_NET_ADMIN is missing'
    if error.errno in (errno.ENOENT, errno.EOPNOTSUPP, errno.EAFNOSUPPORT):
        return "this kernel's nf_tables has no such tables or no fib expression"
    return str(error)


def _table(family: int, *, is_owned: bool) -> list[Request]:
    chain = add_base_chain(family, TABLE, _CHAIN, NF_INET_PRE_ROUTING, NF_IP_PRI_RAW_BEFORE_DEFRAG)
    is_from_pod, drop = meta(NFT_META_IIFGROUP) + compare(_GROUP), counter() + verdict(NF_DROP)
    rules = (add_rule(family, TABLE, _CHAIN, is_from_pod + forged + drop) for forged in _forged(family))
    return [add_table(family, TABLE, is_owned=is_owned), chain, *rules]


def _forged(family: int) -> Iterator[bytes]:
    """Yield the matches for packets that no pod may send, for a table of that family (NFPROTO_*)."""
    yield has_no_route_back()
    yield _is_of(NFPROTO_IPV4) + payload(NFT_PAYLOAD_NETWORK_HEADER, _IPV4_SOURCE, 1) + compare(b"\0")
    yield _is_of(NFPROTO_IPV4) + payload(NFT_PAYLOAD_NETWORK_HEADER, _IPV4_DESTINATION, 1) + compare(b"\x7f")
    yield _icmp(NFPROTO_IPV4, socket.IPPROTO_ICMP, ICMP_REDIRECT, ICMP_REDIRECT)
    if family == NFPROTO_INET:
        source = payload(NFT_PAYLOAD_NETWORK_HEADER, _IPV6_SOURCE, _IPV6_BYTES)
        link_local = masked(b"\xff\xc0" + bytes(14)) + compare(b"\xfe\x80" + bytes(14))
        yield _is_of(NFPROTO_IPV6) + source + link_local
        yield _icmp(NFPROTO_IPV6, socket.IPPROTO_ICMPV6, ND_ROUTER_SOLICIT, ND_REDIRECT)


def _is_of(family: int) -> bytes:
    return meta(NFT_META_NFPROTO) + compare(bytes([family]))


def _icmp(family: int, protocol: int, first: int, last: int) -> bytes:
    """Match messages with types from `first` to `last`."""
    kind = payload(NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1)
    if first == last:
        kind += compare(bytes([first]))
    else:
        kind += compare(bytes([first]), NFT_CMP_GTE) + compare(bytes([last]), NFT_CMP_LTE)
    return _is_of(family) + meta(NFT_META_L4PROTO) + compare(bytes([protocol])) + kind
