"""`ping` as BusyBox has it, for machines without BusyBox.

Source: BusyBox' networking/ping.c; the tests compare with BusyBox 1.35.
"""

from __future__ import annotations

import ipaddress
import os
import signal
import socket
import sys
import time
from typing import Final

from bridgehead.standins.standin import Launch

from .command import report, use_default_signals
from .echo_messages import (
    Options,
    Statistics,
    decode_reply,
    encode_request,
    parse_arguments,
)
from .options import BadNumber, BadOption
from .targets import Target, UnknownHost, find_target

_USAGE: Final = """\
Usage: ping [OPTIONS] HOST

Send ICMP ECHO_REQUESTs to HOST

	-4,-6		Force IP or IPv6 name resolution
	-c CNT		Send only CNT pings
	-s SIZE		Send SIZE data bytes in packets (default 56)
	-i SECS		Interval
	-A		Ping as soon as reply is received
	-t TTL		Set TTL
	-I IFACE/IP	Source interface or IP address
	-W SEC		Seconds to wait for the first response (default 10)
			(after all -c CNT packets are sent)
	-w SEC		Seconds until ping exits (default:infinite)
			(can exit earlier with -c CNT)
	-q		Quiet, only display output at start/finish
	-p HEXBYTE	Payload pattern
"""
_FAMILIES: Final = {0: socket.AF_UNSPEC, 4: socket.AF_INET, 6: socket.AF_INET6}
_LARGEST_PACKET: Final = 1 << 16  # bytes
_LONG_ROUND_TRIP: Final = 512 * 1024  # microseconds: for such a one, the last wait is longer than a second


class _Failure(Exception):
    """The message is BusyBox's."""


def run(launch: Launch) -> int:
    """Send echo requests until -c, -w or SIGINT; returns 1 if replies are missing."""
    use_default_signals()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the statistics follow
    try:
        options = parse_arguments(launch.argv[1:])
        return _ping(options, find_target(options.host, 0, _FAMILIES[options.family], has_port=False))
    except BadOption as error:
        return report("", (f"ping: {error}\n" if str(error) else "") + _USAGE)
    except (BadNumber, UnknownHost, _Failure) as error:
        return report("ping", str(error))


def _ping(options: Options, target: Target) -> int:
    """Raises `UnknownHost` and `_Failure`."""
    source, device = _find_source(options.source, target.family)
    shown = f" from {source}" if source else ""
    _print(f"PING {options.host} ({target.host}){shown}: {options.size} data bytes\n")
    statistics = Statistics(options.host)
    with _open_socket(target.family) as raw:
        _configure(raw, options, source, device)
        try:
            _Exchange(raw, options, target, statistics).run()
        except KeyboardInterrupt:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    _print(statistics.describe())
    return 1 if not statistics.received or (options.deadline and statistics.received < options.count) else 0


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _find_source(text: str, family: socket.AddressFamily) -> tuple[str, str]:
    """The address and the device of -I, one of them "". Raises `UnknownHost`."""
    if not text:
        return "", ""
    try:
        socket.if_nametoindex(text)
    except (OSError, ValueError):
        return find_target(text, 0, family, has_port=False).host, ""
    return "", text


def _open_socket(family: socket.AddressFamily) -> socket.socket:
    """Raises `_Failure`."""
    protocol = socket.IPPROTO_ICMP if family == socket.AF_INET else socket.IPPROTO_ICMPV6
    try:
        return socket.socket(family, socket.SOCK_RAW, protocol)
    except PermissionError:
        raise _Failure("permission denied (are you root?)") from None
    except OSError as error:
        raise _Failure(f"can't create raw socket: {error.strerror}") from None


def _configure(raw: socket.socket, options: Options, source: str, device: str) -> None:
    """Raises `_Failure`."""
    try:
        if source:
            raw.bind((source, 0))
        if device:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, device.encode())
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if raw.family == socket.AF_INET6:
            raw.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVHOPLIMIT, 1)
        elif 0 < options.ttl < 256:  # BusyBox ignores others
            raw.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, options.ttl)
            raw.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, options.ttl)
    except OSError as error:
        raise _Failure(f"bind: {error.strerror}") from None


def _now() -> int:
    """Microseconds."""
    return time.monotonic_ns() // 1000


class _Exchange:
    """Requests and replies on one socket."""

    def __init__(self, raw: socket.socket, options: Options, target: Target, statistics: Statistics) -> None:
        self._raw = raw
        self._options = options
        self._target = target
        self._statistics = statistics
        self._version = 4 if target.family == socket.AF_INET else 6
        self._id = os.getpid() & 0xFFFF

    def run(self) -> None:
        """Raises `_Failure` if a request cannot be sent."""
        options, statistics = self._options, self._statistics
        start = due = _now()
        while not options.count or statistics.received < options.count:
            now = _now()
            if now >= due:
                is_complete = options.count and statistics.sent >= options.count
                if is_complete or (options.deadline and now - start >= options.deadline * 1_000_000):
                    return
                due = self._send(now)
            if self._receive(max(due - _now(), 1) / 1_000_000) and options.is_adaptive:
                due = _now() if not options.count or statistics.sent < options.count else due

    def _send(self, now: int) -> int:
        """Send a request; the time of the next one, or after the last one that of the end."""
        options, statistics = self._options, self._statistics
        message = encode_request(options, self._version, self._id, statistics.count_sent(), now)
        try:
            self._raw.sendto(message, self._target.address)
        except OSError as error:
            raise _Failure(f"sendto: {error.strerror}") from None
        if not options.count or statistics.sent < options.count:
            return now + round(options.interval * 1_000_000)
        seconds = max(statistics.longest // _LONG_ROUND_TRIP, 1) if statistics.received else options.wait
        return now + seconds * 1_000_000

    def _receive(self, seconds: float) -> bool:
        """Wait for a message; whether it is a reply."""
        self._raw.settimeout(seconds)
        try:
            packet, ancillary, _, source = self._raw.recvmsg(_LARGEST_PACKET, socket.CMSG_SPACE(64))
        except TimeoutError:
            return False
        except OSError as error:
            report("ping", f"recvfrom: {error.strerror}")
            return False
        now = _now()
        if self._version == 4:
            ttl, message = packet[8], packet[(packet[0] & 0x0F) * 4 :]
        else:
            ttl = next((int.from_bytes(each[2][:4], sys.byteorder) for each in ancillary), -1)
            message = packet
        reply = decode_reply(message, self._version, self._id, self._options.size)
        if reply is None:
            return False
        line = self._statistics.describe_reply(reply, str(ipaddress.ip_address(source[0].partition("%")[0])), ttl, now)
        if not self._options.is_quiet:
            _print(line)
        return True
