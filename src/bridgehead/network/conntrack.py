"""The kernel's connection tracking: finds flows and removes single ones. The edge; `proxy/conntrack/` decides.

Encoded by hand, as in `rtnetlink`: pyroute2 decodes every attribute of every flow, and there may be a quarter of a
million. The kernel walks its whole table for each question but is told to leave out what was not asked for (CTA_FILTER,
Linux 5.8, and CTA_STATUS_MASK, of 2021; an older one sends more, and the caller looks anyway). Source:
linux/netfilter/nfnetlink_conntrack.h, net/netfilter/nf_conntrack_netlink.c.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from .closable import Closable
from .netlink import (
    ACK,
    ATTRIBUTE,
    DONE,
    DUMP,
    ERROR,
    GENERIC_SIZE,
    HEADER,
    KIND_MASK,
    NESTED,
    NETFILTER,
    PROTOCOLS,
    REQUEST,
    address_family,
    attribute,
    each_attribute,
    nest,
)

_GET, _DELETE = (1 << 8) | 1, (1 << 8) | 2  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_*

_TUPLE_ORIG, _TUPLE_REPLY, _STATUS, _ID, _ZONE, _FILTER, _STATUS_MASK = 1, 2, 3, 12, 18, 25, 26
_TUPLE_IP, _TUPLE_PROTO, _TUPLE_ZONE = 1, 2, 3
_IP_SOURCE: Final[dict[int, int]] = {socket.AF_INET: 1, socket.AF_INET6: 3}
_IP_DESTINATION: Final[dict[int, int]] = {socket.AF_INET: 2, socket.AF_INET6: 4}
_PROTO_NUM, _PROTO_SOURCE_PORT, _PROTO_DESTINATION_PORT = 1, 2, 3
_FILTER_ORIG, _FILTER_REPLY = 1, 2
_BY_SOURCE, _BY_DESTINATION, _BY_PROTOCOL, _BY_SOURCE_PORT, _BY_DESTINATION_PORT = 1, 1 << 1, 1 << 3, 1 << 4, 1 << 5
_STATUS_SEEN_REPLY: Final = 1 << 1

_AT_ONCE: Final = 64  # deletions in one datagram; an answer comes only to those that fail
_RECEIVE_SIZE: Final = 1 << 18
_REMEMBERED: Final = 10_000  # kinds of flows; nodes that ask the whole internet have as many as flows

Endpoint = tuple[str, int]  # canonical address, port
ANYWHERE: Final[Endpoint] = ("", 0)


class Flow(NamedTuple):
    """A flow as its first packet was (`destination`) and where its answers come from (`answerer`).

    They differ when the destination was replaced. `is_answered`: something came back. `zone`: 0 unless rules put
    packets into conntrack zones.
    """

    destination: Endpoint
    answerer: Endpoint
    is_answered: bool
    zone: int = 0


class Conntrack(Closable):
    """The flows of the network namespace in which it was made. Methods block, and raise OSError. One thread at a time.

    A question is: IP family (4 or 6), protocol (tcp, udp, sctp), original destination and answerer, whose address may
    be "" and whose port 0 for any, and whether only flows without an answer count. More than was asked for may come.
    """

    def __init__(self) -> None:
        self._reading, self._deleting = _NetlinkSocket(), _NetlinkSocket()

    def close(self) -> None:
        self._reading.close()
        self._deleting.close()

    def find(
        self,
        family: int,
        protocol: str,
        destination: Endpoint = ANYWHERE,
        answerer: Endpoint = ANYWHERE,
        is_unanswered: bool = False,
    ) -> Iterator[tuple[Flow, bytes]]:
        """Flows, each with what tells it apart from all others, also from one with the same addresses later."""
        af = address_family(family)
        for message in self._dump(af, protocol, destination, answerer, is_unanswered):
            found = _read(af, message, protocol)
            if found is not None:
                yield _parse_flow(af, found), _identity(message)

    def remove(
        self,
        family: int,
        protocol: str,
        destination: Endpoint = ANYWHERE,
        answerer: Endpoint = ANYWHERE,
        is_unanswered: bool = False,
        *,
        is_stale: Callable[[Flow], bool],
    ) -> int:
        """Remove those flows of which `is_stale` says so; it is asked once for many that look the same to it.

        A flow that ended meanwhile, or was made anew, is left. Returns how many were removed.
        """
        af = address_family(family)
        verdicts: dict[_Raw, bool] = {}
        stale: list[bytes] = []
        removed = 0
        for message in self._dump(af, protocol, destination, answerer, is_unanswered):
            raw = _read(af, message, protocol)
            if raw is None:
                continue
            verdict = verdicts.get(raw)
            if verdict is None:
                if len(verdicts) == _REMEMBERED:
                    verdicts.clear()
                verdict = verdicts[raw] = is_stale(_parse_flow(af, raw))
            if verdict:
                stale.append(_identity(message))
                if len(stale) == _AT_ONCE:
                    removed += self._deleting.delete(af, stale)
                    stale.clear()
        return removed + self._deleting.delete(af, stale)

    def _dump(
        self, af: int, protocol: str, destination: Endpoint, answerer: Endpoint, is_unanswered: bool
    ) -> Iterator[memoryview]:
        original, original_flags = _match(_TUPLE_ORIG, af, protocol, destination)
        reply, reply_flags = _match(_TUPLE_REPLY, af, protocol, answerer)
        wanted = attribute(_FILTER_ORIG, struct.pack("=I", original_flags))
        wanted += attribute(_FILTER_REPLY, struct.pack("=I", reply_flags))
        body = original + reply + nest(_FILTER, wanted)
        if is_unanswered:
            body += attribute(_STATUS, struct.pack("!I", 0))
            body += attribute(_STATUS_MASK, struct.pack("!I", _STATUS_SEEN_REPLY))
        return self._reading.ask(_GET, DUMP, af, body)


def _match(tuple_kind: int, af: int, protocol: str, place: Endpoint) -> tuple[bytes, int]:
    """The addresses a flow must have in one direction, and the flags that say which of them count."""
    address, port = place
    is_reply = tuple_kind == _TUPLE_REPLY
    flags = _BY_PROTOCOL
    ip, ports = b"", attribute(_PROTO_NUM, struct.pack("B", PROTOCOLS[protocol]))
    if port:
        flags |= _BY_SOURCE_PORT if is_reply else _BY_DESTINATION_PORT
        ports += attribute(_PROTO_SOURCE_PORT if is_reply else _PROTO_DESTINATION_PORT, struct.pack("!H", port))
    if address and af == socket.AF_INET:  # of IPv6, kernels return every flow but those of the address
        flags |= _BY_SOURCE if is_reply else _BY_DESTINATION
        kind = _IP_SOURCE[af] if is_reply else _IP_DESTINATION[af]
        ip = nest(_TUPLE_IP, attribute(kind, socket.inet_pton(af, address)))
    return nest(tuple_kind, ip + nest(_TUPLE_PROTO, ports)), flags


class _NetlinkSocket:
    """Requests and their answers; one dump at a time."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETFILTER)
        self._socket.settimeout(30)
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def ask(self, kind: int, flags: int, af: int, body: bytes) -> Iterator[memoryview]:
        """The attributes of each message that answers; good until the next one is asked for."""
        self._send(kind, flags, af, body)
        buffer = bytearray(_RECEIVE_SIZE)
        view = memoryview(buffer).toreadonly()
        while True:
            size = self._socket.recv_into(buffer)
            at = 0
            while at < size:
                length, answer, _, sequence, _ = HEADER.unpack_from(buffer, at)
                if sequence == self._sequence:
                    if answer == DONE:
                        return
                    if answer == ERROR:
                        (number,) = struct.unpack_from("=i", buffer, at + HEADER.size)
                        if number:
                            raise _error(-number)
                        return
                    yield view[at + HEADER.size + GENERIC_SIZE : at + length]
                at += max((length + 3) & ~3, HEADER.size)

    def delete(self, af: int, identities: Sequence[bytes]) -> int:
        """How many of these flows were there to be removed. All go in one datagram, so nothing waits in between."""
        if not identities:
            return 0
        first = self._sequence + 1
        last = len(identities) - 1
        self._socket.send(
            b"".join(
                self._encode(_DELETE, ACK if index == last else 0, af, identity)
                for index, identity in enumerate(identities)
            )
        )
        removed = len(identities)
        while True:
            data = self._socket.recv(_RECEIVE_SIZE)
            at = 0
            while at < len(data):
                length, answer, _, sequence, _ = HEADER.unpack_from(data, at)
                if answer == ERROR and sequence >= first:
                    (number,) = struct.unpack_from("=i", data, at + HEADER.size)
                    if -number == errno.ENOENT:
                        removed -= 1
                    elif number:
                        raise _error(-number)
                    if sequence == self._sequence:
                        return removed
                at += max((length + 3) & ~3, HEADER.size)

    def _send(self, kind: int, flags: int, af: int, body: bytes) -> None:
        self._socket.send(self._encode(kind, flags, af, body))

    def _encode(self, kind: int, flags: int, af: int, body: bytes) -> bytes:
        self._sequence += 1
        length = HEADER.size + GENERIC_SIZE + len(body)
        return HEADER.pack(length, kind, REQUEST | flags, self._sequence, 0) + struct.pack("BBH", af, 0, 0) + body


