"""A netlink socket for what is encoded by hand: many small requests in few system calls, and dumps.

The modules of this package build their messages with the helpers here. pyroute2 does the same with a class for each
attribute, which costs a hundred times as much per message, and 30 MiB. `links` uses it for what is done once.
Source: netlink(7), linux/netlink.h, linux/netfilter/nfnetlink.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from .closable import Closable

Data = TypeVar("Data", bytes, memoryview)

NETFILTER: Final = 12  # NETLINK_NETFILTER, the protocol of all of nfnetlink's subsystems
GENERIC_SIZE: Final = 4  # struct nfgenmsg, with which their messages begin
NF_TABLES: Final = 10  # NFNL_SUBSYS_NFTABLES, the subsystem in the upper byte of a message's kind
REQUEST, ACK, REPLACE, EXCL, CREATE = 0x1, 0x4, 0x100, 0x200, 0x400
DUMP: Final = 0x300
NESTED: Final = 0x8000
ERROR, DONE = 2, 3
KIND_MASK: Final = 0x3FFF
PROTOCOLS: Final = {"tcp": socket.IPPROTO_TCP, "udp": socket.IPPROTO_UDP, "sctp": socket.IPPROTO_SCTP}
PROTOCOL_NAMES: Final = {int(number): name for name, number in PROTOCOLS.items()}
SOL_NETLINK: Final = 270
_CAP_ACK: Final = 10
_INTERRUPTED: Final = 0x10  # NLM_F_DUMP_INTR: something changed while it was listed

HEADER: Final = struct.Struct("=IHHII")  # struct nlmsghdr
ATTRIBUTE: Final = struct.Struct("=HH")  # struct nlattr
_BATCH_BEGIN, _BATCH_END = 16, 17  # NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END
_AT_ONCE: Final = 100  # requests; each may be answered by an error, and the receive buffer has to hold them
_BYTES_AT_ONCE: Final = 1 << 16  # which fits into the send buffer, whatever its size here
_DUMP_TRIES: Final = 5


class Request(NamedTuple):
    """One message without its header. `name` is what to call it in an error; errnos in `tolerated` are no errors."""

    kind: int
    flags: int
    body: bytes
    name: str
    tolerated: frozenset[int] = frozenset()


class Netlink(Closable):
    """One socket of the network namespace in which it was made. Use as a context manager, or `close` it.

    Methods block, and raise OSError.
    """

    def __init__(self, protocol: int, groups: int = 0) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
        try:
            self._socket.bind((0, groups))
            # Python would wait, timeout or not, when the socket is one that waits.
            self._socket.settimeout(0 if groups else 30)
            self._socket.setsockopt(SOL_NETLINK, _CAP_ACK, 1)
        except OSError:
            self._socket.close()
            raise
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, requests: Iterable[Request]) -> None:
        """Have the kernel do one after the other.

        Raises OSError for the first that it refused; some that come after it are done all the same.
        """
        chunk: list[Request] = []
        size = 0
        for request in requests:
            chunk.append(request)
            size += len(request.body)
            if len(chunk) == _AT_ONCE or size > _BYTES_AT_ONCE:
                self._send(chunk)
                chunk, size = [], 0
        if chunk:
            self._send(chunk)

    def _send(self, requests: Sequence[Request]) -> None:
        first = self._sequence + 1
        self._socket.send(b"".join(self._encode(requests)))
        self._await(requests, first, (self._sequence,))

    def transact(self, subsystem: int, requests: Sequence[Request]) -> None:
        """Have one of nfnetlink's subsystems do all of them or, when it refuses one, none and raise OSError."""
        edge = struct.pack("!BBH", 0, 0, subsystem)  # struct nfgenmsg
        messages = [self._message(_BATCH_BEGIN, 0, edge)]
        begin = self._sequence
        messages += self._encode(requests)
        last = self._sequence  # the end itself is none that old kernels answer
        messages.append(self._message(_BATCH_END, 0, edge))
        self._socket.send(b"".join(messages))
        # The beginning is answered when nothing of it was even looked at, or all of it could not be committed.
        self._await(requests, begin + 1, (begin, last))

    def _encode(self, requests: Sequence[Request]) -> Iterator[bytes]:
        """Only the last is acknowledged; of the others, errors are told."""
        for index, request in enumerate(requests, 1):
            yield self._message(request.kind, request.flags | (ACK if index == len(requests) else 0), request.body)

    def _message(self, kind: int, flags: int, body: bytes) -> bytes:
        self._sequence += 1
        return HEADER.pack(HEADER.size + len(body), kind, REQUEST | flags, self._sequence, 0) + body

    def _await(self, requests: Sequence[Request], first: int, ends: tuple[int, ...]) -> None:
        """Until one of `ends`, in order, is answered. `first` is the number of the first request.

        Raises OSError for the first that was refused.
        """
        refused: OSError | None = None
        while True:
            for kind, _, sequence, payload in each_message(self._socket.recv(1 << 16)):
                if kind != ERROR or not min(first, ends[0]) <= sequence <= ends[-1]:
                    continue
                refused = refused or _refusal(requests[max(sequence - first, 0)], payload)
                if sequence in ends:
                    if refused is not None:
                        raise refused
                    return

    def ask(self, request: Request) -> bytes | None:
        """The one answer to a request that has one; None for an error that it tolerates."""
        self._socket.send(self._message(request.kind, request.flags, request.body))
        while True:
            for kind, _, sequence, payload in each_message(self._socket.recv(1 << 16)):
                if sequence == self._sequence:
                    if kind != ERROR:
                        return payload
                    refused = _refusal(request, payload)
                    if refused is not None:
                        raise refused
                    return None

    def dump(self, request: Request) -> list[bytes]:
        """All answers to a request that lists something, from a moment in which nothing changed."""
        for _ in range(_DUMP_TRIES):
            found = self._dump(request)
            if found is not None:
                return found
        raise OSError(errno.EBUSY, f"{request.name}: it changes faster than it can be listed")

    def _dump(self, request: Request) -> list[bytes] | None:
        """None: something changed meanwhile."""
        self._socket.send(self._message(request.kind, request.flags | DUMP, request.body))
        interrupted = False
        found: list[bytes] = []
        while True:
            for kind, flags, sequence, payload in each_message(self._socket.recv(1 << 16)):
                if sequence != self._sequence:
                    continue
                interrupted |= bool(flags & _INTERRUPTED)
                if kind in (ERROR, DONE):
                    refused = _refusal(request, payload)
                    if refused is not None:
                        raise refused
                    return None if interrupted else found
                found.append(payload)

    def notifications(self) -> Iterator[tuple[int, bytes]]:
        """What came to the socket's groups since, without waiting: (kind, payload).

        Raises OSError with ENOBUFS when some were lost.
        """
        while True:
            try:
                data = self._socket.recv(1 << 16)
            except BlockingIOError:
                return
            for kind, _, _, payload in each_message(data):
                yield kind, payload


