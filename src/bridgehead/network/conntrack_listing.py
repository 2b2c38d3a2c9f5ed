"""All that connection tracking knows about each TCP, UDP and SCTP flow. Reads only.

Source: linux/netfilter/nfnetlink_conntrack.h, net/netfilter/nf_conntrack_netlink.c.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final, NamedTuple

from .conntrack import LAYOUTS, Endpoint, FlowSocket
from .inet import PROTOCOL_NAMES
from .netlink_attributes import each_attribute
from .uapi import nf_conntrack_sctp as sctp
from .uapi import nf_conntrack_tcp as tcp
from .uapi.nf_conntrack_common import IPS_ASSURED, IPS_SEEN_REPLY
from .uapi.nfnetlink import NFNL_SUBSYS_CTNETLINK
from .uapi.nfnetlink_conntrack import (
    CTA_COUNTERS_BYTES,
    CTA_COUNTERS_ORIG,
    CTA_COUNTERS_PACKETS,
    CTA_COUNTERS_REPLY,
    CTA_IP_V4_DST,
    CTA_IP_V4_SRC,
    CTA_IP_V6_DST,
    CTA_IP_V6_SRC,
    CTA_MARK,
    CTA_PROTO_DST_PORT,
    CTA_PROTO_NUM,
    CTA_PROTO_SRC_PORT,
    CTA_PROTOINFO,
    CTA_PROTOINFO_SCTP,
    CTA_PROTOINFO_SCTP_STATE,
    CTA_PROTOINFO_TCP,
    CTA_PROTOINFO_TCP_STATE,
    CTA_STATUS,
    CTA_TIMEOUT,
    CTA_TIMESTAMP,
    CTA_TIMESTAMP_START,
    CTA_TUPLE_IP,
    CTA_TUPLE_ORIG,
    CTA_TUPLE_PROTO,
    CTA_TUPLE_REPLY,
    CTA_TUPLE_ZONE,
    CTA_ZONE,
    IPCTNL_MSG_CT_GET,
)

_GET: Final = NFNL_SUBSYS_CTNETLINK << 8 | IPCTNL_MSG_CT_GET
_NANOSECONDS: Final = 1e9

_TCP_STATES: Final = {
    tcp.TCP_CONNTRACK_SYN_SENT: "SYN_SENT",
    tcp.TCP_CONNTRACK_SYN_RECV: "SYN_RECV",
    tcp.TCP_CONNTRACK_ESTABLISHED: "ESTABLISHED",
    tcp.TCP_CONNTRACK_FIN_WAIT: "FIN_WAIT",
    tcp.TCP_CONNTRACK_CLOSE_WAIT: "CLOSE_WAIT",
    tcp.TCP_CONNTRACK_LAST_ACK: "LAST_ACK",
    tcp.TCP_CONNTRACK_TIME_WAIT: "TIME_WAIT",
    tcp.TCP_CONNTRACK_CLOSE: "CLOSE",
    tcp.TCP_CONNTRACK_SYN_SENT2: "SYN_SENT2",
}
_SCTP_STATES: Final = {
    sctp.SCTP_CONNTRACK_CLOSED: "CLOSED",
    sctp.SCTP_CONNTRACK_COOKIE_WAIT: "COOKIE_WAIT",
    sctp.SCTP_CONNTRACK_COOKIE_ECHOED: "COOKIE_ECHOED",
    sctp.SCTP_CONNTRACK_ESTABLISHED: "ESTABLISHED",
    sctp.SCTP_CONNTRACK_SHUTDOWN_SENT: "SHUTDOWN_SENT",
    sctp.SCTP_CONNTRACK_SHUTDOWN_RECD: "SHUTDOWN_RECD",
    sctp.SCTP_CONNTRACK_SHUTDOWN_ACK_SENT: "SHUTDOWN_ACK_SENT",
    sctp.SCTP_CONNTRACK_HEARTBEAT_SENT: "HEARTBEAT_SENT",
}
_STATES: Final = {
    "tcp": (CTA_PROTOINFO_TCP, CTA_PROTOINFO_TCP_STATE, _TCP_STATES),
    "sctp": (CTA_PROTOINFO_SCTP, CTA_PROTOINFO_SCTP_STATE, _SCTP_STATES),
}


class FlowRecord(NamedTuple):
    """A flow. `state`: of TCP and SCTP, as conntrack(8) prints it; "" for UDP.

    `sent`, `replied`: packets and bytes, None where the kernel does not count. `started`: seconds since the epoch, None
    where the kernel does not record it. `timeout`: seconds; None for a flow that hardware or a flow table forwards.
    """

    protocol: str
    source: Endpoint
    destination: Endpoint
    reply_source: Endpoint
    reply_destination: Endpoint
    state: str = ""
    is_assured: bool = False
    is_unreplied: bool = False
    sent: tuple[int, int] | None = None
    replied: tuple[int, int] | None = None
    started: float | None = None
    timeout: int | None = None
    mark: int = 0
    zone: int = 0


def list_flows(most: int) -> tuple[list[FlowRecord], bool]:
    """Return at most `most` flows of the current network namespace, and whether there are more. Raises OSError."""
    flows = FlowSocket()
    found: list[FlowRecord] = []
    try:
        if not flows.count():
            return found, False
        for family in (socket.AF_INET, socket.AF_INET6):
            reader = _Reader(family)
            for message in flows.dump(_GET, family, b""):
                record = reader.read(message)
                if record is not None:
                    if len(found) == most:
                        return found, True
                    found.append(record)
    finally:
        flows.close()
    return found, False


def parse_flow(family: int, attributes: bytes) -> FlowRecord | None:
    """Return the flow of one message without its header; None if fields are missing, or for other protocols."""
    return _Reader(family).read(memoryview(attributes))


class _Reader:
    """Reads the messages of one family. Many flows have the same addresses, so their texts are kept."""

    def __init__(self, family: int) -> None:
        self._family = family
        is_ipv4 = family == socket.AF_INET
        self._source, self._destination = (CTA_IP_V4_SRC, CTA_IP_V4_DST) if is_ipv4 else (CTA_IP_V6_SRC, CTA_IP_V6_DST)
        self._layout = LAYOUTS[family]
        self._texts: dict[bytes, str] = {}

    def read(self, message: memoryview) -> FlowRecord | None:
        """Return a flow; None for other protocols and for a message without one of the fields."""
        layout = self._layout
        if len(message) >= layout.struct.size:
            (
                a, b, c, source, d, destination, e, f, number, g, port, h, destination_port,
                i, j, k, reply_source, m, reply_destination, n, o, _, p, reply_port, q, reply_destination_port,
                r, status,
            ) = layout.struct.unpack_from(message)  # fmt: skip
            if (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r) == layout.headers:
                protocol = PROTOCOL_NAMES.get(number)
                if protocol is None:
                    return None
                rest = dict(each_attribute(message[layout.struct.size :]))
                return self._record(
                    protocol,
                    self._endpoint(source, port),
                    self._endpoint(destination, destination_port),
                    self._endpoint(reply_source, reply_port),
                    self._endpoint(reply_destination, reply_destination_port),
                    int.from_bytes(status),
                    rest,
                    0,
                )
        return self._read_slowly(message)

    def _read_slowly(self, message: memoryview) -> FlowRecord | None:
        """Do the work of `read` for a message with another layout, such as that of a flow in a zone."""
        found = dict(each_attribute(message))
        try:
            original, reply = (dict(each_attribute(found[kind])) for kind in (CTA_TUPLE_ORIG, CTA_TUPLE_REPLY))
            number = dict(each_attribute(original[CTA_TUPLE_PROTO]))[CTA_PROTO_NUM][0]
            if number not in PROTOCOL_NAMES:
                return None
            zone = found.get(CTA_ZONE) or original.get(CTA_TUPLE_ZONE) or reply.get(CTA_TUPLE_ZONE) or b""
            return self._record(
                PROTOCOL_NAMES[number],
                *self._endpoints(original),
                *self._endpoints(reply),
                int.from_bytes(found[CTA_STATUS]),
                found,
                int.from_bytes(zone),
            )
        except (KeyError, IndexError):
            return None

    def _endpoints(self, part: Mapping[int, memoryview]) -> tuple[Endpoint, Endpoint]:
        """Return the source and the destination of a tuple. Raises KeyError."""
        addresses, ports = (dict(each_attribute(part[kind])) for kind in (CTA_TUPLE_IP, CTA_TUPLE_PROTO))
        return (
            self._endpoint(bytes(addresses[self._source]), bytes(ports[CTA_PROTO_SRC_PORT])),
            self._endpoint(bytes(addresses[self._destination]), bytes(ports[CTA_PROTO_DST_PORT])),
        )

    def _endpoint(self, packed: bytes, port: bytes) -> Endpoint:
        text = self._texts.get(packed)
        if text is None:
            text = self._texts[packed] = socket.inet_ntop(self._family, packed)
        return text, int.from_bytes(port)

    @staticmethod
    def _record(
        protocol: str,
        source: Endpoint,
        destination: Endpoint,
        reply_source: Endpoint,
        reply_destination: Endpoint,
        status: int,
        rest: Mapping[int, memoryview],
        zone: int,
    ) -> FlowRecord:
        timeout, mark = rest.get(CTA_TIMEOUT), rest.get(CTA_MARK)
        return FlowRecord(
            protocol,
            source,
            destination,
            reply_source,
            reply_destination,
            _state(protocol, rest.get(CTA_PROTOINFO)),
            bool(status & IPS_ASSURED),
            not status & IPS_SEEN_REPLY,
            _counters(rest.get(CTA_COUNTERS_ORIG)),
            _counters(rest.get(CTA_COUNTERS_REPLY)),
            _started(rest.get(CTA_TIMESTAMP)),
            None if timeout is None else int.from_bytes(timeout),
            0 if mark is None else int.from_bytes(mark),
            zone,
        )


def _state(protocol: str, info: memoryview | None) -> str:
    if info is None or protocol not in _STATES:
        return ""
    kind, state, names = _STATES[protocol]
    nested = dict(each_attribute(info)).get(kind)
    number = None if nested is None else dict(each_attribute(nested)).get(state)
    return "" if number is None else names.get(int.from_bytes(number), "NONE")


def _counters(nested: memoryview | None) -> tuple[int, int] | None:
    if nested is None:
        return None
    found = dict(each_attribute(nested))
    return int.from_bytes(found.get(CTA_COUNTERS_PACKETS, b"")), int.from_bytes(found.get(CTA_COUNTERS_BYTES, b""))


def _started(nested: memoryview | None) -> float | None:
    if nested is None:
        return None
    start = dict(each_attribute(nested)).get(CTA_TIMESTAMP_START)
    return None if start is None else int.from_bytes(start) / _NANOSECONDS
