"""The kernel's connection tracking: lists flows and removes single ones. `proxy/conntrack/` decides which.

A node may have a quarter of a million flows, so each message is read by a fixed layout where it has that. The kernel
walks its whole table for each query; CTA_FILTER (Linux 5.8) and CTA_STATUS_MASK (2021) have it return only flows that
match. Older kernels return more, so callers check each flow. Source: linux/netfilter/nfnetlink_conntrack.h,
net/netfilter/nf_conntrack_netlink.c.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from .closable import Closable
from .inet import PROTOCOLS, address_family
from .netlink_attributes import (
    ATTRIBUTE_HEADER,
    MESSAGE_HEADER,
    aligned,
    attribute,
    be16,
    be32,
    each_attribute,
    each_message,
    nest,
    u32,
)
from .netlink_socket import NETFILTER_HEADER, TIMEOUT_SECONDS, netfilter_header, open_socket
from .uapi.netlink import (
    NETLINK_NETFILTER,
    NLA_F_NESTED,
    NLA_TYPE_MASK,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
)
from .uapi.nf_conntrack_common import IPS_SEEN_REPLY
from .uapi.nf_conntrack_sctp import SCTP_CONNTRACK_CLOSED
from .uapi.nf_internals import (
    CTA_FILTER_F_CTA_IP_DST,
    CTA_FILTER_F_CTA_IP_SRC,
    CTA_FILTER_F_CTA_PROTO_DST_PORT,
    CTA_FILTER_F_CTA_PROTO_NUM,
    CTA_FILTER_F_CTA_PROTO_SRC_PORT,
)
from .uapi.nfnetlink import NFNL_SUBSYS_CTNETLINK
from .uapi.nfnetlink_conntrack import (
    CTA_FILTER,
    CTA_FILTER_ORIG_FLAGS,
    CTA_FILTER_REPLY_FLAGS,
    CTA_ID,
    CTA_IP_V4_DST,
    CTA_IP_V4_SRC,
    CTA_IP_V6_DST,
    CTA_IP_V6_SRC,
    CTA_PROTO_DST_PORT,
    CTA_PROTO_NUM,
    CTA_PROTO_SRC_PORT,
    CTA_PROTOINFO,
    CTA_PROTOINFO_SCTP,
    CTA_PROTOINFO_SCTP_STATE,
    CTA_STATS_GLOBAL_ENTRIES,
    CTA_STATUS,
    CTA_STATUS_MASK,
    CTA_TUPLE_IP,
    CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO,
    CTA_TUPLE_REPLY,
    CTA_TUPLE_ZONE,
    CTA_ZONE,
    IPCTNL_MSG_CT_DELETE,
    IPCTNL_MSG_CT_GET,
    IPCTNL_MSG_CT_GET_STATS,
)

_GET: Final = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET
_GET_STATS: Final = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET_STATS
_DELETE: Final = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_DELETE

_CTA_IP_SRC: Final[dict[int, int]] = {socket.AF_INET: CTA_IP_V4_SRC, socket.AF_INET6: CTA_IP_V6_SRC}
_CTA_IP_DST: Final[dict[int, int]] = {socket.AF_INET: CTA_IP_V4_DST, socket.AF_INET6: CTA_IP_V6_DST}

_DELETIONS_AT_ONCE: Final = 64  # in one datagram; the kernel answers only those that fail, and the last one
_RECEIVE_BYTES: Final = 1 << 15  # the kernel's largest message of a dump (netlink_recvmsg)
_FEW_FLOWS: Final = 256  # so few that reading all of them costs less than a walk of the kernel through its table
_MOST_VERDICTS: Final = 10_000  # kept of distinct flows; a node with clients everywhere has more distinct flows

Endpoint = tuple[str, int]  # canonical address, port
ANYWHERE: Final[Endpoint] = ("", 0)


class Flow(NamedTuple):
    """The destination of a flow's first packet, and the source of its replies (`reply_source`).

    The two differ when the destination was translated (DNAT). `is_established`: a reply was seen and, with SCTP, the
    association has not been closed. `zone`: the conntrack zone, 0 by default.
    """

    destination: Endpoint
    reply_source: Endpoint
    is_established: bool
    zone: int = 0


class Conntrack(Closable):
    """The flows of the network namespace in which it was made. For one thread at a time.

    A query has an IP family (4 or 6), a protocol (tcp, udp, sctp), the original destination and the source of the
    replies (address "" and port 0: any), and whether to return only flows without a reply. Kernels may return more than
    matches. Methods block, and raise OSError.
    """

    def __init__(self) -> None:
        self._reading, self._deleting = FlowSocket(), FlowSocket()
        self._is_sharing = False
        self._shared: list[bytes] | None = None  # all flows, as the kernel describes them

    def close(self) -> None:
        self._reading.close()
        self._deleting.close()

    @contextlib.contextmanager
    def one_walk(self) -> Iterator[None]:
        """Let the queries of the block share one walk through the kernel's table, where the namespace has few flows.

        The table is the machine's. A namespace among many pays for its size with each query, however few flows it has.
        """
        self._is_sharing = True
        try:
            yield
        finally:
            self._is_sharing, self._shared = False, None

    def find(
        self,
        family: int,
        protocol: str,
        destination: Endpoint = ANYWHERE,
        reply_source: Endpoint = ANYWHERE,
        is_unanswered: bool = False,
    ) -> Iterator[tuple[Flow, bytes]]:
        """Yield flows, each with its identity, which a later flow with the same addresses does not have."""
        af = address_family(family)
        for message in self._dump(af, protocol, destination, reply_source, is_unanswered):
            found = _read(af, message, protocol)
            if found is not None:
                yield _parse_flow(af, found), _identity(message)

    def remove(
        self,
        family: int,
        protocol: str,
        destination: Endpoint = ANYWHERE,
        reply_source: Endpoint = ANYWHERE,
        is_unanswered: bool = False,
        *,
        is_stale: Callable[[Flow], bool],
    ) -> int:
        """Remove the flows for which `is_stale` returns True, and return their number.

        `is_stale` is called once for many equal flows. A flow that ended in the meantime, or was made anew, is left.
        """
        af = address_family(family)
        verdicts: dict[_Raw, bool] = {}
        stale: list[bytes] = []
        removed = 0
        for message in self._dump(af, protocol, destination, reply_source, is_unanswered):
            raw = _read(af, message, protocol)
            if raw is None:
                continue
            verdict = verdicts.get(raw)
            if verdict is None:
                if len(verdicts) == _MOST_VERDICTS:
                    verdicts.clear()
                verdict = verdicts[raw] = is_stale(_parse_flow(af, raw))
            if verdict:
                stale.append(_identity(message))
                if len(stale) == _DELETIONS_AT_ONCE:
                    removed += self._deleting.delete(af, stale)
                    stale.clear()
        return removed + self._deleting.delete(af, stale)

    def _dump(
        self, af: int, protocol: str, destination: Endpoint, reply_source: Endpoint, is_unanswered: bool
    ) -> Iterator[memoryview]:
        if self._shared is not None:
            return map(memoryview, self._shared)
        count = self._reading.count()
        if not count:
            return iter(())  # a walk through the machine's empty table takes several milliseconds
        if self._is_sharing and count <= _FEW_FLOWS:
            self._shared = [bytes(message) for message in self._reading.dump(_GET, socket.AF_UNSPEC, b"")]
            return map(memoryview, self._shared)
        original, original_flags = _match(CTA_TUPLE_ORIG, af, protocol, destination)
        reply, reply_flags = _match(CTA_TUPLE_REPLY, af, protocol, reply_source)
        flags = u32(CTA_FILTER_ORIG_FLAGS, original_flags) + u32(CTA_FILTER_REPLY_FLAGS, reply_flags)
        body = original + reply + nest(CTA_FILTER, flags)
        if is_unanswered:
            body += be32(CTA_STATUS, 0) + be32(CTA_STATUS_MASK, IPS_SEEN_REPLY)
        return self._reading.dump(_GET, af, body)


def _match(tuple_kind: int, af: int, protocol: str, endpoint: Endpoint) -> tuple[bytes, int]:
    """Return the tuple that flows must have in one direction, and which parts of it count (CTA_FILTER_F_*).

    The endpoint is the destination of an original tuple, and the source of a reply's.
    """
    address, port = endpoint
    is_reply = tuple_kind == CTA_TUPLE_REPLY
    flags = CTA_FILTER_F_CTA_PROTO_NUM
    ip, ports = b"", attribute(CTA_PROTO_NUM, struct.pack("B", PROTOCOLS[protocol]))
    if port:
        flags |= CTA_FILTER_F_CTA_PROTO_SRC_PORT if is_reply else CTA_FILTER_F_CTA_PROTO_DST_PORT
        ports += be16(CTA_PROTO_SRC_PORT if is_reply else CTA_PROTO_DST_PORT, port)
    if address and af == socket.AF_INET:  # by an IPv6 address, kernels return every flow that does not match
        flags |= CTA_FILTER_F_CTA_IP_SRC if is_reply else CTA_FILTER_F_CTA_IP_DST
        kind = (_CTA_IP_SRC if is_reply else _CTA_IP_DST)[af]
        ip = nest(CTA_TUPLE_IP, attribute(kind, socket.inet_pton(af, address)))
    return nest(tuple_kind, ip + nest(CTA_TUPLE_PROTO, ports)), flags


class FlowSocket:
    """A socket for dumps of many flows and for deletions, one operation at a time. Methods raise OSError."""

    def __init__(self) -> None:
        self._socket = open_socket(NETLINK_NETFILTER)
        self._socket.settimeout(TIMEOUT_SECONDS)
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def count(self) -> int:
        """Return the number of flows in the network namespace, of all families and protocols."""
        self._socket.send(self._encode(_GET_STATS, 0, socket.AF_UNSPEC, b""))
        while True:
            for answer, _, sequence, payload in each_message(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:  # of an earlier dump that was not read to its end
                    continue
                if answer == NLMSG_ERROR:
                    (number,) = struct.unpack_from("=i", payload)
                    raise _error(-number)
                attributes = dict(each_attribute(memoryview(payload)[NETFILTER_HEADER.size :]))
                return int.from_bytes(attributes[CTA_STATS_GLOBAL_ENTRIES], "big")

    def dump(self, kind: int, af: int, body: bytes) -> Iterator[memoryview]:
        """Yield the attributes of each answer, which are valid until the next one is taken."""
        self._socket.send(self._encode(kind, NLM_F_DUMP, af, body))
        buffer = bytearray(_RECEIVE_BYTES)
        view = memoryview(buffer).toreadonly()
        while True:
            size = self._socket.recv_into(buffer)
            offset = 0
            while offset < size:
                length, answer, _, sequence, _ = MESSAGE_HEADER.unpack_from(buffer, offset)
                if sequence == self._sequence:
                    if answer == NLMSG_DONE:
                        return
                    if answer == NLMSG_ERROR:
                        (number,) = struct.unpack_from("=i", buffer, offset + MESSAGE_HEADER.size)
                        if number:
                            raise _error(-number)
                        return
                    yield view[offset + MESSAGE_HEADER.size + NETFILTER_HEADER.size : offset + length]
                offset += max(aligned(length), MESSAGE_HEADER.size)

    def delete(self, af: int, identities: Sequence[bytes]) -> int:
        """Delete flows with one datagram, and return how many of them still existed."""
        if not identities:
            return 0
        first = self._sequence + 1
        last = len(identities) - 1
        self._socket.send(
            b"".join(
                self._encode(_DELETE, NLM_F_ACK if index == last else 0, af, identity)
                for index, identity in enumerate(identities)
            )
        )
        removed = len(identities)
        while True:
            for answer, _, sequence, payload in each_message(self._socket.recv(_RECEIVE_BYTES)):
                if answer == NLMSG_ERROR and sequence >= first:
                    (number,) = struct.unpack_from("=i", payload)
                    if -number == errno.ENOENT:
                        removed -= 1
                    elif number:
                        raise _error(-number)
                    if sequence == self._sequence:
                        return removed

    def _encode(self, kind: int, flags: int, af: int, body: bytes) -> bytes:
        self._sequence += 1
        payload = netfilter_header(af) + body
        length = MESSAGE_HEADER.size + len(payload)
        return MESSAGE_HEADER.pack(length, kind, NLM_F_REQUEST | flags, self._sequence, 0) + payload


def _error(number: int) -> OSError:
    if number == errno.EPERM:
        return PermissionError(number, "may not see this network namespace's connections: CAP_NET_ADMIN is needed")
    return OSError(number, f"connection tracking: {os.strerror(number)}")


# --- Reading flows ----------------------------------------------------------------------------------------------
# The fields of a Flow are cut out of each message as bytes. Equal ones are decoded, and decided upon, once.

_Raw = tuple[bytes, bytes, bytes, bytes, int, int]  # destination, its port, source of replies, its port, status, zone


class _Layout:
    """The layout of a family's messages, as every kernel so far has written them."""

    def __init__(self, address_size: int, source_kind: int, destination_kind: int) -> None:
        ip_size = 4 + 2 * (4 + address_size)
        proto_size = 4 + 8 + 8 + 8
        tuple_size = 4 + ip_size + proto_size
        nested = NLA_F_NESTED << 16
        # The header of each attribute (length and type) as one 32-bit number.
        in_tuple = (
            ip_size | CTA_TUPLE_IP << 16 | nested,
            (4 + address_size) | source_kind << 16,
            (4 + address_size) | destination_kind << 16,
            proto_size | CTA_TUPLE_PROTO << 16 | nested,
            5 | CTA_PROTO_NUM << 16,
            6 | CTA_PROTO_SRC_PORT << 16,
            6 | CTA_PROTO_DST_PORT << 16,
        )
        self.headers = (
            tuple_size | CTA_TUPLE_ORIG << 16 | nested, *in_tuple,
            tuple_size | CTA_TUPLE_REPLY << 16 | nested, *in_tuple,
            8 | CTA_STATUS << 16,
        )  # fmt: skip
        tuple_format = f"II{address_size}sI{address_size}sIIB3xI2s2xI2s2x"
        self.struct = struct.Struct(f"=I{tuple_format}I{tuple_format}I4s")