def _refusal(request: Request, payload: bytes) -> OSError | None:
    """What the kernel has against a request; None for nothing, and for what it tolerates."""
    number = -int(struct.unpack_from("=i", payload)[0]) if len(payload) >= 4 else 0
    if not number or number in request.tolerated:
        return None
    words = os.strerror(number) if number < 4096 else f"error {number}"  # some subsystems have their own, beyond those
    return OSError(number, f"{request.name}: {words}")


def each_message(data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(kind, flags, sequence, payload) of each message in what was received at once."""
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, flags, sequence, _ = HEADER.unpack_from(data, at)
        yield kind, flags, sequence, data[at + HEADER.size : at + length]
        at += max((length + 3) & ~3, HEADER.size)


def attribute(kind: int, value: bytes) -> bytes:
    return ATTRIBUTE.pack(ATTRIBUTE.size + len(value), kind) + value + b"\0" * (-len(value) % 4)


def nest(kind: int, value: bytes) -> bytes:
    return attribute(kind | NESTED, value)


def text(kind: int, value: str) -> bytes:
    return attribute(kind, value.encode() + b"\0")


def as_text(value: bytes) -> str:
    """The value of such an attribute."""
    return value.rstrip(b"\0").decode(errors="replace")


def address_family(version: int) -> int:
    """Of IP version 4 or 6."""
    return int(socket.AF_INET6 if version == 6 else socket.AF_INET)


def attributes(data: bytes) -> dict[int, bytes]:
    """The attributes of a message, or of a nest, by their kinds; of several of one kind the last."""
    return dict(each_attribute(data))


def each_attribute(data: Data) -> Iterator[tuple[int, Data]]:
    """(kind, value) of one after the other; the values of a memoryview are memoryviews."""
    at = 0
    while at + ATTRIBUTE.size <= len(data):
        length, kind = ATTRIBUTE.unpack_from(data, at)
        yield kind & KIND_MASK, data[at + ATTRIBUTE.size : at + length]
        at += max((length + 3) & ~3, ATTRIBUTE.size)
