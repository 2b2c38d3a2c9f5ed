"""A table of nf_tables that traces the packets of one flow, and the kernel's events about them.

`bridgehead trace` has it for the moment of one connection, in the namespace of each node that the connection may pass.
In nft's syntax, for a TCP connection from port 61234 to 10.96.0.10:80:

    table inet bridgehead-trace-61234 {                 # flags owner
        chain prerouting { type filter hook prerouting priority -460;
            ip daddr 10.96.0.10 tcp sport 61234 tcp dport 80 meta nftrace set 1
        }
        chain output { type filter hook output priority -460; the same rule }
        chain prerouting-replies { type filter hook prerouting priority -199;
            ct direction reply meta l4proto tcp ct original proto-src 61234 ct original proto-dst 80 meta nftrace set 1
        }
        chain output-replies { type filter hook output priority -199; the same rule }
    }

On another node the addresses and ports may have been translated already. There, the rule matches bytes of the packet
that its sender chose: the first option of a SYN (its maximum segment size), or the content of a datagram.

The kernel removes the table when its owner ends, however it ends (`flags owner`, Linux 5.12); on older kernels the
constructor raises. Other rules do not change: the kernel reports for a traced packet each rule that matched.
Source: linux/netfilter/nf_tables.h, nf_tables_trace.c.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from .closable import Closable
from .inet import PROTOCOL_NAMES, PROTOCOLS, pack_address
from .netlink_attributes import each_message, parse_attributes, parse_text
from .netlink_socket import NETFILTER_HEADER, NetlinkSocket, Request, open_socket
from .nft_requests import (
    add_base_chain,
    add_rule,
    add_table,
    compare,
    connection_direction,
    constant,
    meta,
    original_port,
    payload,
    remove_table,
    set_meta,
)
from .ruleset_events import FAMILIES
from .uapi import nf_tables as nft
from .uapi.netfilter import (
    NF_INET_LOCAL_OUT,
    NF_INET_PRE_ROUTING,
    NFPROTO_INET,
    NFPROTO_IPV4,
    NFPROTO_IPV6,
)
from .uapi.netfilter_ipv4 import NF_IP_PRI_CONNTRACK, NF_IP_PRI_RAW_BEFORE_DEFRAG
from .uapi.netlink import NETLINK_ADD_MEMBERSHIP, NETLINK_NETFILTER
from .uapi.nfnetlink import NFNL_SUBSYS_NFTABLES, NFNLGRP_NFTRACE
from .uapi.socket import SO_RCVBUFFORCE, SOL_NETLINK

TABLE_PREFIX: Final = "bridgehead-trace-"
VERDICTS: Final = {
    0: "drop",
    1: "accept",
    2: "stolen",
    3: "queue",
    nft.NFT_CONTINUE: "continue",
    nft.NFT_BREAK: "break",
    nft.NFT_JUMP: "jump",
    nft.NFT_GOTO: "goto",
    nft.NFT_RETURN: "return",
}
_NF_VERDICT_MASK: Final = 0xFF  # the other bits of a positive verdict are an error number or a queue

_FIRST: Final = NF_IP_PRI_RAW_BEFORE_DEFRAG - 10  # before every rule of others, also before those of `spoofing`
_AFTER_CONNTRACK: Final = NF_IP_PRI_CONNTRACK + 1
_HOOKS: Final = {"prerouting": NF_INET_PRE_ROUTING, "output": NF_INET_LOCAL_OUT}
_REPLY: Final = b"\x01"  # IP_CT_DIR_REPLY
_ADDRESSES: Final = {4: (12, 16, 4), 6: (8, 24, 16)}  # offsets of source and destination in the header, and the size
_PROTOCOL_OFFSETS: Final = {4: 9, 6: 6}  # IPv6: without extension headers, which no packet of a trace has
_RECEIVE_BYTES: Final = 1 << 17
_BUFFER_BYTES: Final = 1 << 21
_MOST_EVENTS: Final = 20_000
_LOOK_SECONDS: Final = 0.01
_IDLE_SECONDS: Final = 0.05


class Flow(msgspec.Struct, frozen=True, kw_only=True):
    """The packets to be traced. `name`: distinguishes tables of several traces.

    With `source_port`, those from this port to `address` and `port`, and the replies to them. Otherwise those whose
    bytes at `offset` of the transport header are `marker`; `address` only gives the family.
    """

    name: str
    protocol: str  # tcp, udp, sctp
    address: str
    port: int = 0
    source_port: int = 0
    offset: int = 0
    marker: bytes = b""

    @property
    def table(self) -> str:
        return TABLE_PREFIX + self.name


class Header(msgspec.Struct, frozen=True):
    """Addresses and ports of a packet. `protocol`: tcp, udp, sctp, or the number as text."""

    protocol: str
    source: str
    source_port: int
    destination: str
    destination_port: int


class TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a traced packet matched, or the end of a chain.

    `packet`: the same for all events of a packet in one namespace. `kind`: rule, return (from a chain) or policy (of
    a base chain). `handle`: the rule's in its table, 0 unless `kind` is rule. `verdict`: one of VERDICTS; `target`: the
    chain of a jump or goto. `header`: only with the first event of a base chain, as the packet was then. `interfaces`:
    the indexes of the incoming and the outgoing one, 0 if there is none yet.
    """

    packet: int
    family: str
    table: str
    chain: str
    kind: str
    handle: int = 0
    verdict: str = ""
    target: str = ""
    header: Header | None = None
    interfaces: tuple[int, int] = (0, 0)
    mark: int = 0


