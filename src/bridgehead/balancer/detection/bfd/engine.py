"""All BFD sessions of a node and their sockets: an engine of the failure detector's process (`detection/engine.py`)."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import math
import random
import socket
import struct
from collections.abc import Collection, Iterable
from typing import NamedTuple

from bridgehead.balancer.detection.engine import Descriptor, Message, Report

from .messages import ENGINE_NAME, Change, Neighbor, SessionSettings, read_request
from .outbox import Outbox
from .packet_filter import render_filter
from .packets import (
    MULTI_HOP_PORT,
    SINGLE_HOP_PORT,
    SINGLE_HOP_TTL,
    BadPacket,
    ControlPacket,
    State,
    parse_packet_untrusted,
    render_packet,
)
from .session import Session

SPEAKER_PATIENCE_SECONDS = 3.0  # a speaker that a busy machine delays does not cost its sessions
_FIRST_SOURCE_PORT, _LAST_SOURCE_PORT = 49152, 65535  # RFC 5881, section 4
_SOURCE_PORT_TRIES = 64
_INTERNETWORK_CONTROL = 0xC0  # type of service (RFC 2474: class selector 6)
_SO_ATTACH_FILTER = 26  # asm-generic/socket.h; Python's socket module lacks it
_INSTRUCTION_BYTES = 8
_DATAGRAMS_AT_ONCE = 64  # then others have their turn, whatever is still waiting
_LONGEST_PACKET = 64  # bytes; control packets with authentication have at most 52


class _Running(NamedTuple):
    session: Session
    sock: socket.socket
    port: int


class BfdEngine:
    """The sessions of one network namespace. `report` sends a message to the speaker."""

    name = ENGINE_NAME

    def __init__(self, report: Report) -> None:
        self._outbox = Outbox(report)
        self._settings: dict[Neighbor, SessionSettings] = {}
        self._running: dict[Neighbor, _Running] = {}
        self._by_discriminator: dict[int, Neighbor] = {}
        self._receivers: dict[tuple[int, int], socket.socket] = {}  # by address family and port
        self._mute_at = math.inf

    @property
    def is_active(self) -> bool:
        return bool(self._settings)

    def descriptors(self) -> Collection[socket.socket]:
        return self._receivers.values()

    def next_deadline(self) -> float:
        deadlines = (running.session.next_deadline for running in self._running.values())
        return min(self._outbox.next_deadline, min(deadlines, default=math.inf))

    def on_message(self, message: Message, now: float) -> None:
        """Run exactly the sessions that the speaker wants. Sessions that are there already keep their state."""
        wanted = read_request(message)
        for neighbor in [neighbor for neighbor in self._running if neighbor not in wanted]:
            self._end(neighbor, now)
        self._settings = wanted
        errors = self._open_receivers()
        for neighbor, settings in wanted.items():
            running = self._running.get(neighbor)
            error = errors.get((_family(neighbor), _port(neighbor)), "")
            if running is not None:
                running.session.change_timing(settings.timing, now)
            elif not error:
                error = self._begin(neighbor, settings, now)
            if error:
                self._outbox.add(Change(neighbor, error=error), now)
        self._filter_senders()

    def on_input(self, descriptor: Descriptor, now: float) -> None:
        for sock in self._receivers.values():
            if sock is descriptor:
                self._receive(sock, now)

    def on_timer(self, now: float) -> None:
        if now >= self._outbox.next_deadline:
            self._outbox.send_waiting(now)
        for neighbor, running in self._running.items():
            if now >= running.session.next_deadline:
                before = running.session.state
                self._send(neighbor, running.session.on_timer(now), now)
                self._report_difference(neighbor, running.session, before, now)

    def on_suspension(self, seconds: float, now: float) -> None:
        """Do nothing: the pause does not count in any time that the sessions compare."""

    def on_speaker(self, is_running: bool, now: float) -> None:
        """Fall silent some time after the speaker stopped, as if the node were cut off.

        Its routes lead to this node whatever happens to the endpoints, since no other process withdraws them.
        """
        self._mute_at = math.inf if is_running else now + SPEAKER_PATIENCE_SECONDS

    def on_end(self, now: float) -> None:
        """End all sessions, so that the neighbours do not take it for a failure."""
        for neighbor in list(self._running):
            self._end(neighbor, now)
        for sock in self._receivers.values():
            sock.close()

    def _receive(self, sock: socket.socket, now: float) -> None:
        for _ in range(_DATAGRAMS_AT_ONCE):
            try:
                data, source = sock.recvfrom(_LONGEST_PACKET)
            except OSError:  # nothing waits any more
                return
            self._take(data, source[0], sock, now)

    def _begin(self, neighbor: Neighbor, settings: SessionSettings, now: float) -> str:
        """Start a session. Returns why it cannot start, or ""."""
        try:
            sock = _sending_socket(neighbor)
        except OSError as error:
            return f"cannot send from {neighbor.local or 'this node'} to {neighbor.remote}: {error.strerror or error}"
        discriminator = 0
        while not discriminator or discriminator in self._by_discriminator:
            discriminator = random.getrandbits(32)
        session = Session(settings.timing, discriminator, now, random.random)
        self._by_discriminator[discriminator] = neighbor
        self._running[neighbor] = _Running(session, sock, _port(neighbor))
        return ""

    def _end(self, neighbor: Neighbor, now: float) -> None:
        running = self._running[neighbor]
        self._send(neighbor, [running.session.farewell()], now)
        del self._running[neighbor]
        del self._by_discriminator[running.session.discriminator]
        self._outbox.forget(neighbor)
        running.sock.close()

    def _open_receivers(self) -> dict[tuple[int, int], str]:
        """Have a receiving socket for each family and port in use. Returns the errors of those that failed."""
        needed = {(_family(neighbor), _port(neighbor)) for neighbor in self._settings}
        for key in self._receivers.keys() - needed:
            self._receivers.pop(key).close()
        errors = {}
        for family, port in needed - self._receivers.keys():
            try:
                self._receivers[family, port] = _receiving_socket(family, port)
            except OSError as error:
                errors[family, port] = f"cannot receive BFD packets at UDP port {port}: {error.strerror or error}"
        return errors

    def _filter_senders(self) -> None:
        """Let the kernel drop packets of unknown senders: a flood of them displaces no neighbour's packet."""
        for (family, port), sock in self._receivers.items():
            minimum_ttls = {
                neighbor.remote: settings.minimum_ttl if neighbor.is_multi_hop else SINGLE_HOP_TTL
                for neighbor, settings in self._settings.items()
                if (_family(neighbor), _port(neighbor)) == (family, port)
            }
            _attach(sock, render_filter(minimum_ttls))

    def _take(self, data: bytes, source: str, sock: socket.socket, now: float) -> None:
        try:
            packet = parse_packet_untrusted(data)
        except BadPacket:
            return
        neighbor = self._addressee(packet, source, sock is self._receivers.get((sock.family, MULTI_HOP_PORT)))
        if neighbor is None:
            return
        running = self._running[neighbor]
        before = running.session.state
        self._send(neighbor, running.session.on_packet(packet, now), now)
        self._report_difference(neighbor, running.session, before, now)

    def _addressee(self, packet: ControlPacket, source: str, is_multi_hop: bool) -> Neighbor | None:
        """Return the neighbour whose session a packet belongs to (RFC 5880, section 6.3); None without a session."""
        if packet.your_discriminator:
            found = self._by_discriminator.get(packet.your_discriminator)
            is_right = found is not None and (found.remote, found.is_multi_hop) == (source, is_multi_hop)
            return found if is_right else None
        for neighbor in self._running:
            if (neighbor.remote, neighbor.is_multi_hop) == (source, is_multi_hop):
                return neighbor
        return None

    def _send(self, neighbor: Neighbor, packets: Iterable[ControlPacket], now: float) -> None:
        if now >= self._mute_at:
            return
        running = self._running[neighbor]
        for packet in packets:
            with contextlib.suppress(OSError):  # no route at the moment: the neighbour will miss the packet
                running.sock.sendto(render_packet(packet), (neighbor.remote, running.port))

    def _report_difference(self, neighbor: Neighbor, session: Session, before: State, now: float) -> None:
        if session.state != before:
            is_ended = session.state == State.DOWN and session.remote_state == State.ADMIN_DOWN
            self._outbox.add(Change(neighbor, session.state, session.diagnostic, is_ended), now)


