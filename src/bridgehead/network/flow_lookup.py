"""Looks up one flow in connection tracking: the addresses to which its packets are translated, and back.

The kernel finds the flow by its hash, whatever their number. Source: linux/netfilter/nfnetlink_conntrack.h.
"""

from __future__ import annotations

import errno
import socket
import struct
from typing import Final

import msgspec

from .conntrack import Endpoint
from .conntrack_listing import parse_flow
from .inet import PROTOCOLS, pack_address
from .netlink_attributes import attribute, be16, nest
from .netlink_socket import NETFILTER_HEADER, NetlinkSocket, Request, netfilter_header
from .uapi import nfnetlink_conntrack as ct
from .uapi.netlink import NETLINK_NETFILTER
from .uapi.nfnetlink import NFNL_SUBSYS_CTNETLINK

_GET: Final = NFNL_SUBSYS_CTNETLINK << 8 | ct.IPCTNL_MSG_CT_GET
_SOURCES: Final = {socket.AF_INET: ct.CTA_IP_V4_SRC, socket.AF_INET6: ct.CTA_IP_V6_SRC}
_DESTINATIONS: Final = {socket.AF_INET: ct.CTA_IP_V4_DST, socket.AF_INET6: ct.CTA_IP_V6_DST}


class FlowTuple(msgspec.Struct, frozen=True):
    """The addresses of a flow's first packet."""

    protocol: str  # tcp, udp, sctp
    source: Endpoint
    destination: Endpoint


class TrackedFlow(msgspec.Struct, frozen=True):
    """`reply_source`: where the packets go after translation. `reply_destination`: whom the receiver takes for the
    sender, ("", 0) if unknown. `has_reply`: a reply was seen.
    """

    reply_source: Endpoint
    reply_destination: Endpoint
    has_reply: bool


def find_flow(wanted: FlowTuple) -> TrackedFlow | None:
    """Return the flow as the current network namespace tracks it, None if it does not. Raises OSError."""
    family, _, source = pack_address(wanted.source[0])
    _, _, destination = pack_address(wanted.destination[0])
    addresses = attribute(_SOURCES[socket.AddressFamily(family)], source)
    addresses += attribute(_DESTINATIONS[socket.AddressFamily(family)], destination)
    ports = attribute(ct.CTA_PROTO_NUM, struct.pack("B", PROTOCOLS[wanted.protocol]))
    ports += be16(ct.CTA_PROTO_SRC_PORT, wanted.source[1]) + be16(ct.CTA_PROTO_DST_PORT, wanted.destination[1])
    body = nest(ct.CTA_TUPLE_ORIG, nest(ct.CTA_TUPLE_IP, addresses) + nest(ct.CTA_TUPLE_PROTO, ports))
    request = Request(_GET, 0, netfilter_header(family) + body, "look up a flow", frozenset((errno.ENOENT,)))
    with NetlinkSocket(NETLINK_NETFILTER) as netlink:
        answer = netlink.ask(request)
    if answer is None:
        return None
    found = parse_flow(family, answer[NETFILTER_HEADER.size :])
    if found is None:
        raise OSError(errno.EPROTO, "the kernel did not report the flow's addresses")
    return TrackedFlow(found.reply_source, found.reply_destination, not found.is_unreplied)