class FlowTrace(Closable):
    """The table, and a socket that receives the events from then on, in the current network namespace.

    Raises OSError: with EOPNOTSUPP or EINVAL from a kernel that cannot remove the table with its owner.
    """

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._events = open_socket(NETLINK_NETFILTER)
        try:
            self._events.bind((0, 0))
            with contextlib.suppress(PermissionError):  # in a user namespace the default size must do
                self._events.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, _BUFFER_BYTES)
            self._events.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, NFNLGRP_NFTRACE)
            self._events.setblocking(False)
            self._owner = NetlinkSocket(NETLINK_NETFILTER)
        except OSError:
            self._events.close()
            raise
        try:
            self._owner.transact(NFNL_SUBSYS_NFTABLES, list(_requests(flow)))
        except OSError:
            self._owner.close()
            self._events.close()
            raise

    def close(self) -> None:
        with contextlib.suppress(OSError):  # somebody may have flushed the ruleset
            remove_table(self._owner, NFPROTO_INET, self._flow.table)
        self._owner.close()  # the kernel removes the table now at the latest
        self._events.close()

    def collect(self, seconds: float, is_over: Callable[[], bool] = lambda: False) -> list[TraceEvent]:
        """Return the events of the next `seconds`, or of less: until none comes for 50 ms after `is_over`.

        Events of other traces in the namespace are among them. Lost ones are left out.
        """
        found: list[TraceEvent] = []
        deadline = time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._events, select.POLLIN)
        idle = 0.0
        while time.monotonic() < deadline and len(found) < _MOST_EVENTS and idle < _IDLE_SECONDS:
            was_over = is_over()
            if not poll.poll(_LOOK_SECONDS * 1000):
                idle += _LOOK_SECONDS if was_over else 0.0
                continue
            idle = 0.0
            try:
                data = self._events.recv(_RECEIVE_BYTES)
            except OSError as error:
                if error.errno not in (errno.ENOBUFS, errno.EAGAIN):
                    raise
                continue
            found += parse_events(data)
        return found


def _requests(flow: Flow) -> Iterator[Request]:
    yield add_table(NFPROTO_INET, flow.table, is_owned=True)
    for chain, hook in _HOOKS.items():
        yield add_base_chain(NFPROTO_INET, flow.table, chain, hook, _FIRST)
        yield add_rule(NFPROTO_INET, flow.table, chain, _match(flow) + _trace())
        if flow.source_port:
            replies = f"{chain}-replies"
            yield add_base_chain(NFPROTO_INET, flow.table, replies, hook, _AFTER_CONNTRACK)
            yield add_rule(NFPROTO_INET, flow.table, replies, _match_replies(flow) + _trace())


def _trace() -> bytes:
    return constant(b"\x01") + set_meta(nft.NFT_META_NFTRACE)


def _protocol(flow: Flow) -> bytes:
    number = NFPROTO_IPV6 if ":" in flow.address else NFPROTO_IPV4
    return (
        meta(nft.NFT_META_NFPROTO)
        + compare(bytes([number]))
        + meta(nft.NFT_META_L4PROTO)
        + compare(bytes([PROTOCOLS[flow.protocol]]))
    )


