"""The engine of heartbeats: UDP sockets and link states around the decisions of `membership.py`.

Messages from the speaker, all keys but "to" optional:

    {"to": "heartbeats", "this": "node1", "port": 7946, "key": "hexadecimal", "peers": {"node2": "10.0.0.202"},
     "links": ["eth0"], "ready": true, "leaving": true, "active": true}

`links`: announcements need one of these interfaces to transmit; none: no condition. `ready`: the speaker can announce.
`active`: it has an address to announce.

Messages to the speaker, when the view or this node's own state changes:

    {"to": "heartbeats", "members": ["node1"], "leaving": [], "isolated": false, "alone": false, "is_fit": true,
     "changes": [["node2", false, "no heartbeats", 0.31]]}

A message of the speaker also opens the port. While that fails, this node is unfit, and each attempt is reported; the
error is "" after a success:

    {"to": "heartbeats", "error": "cannot bind UDP port 7946: Address already in use"}
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Collection, Iterable
from typing import Final

from bridgehead.network.link_states import LinkStates

from .engine import NEVER, Descriptor, Message, Report
from .heartbeat_packets import MAX_BYTES, Heartbeat, decode, encode
from .membership import Conclusion, Membership

NAME: Final = "heartbeats"
DEFAULT_PORT: Final = 7946  # MetalLB's memberlist
_PACKETS_AT_ONCE: Final = 500
_REPEATED: Final = 2  # copies of the last heartbeat of a node that ends
_TRANSITION_SECONDS: Final = 60.0  # in which two keys are in use
_EXPEDITED: Final = 0xC0  # IP_TOS: DSCP class selector 6, network control


class Heartbeats:
    """The engine. Without a key or a port nothing is sent."""

    name = NAME

    def __init__(self, report: Report) -> None:
        self._report = report
        self._membership: Membership | None = None
        self._keys: list[bytes] = []  # the newest first
        self._retires_at = NEVER  # when the older key is no longer used
        self._has_newest: set[bytes] = set()  # peers that have used the newest key
        self._addresses: dict[str, str] = {}
        self._port = 0
        self._sockets: dict[int, socket.socket] = {}  # by address family
        self._bind_error = ""
        self._links = LinkStates()
        self._needed_links: frozenset[str] = frozenset()
        self._is_ready = False
        self._is_speaker_running = True
        self._last: tuple[Conclusion, bool] | None = None

    @property
    def is_active(self) -> bool:
        return self._membership is not None and self._membership.is_active

    def descriptors(self) -> Collection[Descriptor]:
        return (*self._sockets.values(), self._links)

    def next_deadline(self) -> float:
        return NEVER if self._membership is None or not self._keys else self._membership.next_deadline()

    # --- The speaker ---------------------------------------------------------------------------------------------

    def on_message(self, message: Message, now: float) -> None:
        if "this" in message and self._membership is None:
            self._membership = Membership(message["this"], now, is_fit=False)
        if "key" in message:
            self._take_key(bytes.fromhex(message["key"]), now)
        if "port" in message and message["port"] != self._port:
            self._port = message["port"]
            self._close_sockets()
        if "peers" in message:
            self._addresses = message["peers"]
            if self._membership is not None:
                self._membership.set_peers(self._addresses)
        if "links" in message:
            self._needed_links = frozenset(message["links"])
        if message.get("active") and self._membership is not None:
            self._membership.activate(now)
        self._is_ready = message.get("ready", self._is_ready)
        if "leaving" in message and self._membership is not None:
            self._membership.is_leaving = message["leaving"]
            self._send(self._membership.announce(now))
        self._open_sockets()
        self._set_fit(now)
        self._conclude(now)

    def _take_key(self, key: bytes, now: float) -> None:
        """Use a key, and the last one beside it for a while: not all nodes learn of the new one at the same time."""
        if key not in self._keys[:1]:
            self._keys = [key, *self._keys[:1]]
            self._has_newest.clear()
            self._retires_at = now + _TRANSITION_SECONDS

    def on_speaker(self, is_running: bool, now: float) -> None:
        self._is_speaker_running = is_running
        self._set_fit(now)
        self._conclude(now)

    def on_end(self, now: float) -> None:
        self._is_speaker_running = False
        for _ in range(_REPEATED):
            self._set_fit(now)
            if self._membership is not None:
                self._send(self._membership.announce(now))
        self._close_sockets()
        self._links.close()

    def _set_fit(self, now: float) -> None:
        """Let the others know at once when this node can no longer announce, or can again."""
        is_linked = not self._needed_links or any(self._links.transmits(name) for name in self._needed_links)
        # Without its port this node receives nobody, and would take itself for the only one.
        is_fit = self._is_ready and self._is_speaker_running and is_linked and not self._bind_error
        if self._membership is not None and is_fit != self._membership.is_fit:
            self._membership.is_fit = is_fit
            self._send(self._membership.announce(now))

    # --- The network ---------------------------------------------------------------------------------------------

    def on_timer(self, now: float) -> None:
        if now >= self._retires_at:
            del self._keys[1:]
            self._retires_at = NEVER
        if self._membership is not None:
            self._send(self._membership.on_timer(now))
            self._conclude(now)

    def on_suspension(self, seconds: float, now: float) -> None:
        if self._membership is not None:
            self._membership.suspend(seconds, now)

    def on_input(self, descriptor: Descriptor, now: float) -> None:
        if descriptor is self._links:
            self._links.update()
            self._set_fit(now)
        elif isinstance(descriptor, socket.socket) and self._membership is not None:
            self._receive(descriptor, self._membership, now)
        self._conclude(now)

    def _receive(self, sock: socket.socket, membership: Membership, now: float) -> None:
        for _ in range(_PACKETS_AT_ONCE):
            try:
                data = sock.recv(MAX_BYTES)
            except BlockingIOError:
                return
            except OSError:
                continue  # an ICMP error of an earlier packet
            packet = self._decode(data)
            if packet is not None:
                name = membership.receive(packet, now)
                if name is not None:
                    self._send([(name, membership.heartbeat(name, now))])

    def _decode(self, data: bytes) -> Heartbeat | None:
        for key in self._keys:
            packet = decode(data, key)
            if packet is not None:
                if key == self._keys[0]:
                    self._has_newest.add(packet.sender)
                return packet
        return None

    def _send(self, packets: Iterable[tuple[str, Heartbeat]]) -> None:
        for name, packet in packets:
            address = self._addresses.get(name, "")
            sock = self._sockets.get(socket.AF_INET6 if ":" in address else socket.AF_INET)
            if sock is None or not address:
                continue
            # A node that has both keys drops the second packet, which has the same timestamp.
            for key in self._keys[:1] if packet.destination in self._has_newest else self._keys:
                # A packet that cannot be sent is a lost one: the others notice the silence.
                with contextlib.suppress(OSError):
                    sock.sendto(encode(packet, key), (address, self._port))

    def _open_sockets(self) -> None:
        """Open a socket for each family of the peers' addresses, and report a port that cannot be used."""
        families = {socket.AF_INET6 if ":" in address else socket.AF_INET for address in self._addresses.values()}
        error = ""
        for family in sorted(families - self._sockets.keys()) if self._port else ():
            try:
                self._sockets[family] = _bound_socket(family, self._port)
            except OSError as failure:
                error = f"cannot bind UDP port {self._port}: {failure.strerror}"
        if error or self._bind_error:
            self._bind_error = error
            self._report({"to": NAME, "error": error})

    def _close_sockets(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        self._sockets.clear()

    # --- Conclusions ---------------------------------------------------------------------------------------------

    def _conclude(self, now: float) -> None:
        """Report the view when it has changed."""
        if self._membership is None or not self._keys:
            return
        view = self._membership.view(now)
        if view is None or (view, self._membership.is_fit) == self._last:
            return
        is_sent = self._report(
            {
                "to": NAME,
                "members": sorted(view.members),
                "leaving": sorted(view.leaving),
                "isolated": view.is_isolated,
                "alone": view.is_alone,
                "is_fit": self._membership.is_fit,
                "changes": self._membership.changes,
            }
        )
        if is_sent:  # otherwise again at the next timer: the speaker is stopped and does not read
            self._membership.changes = []
            self._last = (view, self._membership.is_fit)


def _bound_socket(family: int, port: int) -> socket.socket:
    """Return a socket for heartbeats of one address family. Raises OSError."""
    sock = socket.socket(family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_TCLASS, _EXPEDITED)
        else:
            sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, _EXPEDITED)
        sock.bind(("", port))
    except OSError:
        sock.close()
        raise
    return sock