def _error(number: int) -> OSError:
    if number == errno.EPERM:
        return PermissionError(number, "may not see this network namespace's connections: CAP_NET_ADMIN is needed")
    return OSError(number, f"connection tracking: {os.strerror(number)}")


# --- Reading flows ---------------------------------------------------------------------------------------
# What is decided upon is cut out of each message as bytes, which are made into a Flow once for all that are equal.

_Raw = tuple[bytes, bytes, bytes, bytes, int, int]  # original destination, its port, answerer, its port, status, zone


class _Layout:
    """Where things are in the messages of a family, as every kernel so far has written them."""

    def __init__(self, address_size: int, source_kind: int) -> None:
        ip_size = 4 + 2 * (4 + address_size)
        tuple_size = 4 + ip_size + 28
        nested = NESTED << 16
        # The first word of each attribute, and after which of them something is read.
        self._tuple = (
            ip_size | (_TUPLE_IP | NESTED) << 16,
            (4 + address_size) | source_kind << 16,
            (4 + address_size) | (source_kind + 1) << 16,
            28 | (_TUPLE_PROTO | NESTED) << 16,
            5 | _PROTO_NUM << 16,
            6 | _PROTO_SOURCE_PORT << 16,
            6 | _PROTO_DESTINATION_PORT << 16,
        )
        self.words = (
            tuple_size | _TUPLE_ORIG << 16 | nested, *self._tuple,
            tuple_size | _TUPLE_REPLY << 16 | nested, *self._tuple,
            8 | _STATUS << 16,
        )  # fmt: skip
        tuple_format = f"II{address_size}sI{address_size}sIIB3xI2s2xI2s2x"
        self.struct = struct.Struct(f"=I{tuple_format}I{tuple_format}I4s")
        self.rest = self.struct.size