def _family(neighbor: Neighbor) -> int:
    return socket.AF_INET6 if ":" in neighbor.remote else socket.AF_INET


def _port(neighbor: Neighbor) -> int:
    return MULTI_HOP_PORT if neighbor.is_multi_hop else SINGLE_HOP_PORT


def _sending_socket(neighbor: Neighbor) -> socket.socket:
    sock = socket.socket(_family(neighbor), socket.SOCK_DGRAM)
    try:
        if sock.family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS, SINGLE_HOP_TTL)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, _INTERNETWORK_CONTROL)
        else:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, SINGLE_HOP_TTL)
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _INTERNETWORK_CONTROL)
        sock.setblocking(False)
        for tries_left in reversed(range(_SOURCE_PORT_TRIES)):
            try:
                sock.bind((neighbor.local, random.randint(_FIRST_SOURCE_PORT, _LAST_SOURCE_PORT)))
                break
            except OSError as error:
                if error.errno != errno.EADDRINUSE or not tries_left:
                    raise
    except OSError:
        sock.close()
        raise
    return sock


def _receiving_socket(family: int, port: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_DGRAM)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.setblocking(False)
        sock.bind(("", port))
    except OSError:
        sock.close()
        raise
    return sock


def _attach(sock: socket.socket, program: bytes) -> None:
    """Attach a socket filter (socket(7), SO_ATTACH_FILTER). Raises OSError."""
    instructions = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, and where they are
    head = struct.pack("@HP", len(program) // _INSTRUCTION_BYTES, ctypes.addressof(instructions))
    sock.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, head)
