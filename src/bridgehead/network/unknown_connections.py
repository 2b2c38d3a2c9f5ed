"""Expressions and requests that the tables of `handover_tables` and `connection_search` share: for unknown connections.

Their packets are TCP and begin no connection, and the node's connection tracking does not know the connection that they
belong to: it is another node's, because packets to an address come here now that went to that node before. In nft's
syntax they match

    meta l4proto tcp tcp flags & syn == 0 ct state new              # NEW
    meta l4proto tcp tcp flags & syn == 0 ct state invalid          # INVALID

Connection tracking begins with any packet of a connection (`nf_conntrack_tcp_loose`, on by default) but the last ones,
which are invalid. All packets of a connection with the addresses and ports of one that ended here are invalid, too: the
kernel remembers that for two minutes, and clients use ports again. Other invalid packets are outside of the window of a
connection that is open here, and another node would answer them with a reset that the client accepts. A copy is
therefore marked by its TTL, and a node that does not know its connection drops it. Clients' systems begin with 64 or
128; no other mark survives between nodes without a change that the pod sees.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from ipaddress import IPv4Address, IPv6Address
from typing import Final, NamedTuple

from .netlink_socket import Request
from .nft_requests import (
    add_element,
    compare,
    connection_state,
    constant,
    delete_element,
    masked,
    meta,
    payload,
    set_payload,
)
from .uapi.netfilter import NFPROTO_IPV4, NFPROTO_IPV6
from .uapi.nf_conntrack_common import IP_CT_NEW, NF_CT_STATE_INVALID_BIT
from .uapi.nf_tables import (
    NFT_CMP_GTE,
    NFT_CMP_NEQ,
    NFT_META_L4PROTO,
    NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER,
)
from .uapi.nft_datatype import TYPE_IP6ADDR, TYPE_IPADDR
from .uapi.tcp import TH_SYN

_TCP_FLAGS: Final = 13  # offset in the header of TCP
_COPIED: Final = bytes([255])  # TTL of copies before the kernel decrements it
_LEAST_COPIED: Final = 240
_NEW: Final = 1 << (IP_CT_NEW + 1)  # NF_CT_STATE_BIT of the header


Address = IPv4Address | IPv6Address


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


def _without_syn(state: int) -> bytes:
    """Match TCP packets of a state of connection tracking that begin no connection."""
    return (
        meta(NFT_META_L4PROTO)
        + compare(bytes([socket.IPPROTO_TCP]))
        + payload(NFT_PAYLOAD_TRANSPORT_HEADER, _TCP_FLAGS, 1)
        + masked(bytes([TH_SYN]))
        + compare(bytes(1))
        + connection_state()
        + masked(struct.pack("=I", state))
        + compare(bytes(4), NFT_CMP_NEQ)
    )


# Each one is for a rule of its own.
NEW: Final = _without_syn(_NEW)
INVALID: Final = _without_syn(NF_CT_STATE_INVALID_BIT)


def is_copy(family: Family) -> bytes:
    """Match marked copies."""
    return payload(NFT_PAYLOAD_NETWORK_HEADER, family.hop_limit, 1) + compare(bytes([_LEAST_COPIED]), NFT_CMP_GTE)


def mark_copy(family: Family) -> bytes:
    """Mark the packet, of which a copy is made next."""
    return constant(_COPIED) + set_payload(NFT_PAYLOAD_NETWORK_HEADER, family.hop_limit, 1)


def destination(family: Family) -> bytes:
    """Return the expression that loads the destination of a packet."""
    return payload(NFT_PAYLOAD_NETWORK_HEADER, family.destination, family.size)


def source(family: Family) -> bytes:
    """Return the expression that loads the source of a packet."""
    return payload(NFT_PAYLOAD_NETWORK_HEADER, family.source, family.size)


def element_changes(
    table: str, name: str, old: Mapping[Address, bytes], new: Mapping[Address, bytes]
) -> Iterator[Request]:
    """Yield the requests that make the elements of a map `new` of `old`; of a set, if all values are empty."""
    for address in {address for address, _ in old.items() ^ new.items()}:
        number = (IPV4 if address.version == 4 else IPV6).number
        if address in old:
            yield delete_element(number, table, name, address.packed)
        if address in new:
            yield add_element(number, table, name, address.packed, new[address])