_LAYOUTS: Final[dict[int, _Layout]] = {socket.AF_INET: _Layout(4, 1), socket.AF_INET6: _Layout(16, 3)}


def _read(af: int, message: memoryview, protocol: str) -> _Raw | None:
    """What is decided upon; None for another protocol, and for what lacks a part."""
    layout = _LAYOUTS[af]
    if len(message) >= layout.rest:
        (
            a, b, c, _, d, address, e, f, number, g, _, h, port,
            i, j, k, answerer, m, _, n, o, _, p, answering_port, q, _, r, status,
        ) = layout.struct.unpack_from(message)  # fmt: skip
        if (a, b, c, d, e, f, g, h, i, j, k, m, n, o, p, q, r) == layout.words:
            if number != PROTOCOLS[protocol]:
                return None
            return address, port, answerer, answering_port, int.from_bytes(status) & _STATUS_SEEN_REPLY, 0
    return _read_slowly(af, message, protocol)


def _read_slowly(af: int, message: memoryview, protocol: str) -> _Raw | None:
    found = dict(each_attribute(message))
    try:
        original, reply = (dict(each_attribute(found[kind])) for kind in (_TUPLE_ORIG, _TUPLE_REPLY))
        numbers, answering = (dict(each_attribute(part[_TUPLE_PROTO])) for part in (original, reply))
        if numbers[_PROTO_NUM][0] != PROTOCOLS[protocol]:
            return None
        # A zone may hold for one direction only.
        zone = found.get(_ZONE) or original.get(_TUPLE_ZONE) or reply.get(_TUPLE_ZONE) or b""
        return (
            bytes(dict(each_attribute(original[_TUPLE_IP]))[_IP_DESTINATION[af]]),
            bytes(numbers[_PROTO_DESTINATION_PORT]),
            bytes(dict(each_attribute(reply[_TUPLE_IP]))[_IP_SOURCE[af]]),
            bytes(answering[_PROTO_SOURCE_PORT]),
            int.from_bytes(found[_STATUS]) & _STATUS_SEEN_REPLY,
            int.from_bytes(zone),
        )
    except KeyError:
        return None


def _parse_flow(af: int, raw: _Raw) -> Flow:
    address, port, answerer, answering_port, status, zone = raw
    return Flow(
        (socket.inet_ntop(af, address), int.from_bytes(port)),
        (socket.inet_ntop(af, answerer), int.from_bytes(answering_port)),
        bool(status & _STATUS_SEEN_REPLY),
        zone,
    )


def _identity(message: memoryview) -> bytes:
    """What tells the kernel which flow to delete. With the id, which no other flow gets in the life of this one."""
    found = b""
    at = 0
    while at + ATTRIBUTE.size <= len(message):
        length, kind = ATTRIBUTE.unpack_from(message, at)
        size = max((length + 3) & ~3, ATTRIBUTE.size)
        if kind & KIND_MASK in (_TUPLE_ORIG, _ID, _ZONE):
            found += message[at : at + size]
        at += size
    return found