LAYOUTS: Final[dict[int, _Layout]] = {
    socket.AF_INET: _Layout(4, CTA_IP_V4_SRC, CTA_IP_V4_DST),
    socket.AF_INET6: _Layout(16, CTA_IP_V6_SRC, CTA_IP_V6_DST),
}


def _read(af: int, message: memoryview, protocol: str) -> _Raw | None:
    """Return the fields of a flow; None for another protocol, and for a message without one of the fields."""
    layout = LAYOUTS[af]
    if len(message) >= layout.struct.size and protocol != "sctp":
        (
            a, b, c, _, d, address, e, f, number, g, _, h, port,
            i, j, k, reply_source, m, _, n, o, _, p, reply_port, q, _, r, status,
        ) = layout.struct.unpack_from(message)  # fmt: skip
        if (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r) == layout.headers:
            if number != PROTOCOLS[protocol]:
                return None
            return address, port, reply_source, reply_port, int.from_bytes(status) & IPS_SEEN_REPLY, 0
    return _read_slowly(af, message, protocol)


def _read_slowly(af: int, message: memoryview, protocol: str) -> _Raw | None:
    """Do the work of `_read` for a message with another layout, such as that of a flow in a zone, and for SCTP."""
    found = dict(each_attribute(message))
    try:
        original, reply = (dict(each_attribute(found[kind])) for kind in (CTA_TUPLE_ORIG, CTA_TUPLE_REPLY))
        numbers, reply_numbers = (dict(each_attribute(part[CTA_TUPLE_PROTO])) for part in (original, reply))
        if numbers[CTA_PROTO_NUM][0] != PROTOCOLS[protocol]:
            return None
        # A zone may be that of one direction only.
        zone = found.get(CTA_ZONE) or original.get(CTA_TUPLE_ZONE) or reply.get(CTA_TUPLE_ZONE) or b""
        return (
            bytes(dict(each_attribute(original[CTA_TUPLE_IP]))[_CTA_IP_DST[af]]),
            bytes(numbers[CTA_PROTO_DST_PORT]),
            bytes(dict(each_attribute(reply[CTA_TUPLE_IP]))[_CTA_IP_SRC[af]]),
            bytes(reply_numbers[CTA_PROTO_SRC_PORT]),
            0 if _is_closed(found) else int.from_bytes(found[CTA_STATUS]) & IPS_SEEN_REPLY,
            int.from_bytes(zone),
        )
    except KeyError:
        return None


