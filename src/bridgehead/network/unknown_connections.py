"""Expressions that match packets of unknown TCP connections, for the tables of `handover` and `connection_search`.

Those begin no connection, and the node's connection tracking does not know the connection that they belong to: it is
another node's, because packets to an address come here now that went to that node before. In nft's syntax they match

    meta l4proto tcp tcp flags & syn == 0 ct state new
    meta l4proto tcp tcp flags & (fin | rst) != 0 ct state invalid

since connection tracking begins with any packet of a connection (`nf_conntrack_tcp_loose`, on by default) but the last
ones. Other invalid packets are of connections that are known here, and outside of their windows: another node would
answer them with a reset that the client accepts.
"""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple

from .nft_requests import compare, connection_state, masked, meta, payload
from .uapi.netfilter import NFPROTO_IPV4, NFPROTO_IPV6
from .uapi.nf_conntrack_common import IP_CT_NEW, NF_CT_STATE_INVALID_BIT
from .uapi.nf_tables import (
    NFT_CMP_EQ,
    NFT_CMP_NEQ,
    NFT_META_L4PROTO,
    NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER,
)
from .uapi.nft_datatype import TYPE_IP6ADDR, TYPE_IPADDR
from .uapi.tcp import TH_FIN, TH_RST, TH_SYN

_TCP_FLAGS: Final = 13  # offset in the header of TCP
_NEW: Final = 1 << (IP_CT_NEW + 1)  # NF_CT_STATE_BIT of the header


class Family(NamedTuple):
    """An IP family: NFPROTO_*, the type of its addresses, their length.

    `source`, `destination`, `hop_limit`: offsets of the addresses and of the TTL or hop limit in the header.
    """

    number: int
    kind: int
    size: int
    source: int
    destination: int
    hop_limit: int


IPV4: Final = Family(NFPROTO_IPV4, TYPE_IPADDR, 4, 12, 16, 8)
IPV6: Final = Family(NFPROTO_IPV6, TYPE_IP6ADDR, 16, 8, 24, 7)


def _matching(flags: int, operator: int, state: int) -> bytes:
    """Match TCP packets of a state by their flags: `operator` (NFT_CMP_*) compares them, masked, with 0."""
    return (
        meta(NFT_META_L4PROTO)
        + compare(bytes([socket.IPPROTO_TCP]))
        + payload(NFT_PAYLOAD_TRANSPORT_HEADER, _TCP_FLAGS, 1)
        + masked(bytes([flags]))
        + compare(bytes(1), operator)
        + connection_state()
        + masked(struct.pack("=I", state))
        + compare(bytes(4), NFT_CMP_NEQ)
    )


# Each one is for a rule of its own.
UNKNOWN: Final = (
    _matching(TH_SYN, NFT_CMP_EQ, _NEW),
    _matching(TH_FIN | TH_RST, NFT_CMP_NEQ, NF_CT_STATE_INVALID_BIT),
)


def destination(family: Family) -> bytes:
    """Return the expression that loads the destination of a packet."""
    return payload(NFT_PAYLOAD_NETWORK_HEADER, family.destination, family.size)


def source(family: Family) -> bytes:
    """Return the expression that loads the source of a packet."""
    return payload(NFT_PAYLOAD_NETWORK_HEADER, family.source, family.size)