def _match(flow: Flow) -> bytes:
    if not flow.source_port:
        marker = payload(nft.NFT_PAYLOAD_TRANSPORT_HEADER, flow.offset, len(flow.marker)) + compare(flow.marker)
        return _protocol(flow) + marker
    _, offset, size = _ADDRESSES[6 if ":" in flow.address else 4]
    return (
        _protocol(flow)
        + payload(nft.NFT_PAYLOAD_NETWORK_HEADER, offset, size)
        + compare(pack_address(flow.address)[2])
        + payload(nft.NFT_PAYLOAD_TRANSPORT_HEADER, 0, 4)
        + compare(struct.pack("!HH", flow.source_port, flow.port))
    )


def _match_replies(flow: Flow) -> bytes:
    return (
        connection_direction()
        + compare(_REPLY)
        + _protocol(flow)
        + original_port(nft.NFT_CT_PROTO_SRC)
        + compare(struct.pack("!H", flow.source_port))
        + original_port(nft.NFT_CT_PROTO_DST)
        + compare(struct.pack("!H", flow.port))
    )


# --- Events ------------------------------------------------------------------------------------------------------


def parse_events(data: bytes) -> Iterator[TraceEvent]:
    """Yield the trace events of one datagram of the group NFNLGRP_NFTRACE."""
    for kind, _, _, body in each_message(data):
        if kind != (NFNL_SUBSYS_NFTABLES << 8 | nft.NFT_MSG_TRACE) or len(body) < NETFILTER_HEADER.size:
            continue
        found = parse_attributes(body[NETFILTER_HEADER.size :])
        number = int.from_bytes(found.get(nft.NFTA_TRACE_TYPE, b""))
        name = {nft.NFT_TRACETYPE_POLICY: "policy", nft.NFT_TRACETYPE_RETURN: "return"}.get(number, "rule")
        verdict, target = _verdict(found, is_policy=name == "policy")
        yield TraceEvent(
            packet=int.from_bytes(found.get(nft.NFTA_TRACE_ID, b"")),
            family=FAMILIES.get(body[0], str(body[0])),
            table=parse_text(found.get(nft.NFTA_TRACE_TABLE, b"")),
            chain=parse_text(found.get(nft.NFTA_TRACE_CHAIN, b"")),
            kind=name,
            handle=int.from_bytes(found.get(nft.NFTA_TRACE_RULE_HANDLE, b"")),
            verdict=verdict,
            target=target,
            header=parse_header(
                found.get(nft.NFTA_TRACE_NETWORK_HEADER, b""), found.get(nft.NFTA_TRACE_TRANSPORT_HEADER, b"")
            ),
            interfaces=(
                int.from_bytes(found.get(nft.NFTA_TRACE_IIF, b"")),
                int.from_bytes(found.get(nft.NFTA_TRACE_OIF, b"")),
            ),
            mark=int.from_bytes(found.get(nft.NFTA_TRACE_MARK, b"")),
        )


def _verdict(found: dict[int, bytes], *, is_policy: bool) -> tuple[str, str]:
    if is_policy:
        code, target = int.from_bytes(found.get(nft.NFTA_TRACE_POLICY, b""), signed=True), b""
    else:
        nested = parse_attributes(found.get(nft.NFTA_TRACE_VERDICT, b""))
        code = int.from_bytes(nested.get(nft.NFTA_VERDICT_CODE, b""), signed=True)
        target = nested.get(nft.NFTA_VERDICT_CHAIN, b"")
    return VERDICTS.get(code if code < 0 else code & _NF_VERDICT_MASK, str(code)), parse_text(target)


def parse_header(network: bytes, transport: bytes) -> Header | None:
    """Return the addresses and ports of a packet; None if there is too little of it."""
    version = network[0] >> 4 if network else 0
    if version not in _ADDRESSES:
        return None
    source, destination, size = _ADDRESSES[version]
    if len(network) < destination + size:
        return None
    family = socket.AF_INET6 if version == 6 else socket.AF_INET
    number = network[_PROTOCOL_OFFSETS[version]]
    has_ports = number in PROTOCOL_NAMES and len(transport) >= 4
    ports = struct.unpack_from("!HH", transport) if has_ports else (0, 0)
    return Header(
        PROTOCOL_NAMES.get(number, str(number)),
        socket.inet_ntop(family, network[source : source + size]),
        ports[0],
        socket.inet_ntop(family, network[destination : destination + size]),
        ports[1],
    )
