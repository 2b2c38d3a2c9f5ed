"""The one real connection of a trace, made in whatever network namespace the function runs.

TCP and SCTP connections are opened and closed; of UDP, one datagram is sent.
"""

from __future__ import annotations

import enum
import errno
import os
import select
import socket
import struct
import time

import msgspec

_SCTP = 132  # IPPROTO_SCTP
_UDP_HEADER = 8
_SYN_OPTIONS = 20  # the offset of a TCP segment's options
_MARK_BYTES = 8
_DNS_PORT = 53
_DNS_QUESTION = b"\x07cluster\x05local\0\0\x01\0\x01"  # for the A records of cluster.local
_MSS_OPTION = b"\x02\x04"  # kind and length; Linux puts it first


class Outcome(enum.StrEnum):
    CONNECTED = "connected"
    CLOSED = "closed at once"  # after it was accepted
    ANSWERED = "answered"  # a datagram
    SENT = "sent"  # a datagram, without an answer or an error
    REFUSED = "refused"
    TIMED_OUT = "timed out"
    UNREACHABLE = "unreachable"
    NOT_PERMITTED = "not permitted"  # dropped or rejected by its own host's rules
    NOT_TRIED = "not tried"


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """`source_port`: bound before; 0: any. `datagram`: its content, which begins with 8 bytes that mark it.

    `segment_bytes`: the maximum segment size that a SYN offers; it marks the SYN where its ports may be translated.
    `linger_seconds`: for which an open connection is watched for its end.
    """

    protocol: str
    address: str
    port: int
    source_port: int = 0
    segment_bytes: int = 0
    datagram: bytes = b""
    seconds: float = 0.7
    linger_seconds: float = 0.0


class ProbeResult(msgspec.Struct, frozen=True, kw_only=True):
    """`source`: the address and port of the client's socket. `why`: the error's text, if there was one."""

    outcome: Outcome
    source: tuple[str, int] = ("", 0)
    milliseconds: float = 0.0
    why: str = ""

    @property
    def has_succeeded(self) -> bool:
        return self.outcome in (Outcome.CONNECTED, Outcome.ANSWERED)


def marker_of(probe: Probe) -> tuple[int, bytes]:
    """Return the offset in the transport header and the bytes by which the first packet is recognized; b"": none."""
    if probe.protocol == "tcp" and probe.segment_bytes:
        return _SYN_OPTIONS, _MSS_OPTION + struct.pack("!H", probe.segment_bytes)
    if probe.protocol == "udp" and len(probe.datagram) >= _MARK_BYTES:
        return _UDP_HEADER, probe.datagram[:_MARK_BYTES]
    return 0, b""


def make_datagram(port: int, mark: bytes) -> bytes:
    """Return the content of a datagram: 8 bytes or, for a DNS server, a question. `mark`: 8 random bytes."""
    if port != _DNS_PORT:
        return mark
    return mark[:2] + b"\x01\0\0\x01" + bytes(6) + _DNS_QUESTION


def make_connection(probe: Probe) -> ProbeResult:
    """Make the connection and close it. Never raises OSError."""
    family = socket.AF_INET6 if ":" in probe.address else socket.AF_INET
    kind = socket.SOCK_DGRAM if probe.protocol == "udp" else socket.SOCK_STREAM
    try:
        sock = socket.socket(family, kind, _SCTP if probe.protocol == "sctp" else 0)
    except OSError as error:
        return ProbeResult(
            outcome=Outcome.NOT_TRIED, why=f"the kernel has no {probe.protocol.upper()}: {error.strerror}"
        )
    with sock:
        sock.setblocking(False)
        try:
            if probe.source_port:
                sock.bind(("", probe.source_port))
            if probe.protocol == "tcp" and probe.segment_bytes:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, probe.segment_bytes)
        except OSError as error:
            return ProbeResult(outcome=Outcome.NOT_TRIED, why=f"port {probe.source_port}: {error.strerror}")
        started = time.monotonic()
        try:
            outcome, why = (_exchange if kind is socket.SOCK_DGRAM else _open)(sock, probe)
        except OSError as error:
            outcome, why = _outcome_of(error.errno or 0), error.strerror or str(error)
        milliseconds = round((time.monotonic() - started) * 1000, 2)
        if outcome is Outcome.CONNECTED and probe.linger_seconds:
            outcome, why = _watch(sock, probe.linger_seconds)
        return ProbeResult(outcome=outcome, source=sock.getsockname()[:2], milliseconds=milliseconds, why=why)


def _open(sock: socket.socket, probe: Probe) -> tuple[Outcome, str]:
    number = sock.connect_ex((probe.address, probe.port))
    if number not in (0, errno.EINPROGRESS):
        raise OSError(number, os.strerror(number))
    if not _wait(sock, select.POLLOUT, probe.seconds):
        return Outcome.TIMED_OUT, f"no answer within {probe.seconds:g} s"
    number = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))
    return Outcome.CONNECTED, ""


def _watch(sock: socket.socket, seconds: float) -> tuple[Outcome, str]:
    """Return whether an open connection ends within so many seconds."""
    if _wait(sock, select.POLLIN, seconds):
        try:
            if not sock.recv(1):
                return Outcome.CLOSED, "the other side closed the connection as soon as it was open"
        except OSError:
            return Outcome.CLOSED, "the other side reset the connection as soon as it was open"
    return Outcome.CONNECTED, ""


def _exchange(sock: socket.socket, probe: Probe) -> tuple[Outcome, str]:
    sock.connect((probe.address, probe.port))
    sock.send(probe.datagram)
    if _wait(sock, select.POLLIN, probe.seconds):
        sock.recv(1)
        return Outcome.ANSWERED, ""
    return Outcome.SENT, f"no answer within {probe.seconds:g} s"


def _wait(sock: socket.socket, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(seconds * 1000))


def _outcome_of(number: int) -> Outcome:
    if number in (errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED):
        return Outcome.REFUSED
    if number in (errno.EPERM, errno.EACCES):
        return Outcome.NOT_PERMITTED
    if number == errno.ETIMEDOUT:
        return Outcome.TIMED_OUT
    return Outcome.UNREACHABLE