def _is_closed(attributes: Mapping[int, memoryview]) -> bool:
    """Return whether a flow is of SCTP, and its association has ended; a new one may begin between the same ports."""
    absent = memoryview(b"")
    protocol = dict(each_attribute(attributes.get(CTA_PROTOINFO, absent)))
    association = dict(each_attribute(protocol.get(CTA_PROTOINFO_SCTP, absent)))
    return int.from_bytes(association.get(CTA_PROTOINFO_SCTP_STATE, absent)) == SCTP_CONNTRACK_CLOSED


def _parse_flow(af: int, raw: _Raw) -> Flow:
    address, port, reply_source, reply_port, status, zone = raw
    return Flow(
        (socket.inet_ntop(af, address), int.from_bytes(port)),
        (socket.inet_ntop(af, reply_source), int.from_bytes(reply_port)),
        bool(status & IPS_SEEN_REPLY),
        zone,
    )


def _identity(message: memoryview) -> bytes:
    """Return the attributes that name a flow to the kernel. No two flows that exist at once have the same CTA_ID."""
    found = b""
    offset = 0
    while offset + ATTRIBUTE_HEADER.size <= len(message):
        length, kind = ATTRIBUTE_HEADER.unpack_from(message, offset)
        size = max(aligned(length), ATTRIBUTE_HEADER.size)
        if kind & NLA_TYPE_MASK in (CTA_TUPLE_ORIG, CTA_ID, CTA_ZONE):
            found += message[offset : offset + size]
        offset += size
    return found
