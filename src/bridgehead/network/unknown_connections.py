"""Expressions that match packets of unknown TCP connections, for the tables of `handover` and `connection_search`.

Those begin no connection, and the node's connection tracking does not know the connection that they belong to: it is
another node's, because packets to an address come here now that went to that node before.
"""

from __future__ import annotations

import socket
import struct
from typing import Final, NamedTuple

from .nft_requests import compare, connection_state, masked, meta, payload
from .uapi.netfilter import NFPROTO_IPV4, NFPROTO_IPV6
from .uapi.nf_conntrack_common import IP_CT_NEW, NF_CT_STATE_INVALID_BIT
from .uapi.nf_tables import (
    NFT_CMP_NEQ,
    NFT_META_L4PROTO,
    NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER,
)
from .uapi.nft_datatype import TYPE_IP6ADDR, TYPE_IPADDR
from .uapi.tcp import TH_SYN

_TCP_FLAGS: Final = 13  # offset in the header of TCP
# NF_CT_STATE_BIT of the header. Whether a packet in the middle of a connection is new or invalid depends on a sysctl.
_UNKNOWN_STATES: Final = (1 << (IP_CT_NEW + 1)) | NF_CT_STATE_INVALID_BIT


class Family(NamedTuple):
    """An IP family: NFPROTO_*, the type of its addresses, their length.

    `destination`, `hop_limit`: offsets of the destination and of the TTL or hop limit in the header.
    """

    number: int
    kind: int
    size: int
    destination: int
    hop_limit: int


IPV4: Final = Family(NFPROTO_IPV4, TYPE_IPADDR, 4, 16, 8)
IPV6: Final = Family(NFPROTO_IPV6, TYPE_IP6ADDR, 16, 24, 7)
# nft: meta l4proto tcp tcp flags & syn == 0 ct state invalid,new
IS_UNKNOWN: Final = (
    meta(NFT_META_L4PROTO)
    + compare(bytes([socket.IPPROTO_TCP]))
    + payload(NFT_PAYLOAD_TRANSPORT_HEADER, _TCP_FLAGS, 1)
    + masked(bytes([TH_SYN]))
    + compare(bytes(1))
    + connection_state()
    + masked(struct.pack("=I", _UNKNOWN_STATES))
    + compare(bytes(4), NFT_CMP_NEQ)
)


def destination(family: Family) -> bytes:
    """Return the expression that loads the destination of a packet."""
    return payload(NFT_PAYLOAD_NETWORK_HEADER, family.destination, family.size)
