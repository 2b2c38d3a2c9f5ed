"""The kernel's connection tracking: lists UDP flows and removes single ones. The edge; `proxy/conntrack.py` decides.

Encoded by hand, as in `rtnetlink`: pyroute2 decodes every attribute of every flow, and there may be a quarter of a
million. The kernel is told to leave out what was not asked for (CTA_FILTER, Linux 5.8; an older one sends more, and the
caller looks anyway). Source: linux/netfilter/nfnetlink_conntrack.h, net/netfilter/nf_conntrack_netlink.c.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, NamedTuple, Self

_NETLINK_NETFILTER: Final = 12
_GET, _DELETE = (1 << 8) | 1, (1 << 8) | 2  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_*
_REQUEST, _ACK, _DUMP = 0x1, 0x4, 0x300
_ERROR, _DONE = 2, 3
_NESTED: Final = 0x8000
_KIND_MASK: Final = 0x3FFF

_TUPLE_ORIG, _TUPLE_REPLY, _STATUS, _ID, _ZONE, _FILTER = 1, 2, 3, 12, 18, 25
_TUPLE_IP, _TUPLE_PROTO = 1, 2
_IP_DESTINATION: Final[dict[int, int]] = {socket.AF_INET: 2, socket.AF_INET6: 4}
_PROTO_NUM, _PROTO_SOURCE_PORT, _PROTO_DESTINATION_PORT = 1, 2, 3
_FILTER_ORIG, _FILTER_REPLY = 1, 2
_BY_ADDRESS, _BY_PROTOCOL, _BY_PORT = 1 << 1, 1 << 3, 1 << 5
_STATUS_DST_NAT: Final = 1 << 5

_HEADER: Final = struct.Struct("=IHHII")
_ATTRIBUTE: Final = struct.Struct("=HH")
_GENERIC_SIZE: Final = 4  # struct nfgenmsg

Endpoint = tuple[str, int]  # canonical address, port


class Flow(NamedTuple):
    """One UDP flow as its first packet was (`destination`) and where its answers come from (`answerer`).

    `is_translated`: the destination was replaced. `identity`: what `delete` tells the kernel, opaque.
    """

    destination: Endpoint
    answerer: Endpoint
    is_translated: bool
    identity: bytes


class Conntrack:
    """The flows of the network namespace in which it was made. Methods block, and raise OSError."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_NETFILTER)
        self._socket.settimeout(30)
        self._sequence = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def list_udp(self, family: int, address: str = "", port: int = 0) -> list[Flow]:
        """The family's (4 or 6) UDP flows, those to an address or port when they are given; maybe others, too."""
        af = socket.AF_INET6 if family == 6 else socket.AF_INET
        flags = _BY_PROTOCOL
        protocol = _attribute(_PROTO_NUM, struct.pack("B", socket.IPPROTO_UDP))
        place = b""
        if port:
            flags |= _BY_PORT
            protocol += _attribute(_PROTO_DESTINATION_PORT, struct.pack("!H", port))
        if address and af == socket.AF_INET:  # of IPv6, kernels return every flow but those to the address
            flags |= _BY_ADDRESS
            place = _nest(_TUPLE_IP, _attribute(_IP_DESTINATION[af], socket.inet_pton(af, address)))
        body = _nest(_TUPLE_ORIG, place + _nest(_TUPLE_PROTO, protocol))
        body += _nest(
            _FILTER,
            _attribute(_FILTER_ORIG, struct.pack("=I", flags)) + _attribute(_FILTER_REPLY, struct.pack("=I", 0)),
        )
        found = []
        for message in self._ask(_GET, _DUMP, af, body):
            flow = _parse_flow(af, message)
            if flow is not None:
                found.append(flow)
        return found

    def delete(self, flows: Iterable[Flow]) -> int:
        """Remove exactly these; one that ended meanwhile, or was made anew, is left. Returns how many were removed."""
        removed = 0
        for flow in flows:
            af = socket.AF_INET6 if ":" in flow.destination[0] else socket.AF_INET
            try:
                for _ in self._ask(_DELETE, _ACK, af, flow.identity):
                    pass
            except FileNotFoundError:
                continue
            removed += 1
        return removed

    def _ask(self, kind: int, flags: int, af: int, body: bytes) -> Iterator[memoryview]:
        """The attributes of each message that answers."""
        self._sequence += 1
        payload = struct.pack("BBH", af, 0, 0) + body
        self._socket.send(
            _HEADER.pack(_HEADER.size + len(payload), kind, _REQUEST | flags, self._sequence, 0) + payload
        )
        while True:
            data = memoryview(self._socket.recv(1 << 20))
            at = 0
            while at < len(data):
                length, answer, _, sequence, _ = _HEADER.unpack_from(data, at)
                if sequence == self._sequence:
                    if answer == _DONE:
                        return
                    if answer == _ERROR:
                        (number,) = struct.unpack_from("=i", data, at + _HEADER.size)
                        if number:
                            raise _error(-number)
                        return
                    yield data[at + _HEADER.size + _GENERIC_SIZE : at + length]
                at += max((length + 3) & ~3, _HEADER.size)


def is_local(address: str) -> bool:
    """Whether an address is one of this network namespace's own. Asks the routing tables; sends nothing."""
    af = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(af, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as probe:
        try:
            probe.connect((address, 9))
        except OSError:
            return False
        return bool(probe.getsockname()[0] == address)


def _error(number: int) -> OSError:
    if number == errno.EPERM:
        return PermissionError(number, "may not see this network namespace's connections: CAP_NET_ADMIN is needed")
    return OSError(number, f"connection tracking: {os.strerror(number)}")


def _parse_flow(af: int, message: memoryview) -> Flow | None:
    """None for another protocol, and for what lacks a part."""
    found = dict(_attributes(message))
    try:
        original, reply = (dict(_attributes(found[kind])) for kind in (_TUPLE_ORIG, _TUPLE_REPLY))
        protocol = dict(_attributes(original[_TUPLE_PROTO]))
        if protocol[_PROTO_NUM][0] != socket.IPPROTO_UDP:
            return None
        destination = dict(_attributes(original[_TUPLE_IP]))[_IP_DESTINATION[af]]
        answerer = dict(_attributes(reply[_TUPLE_IP]))[_IP_DESTINATION[af] - 1]
        answering_port = dict(_attributes(reply[_TUPLE_PROTO]))[_PROTO_SOURCE_PORT]
        # With the id, which no other flow gets in the life of this one, nothing made anew is hit.
        identity = _nest(_TUPLE_ORIG, bytes(found[_TUPLE_ORIG])) + _attribute(_ID, bytes(found[_ID]))
        if _ZONE in found:
            identity += _attribute(_ZONE, bytes(found[_ZONE]))
        return Flow(
            (socket.inet_ntop(af, destination), int.from_bytes(protocol[_PROTO_DESTINATION_PORT])),
            (socket.inet_ntop(af, answerer), int.from_bytes(answering_port)),
            bool(int.from_bytes(found[_STATUS]) & _STATUS_DST_NAT),
            identity,
        )
    except KeyError:
        return None


def _attributes(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        yield kind & _KIND_MASK, data[at + _ATTRIBUTE.size : at + length]
        at += max((length + 3) & ~3, _ATTRIBUTE.size)


def _attribute(kind: int, value: bytes) -> bytes:
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + b"\0" * (-len(value) % 4)


def _nest(kind: int, value: bytes) -> bytes:
    return _attribute(kind | _NESTED, value)
