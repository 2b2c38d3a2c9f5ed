"""A netlink socket: many small requests in few system calls, dumps, transactions, notifications.

The modules of this package encode their messages with `netlink_attributes` (why no library does it:
docs/decisions/0022-netlink.md). Source: netlink(7), linux/netlink.h, linux/netfilter/nfnetlink.h.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from .closable import Closable
from .netlink_attributes import MESSAGE_HEADER, each_message
from .uapi.netlink import (
    NETLINK_CAP_ACK,
    NLM_F_ACK,
    NLM_F_DUMP,
    NLM_F_DUMP_INTR,
    NLM_F_REQUEST,
    NLMSG_DONE,
    NLMSG_ERROR,
)
from .uapi.nfnetlink import NFNETLINK_V0, NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END
from .uapi.socket import SOL_NETLINK

NETFILTER_HEADER: Final = struct.Struct("!BBH")  # struct nfgenmsg: family, version, resource
TIMEOUT_SECONDS: Final = 30.0  # of a request; the kernel answers before the system call that sends it returns

_REQUESTS_AT_ONCE: Final = 100  # each may be answered by an error, and the receive buffer has to hold them
_BYTES_AT_ONCE: Final = 1 << 16  # fits into the smallest send buffer
_RECEIVE_BYTES: Final = 1 << 16
_DUMP_ATTEMPTS: Final = 5
_MAX_ERRNO: Final = 4095  # linux/err.h; some subsystems number their own errors from 4096 on


class Request(NamedTuple):
    """One message without its header. `name` describes it in errors; errnos in `tolerated` count as success."""

    kind: int
    flags: int
    body: bytes
    name: str
    tolerated: frozenset[int] = frozenset()


def open_socket(protocol: int) -> socket.socket:
    """Return an unbound netlink socket of the current network namespace."""
    return socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)


def netfilter_header(family: int, resource: int = 0) -> bytes:
    """Return the header with which the messages of all subsystems of nfnetlink begin."""
    return NETFILTER_HEADER.pack(family, NFNETLINK_V0, resource)


class NetlinkSocket(Closable):
    """A socket of the network namespace in which it was made; it stays there when the process enters another one.

    With multicast `groups` (a bit mask) it is for `notifications` and does not block; otherwise methods block. Methods
    raise OSError.
    """

    def __init__(self, protocol: int, groups: int = 0) -> None:
        self._socket = open_socket(protocol)
        try:
            self._socket.bind((0, groups))
            self._socket.settimeout(0 if groups else TIMEOUT_SECONDS)
            self._socket.setsockopt(SOL_NETLINK, NETLINK_CAP_ACK, 1)
        except OSError:
            self._socket.close()
            raise
        self._sequence = 0

    def close(self) -> None:
        self._socket.close()

    @property
    def port(self) -> int:
        """The port id, which no other socket of this protocol has in the network namespace."""
        return int(self._socket.getsockname()[0])

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, requests: Iterable[Request]) -> None:
        """Send requests, which the kernel does one after the other.

        Raises OSError for the first request that the kernel rejects. Requests of the same chunk that follow it are done
        nevertheless, later chunks are not sent.
        """
        for chunk in _chunks(requests):
            self._send(chunk)

    def _send(self, requests: Sequence[Request]) -> None:
        first = self._sequence + 1
        self._socket.send(b"".join(self._encode(requests)))
        self._await(requests, first, (self._sequence,))

    def transact(self, subsystem: int, requests: Sequence[Request]) -> None:
        """Have a subsystem of nfnetlink do all requests, or none and raise OSError if it rejects one."""
        batch = netfilter_header(socket.AF_UNSPEC, subsystem)
        messages = [self._message(NFNL_MSG_BATCH_BEGIN, 0, batch)]
        begin = self._sequence
        messages += self._encode(requests)
        last = self._sequence  # old kernels do not acknowledge NFNL_MSG_BATCH_END, so the last request is
        messages.append(self._message(NFNL_MSG_BATCH_END, 0, batch))
        self._socket.send(b"".join(messages))
        # The kernel answers the beginning if it rejects the batch unread, or cannot commit it.
        self._await(requests, begin + 1, (begin, last))

    def transact_in_parts(self, subsystem: int, requests: Iterable[Request]) -> None:
        """Have a subsystem do requests, any number of them, in as many transactions as the send buffer makes necessary.

        Raises OSError for the first request that is rejected. Requests of earlier transactions are done nevertheless.
        """
        for chunk in _chunks(requests):
            self.transact(subsystem, chunk)

    def _encode(self, requests: Sequence[Request]) -> Iterator[bytes]:
        """Yield the messages. Only the last asks for an acknowledgement; the kernel reports errors of any."""
        for index, request in enumerate(requests, 1):
            flags = request.flags | (NLM_F_ACK if index == len(requests) else 0)
            yield self._message(request.kind, flags, request.body)

    def _message(self, kind: int, flags: int, body: bytes) -> bytes:
        self._sequence += 1
        length = MESSAGE_HEADER.size + len(body)
        return MESSAGE_HEADER.pack(length, kind, NLM_F_REQUEST | flags, self._sequence, 0) + body

    def _await(self, requests: Sequence[Request], first: int, ends: tuple[int, ...]) -> None:
        """Receive until one of the sequence numbers `ends` (ascending) is answered. `first`: that of the first request.

        Raises OSError for the first request that was rejected.
        """
        rejected: OSError | None = None
        while True:
            for kind, _, sequence, payload in each_message(self._socket.recv(_RECEIVE_BYTES)):
                if kind != NLMSG_ERROR or not min(first, ends[0]) <= sequence <= ends[-1]:
                    continue
                rejected = rejected or _error_of(requests[max(sequence - first, 0)], payload)
                if sequence in ends:
                    if rejected is not None:
                        raise rejected
                    return

    def ask(self, request: Request) -> bytes | None:
        """Return the one answer to a request; None for an error that the request tolerates."""
        self._socket.send(self._message(request.kind, request.flags, request.body))
        while True:
            for kind, _, sequence, payload in each_message(self._socket.recv(_RECEIVE_BYTES)):
                if sequence == self._sequence:
                    if kind != NLMSG_ERROR:
                        return payload
                    error = _error_of(request, payload)
                    if error is not None:
                        raise error
                    return None

    def dump(self, request: Request) -> list[bytes]:
        """Return all answers to a request that lists something; nothing changed while the kernel listed it."""
        for _ in range(_DUMP_ATTEMPTS):
            found = self._dump(request)
            if found is not None:
                return found
        raise OSError(errno.EBUSY, f"{request.name}: it changes faster than it can be listed")

    def _dump(self, request: Request) -> list[bytes] | None:
        """Return all answers, or None if something changed in the meantime."""
        self._socket.send(self._message(request.kind, request.flags | NLM_F_DUMP, request.body))
        is_interrupted = False
        found: list[bytes] = []
        while True:
            for kind, flags, sequence, payload in each_message(self._socket.recv(_RECEIVE_BYTES)):
                if sequence != self._sequence:
                    continue
                is_interrupted |= bool(flags & NLM_F_DUMP_INTR)
                if kind in (NLMSG_ERROR, NLMSG_DONE):
                    error = _error_of(request, payload)
                    if error is not None:
                        raise error
                    return None if is_interrupted else found
                found.append(payload)

    def notifications(self) -> Iterator[tuple[int, bytes]]:
        """Yield the type and payload of each message that the socket's groups have received, without waiting.

        Raises OSError with ENOBUFS when some were lost.
        """
        while True:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except BlockingIOError:
                return
            for kind, _, _, payload in each_message(data):
                yield kind, payload


def _chunks(requests: Iterable[Request]) -> Iterator[list[Request]]:
    """Yield the requests in parts that one system call can send."""
    chunk: list[Request] = []
    size = 0
    for request in requests:
        chunk.append(request)
        size += len(request.body)
        if len(chunk) == _REQUESTS_AT_ONCE or size > _BYTES_AT_ONCE:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _error_of(request: Request, payload: bytes) -> OSError | None:
    """Return the error that an answer reports; None for success and for an error that the request tolerates."""
    number = -int(struct.unpack_from("=i", payload)[0]) if len(payload) >= 4 else 0
    if not number or number in request.tolerated:
        return None
    description = os.strerror(number) if number <= _MAX_ERRNO else f"error {number}"
    return OSError(number, f"{request.name}: {description}")
