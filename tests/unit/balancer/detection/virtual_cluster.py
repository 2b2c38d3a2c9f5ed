"""Nodes with a `Membership` each, on a virtual network and a virtual clock."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from bridgehead.balancer.detection.heartbeat_packets import Heartbeat
from bridgehead.balancer.detection.membership import Conclusion, Membership
from bridgehead.balancer.detection.process import ObservationClock

LATENCY = 0.001


@dataclass
class VirtualNode:
    name: str
    clock: ObservationClock
    membership: Membership
    inbox: list[Heartbeat] = field(default_factory=list)
    is_paused: bool = False
    is_dead: bool = False
    views: list[tuple[float, Conclusion]] = field(default_factory=list)  # with the real time of each change


class VirtualCluster:
    """`passes(sender, receiver)` decides about each packet. All times are seconds since the start.

    `is_active`: the nodes have addresses to announce. `sent` counts the packets.
    """

    def __init__(self, *names: str, is_active: bool = True) -> None:
        self.now = 0.0
        self.sent = 0
        self._is_active = is_active
        self.passes: Callable[[str, str], bool] = lambda sender, receiver: True
        self.nodes: dict[str, VirtualNode] = {}
        self._queue: list[tuple[float, int, str, Heartbeat | None]] = []  # None: a timer
        self._count = itertools.count()
        for number, name in enumerate(names):
            self._add(name, number * 0.013)
        self._names = names

    def _add(self, name: str, phase: float) -> None:
        membership = Membership(name, self.now)
        if self._is_active:
            membership.activate(self.now)
        self.nodes[name] = VirtualNode(name, ObservationClock(self.now), membership)
        self._push(self.now + phase, name)

    def start(self) -> VirtualCluster:
        """Let all nodes find each other."""
        for node in self.nodes.values():
            node.membership.set_peers(self._names)
        self.run(1.0)
        return self

    def _push(self, at: float, name: str, packet: Heartbeat | None = None) -> None:
        heapq.heappush(self._queue, (at, next(self._count), name, packet))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.now, _, name, packet = heapq.heappop(self._queue)
            node = self.nodes[name]
            if node.is_dead:
                continue
            if packet is not None:
                node.inbox.append(packet)
            if not node.is_paused:
                self._step(node, is_timer=packet is None)
        self.now = end

    def _step(self, node: VirtualNode, *, is_timer: bool) -> None:
        membership = node.membership
        was_active = membership.is_active
        suspended = node.clock.advance(self.now, membership.next_deadline())
        now = node.clock.now
        if suspended:
            membership.suspend(suspended, now)
        inbox, node.inbox = node.inbox, []
        for packet in inbox:
            reply_to = membership.receive(packet, now)
            if reply_to is not None:
                self._send(node.name, reply_to, membership.heartbeat(reply_to, now))
        if now >= membership.next_deadline() - 1e-9:
            for name, packet in membership.on_timer(now):
                self._send(node.name, name, packet)
        view = membership.view(now)
        if view is not None and (not node.views or node.views[-1][1] != view):
            node.views.append((self.now, view))
        if is_timer or membership.is_active != was_active:
            wait = max(0.001, node.clock.until(membership.next_deadline(), self.now))
            self._push(self.now + wait, node.name)

    def _send(self, sender: str, receiver: str, packet: Heartbeat) -> None:
        self.sent += 1
        if receiver in self.nodes and self.passes(sender, receiver):
            self._push(self.now + LATENCY, receiver, packet)

    def announce(self, name: str, *, is_fit: bool = True, is_leaving: bool = False) -> None:
        """Change a node's own state, which it sends to the others at once."""
        node = self.nodes[name]
        node.membership.is_fit, node.membership.is_leaving = is_fit, is_leaving
        node.clock.advance(self.now, self.now)
        for receiver, packet in node.membership.announce(node.clock.now):
            self._send(name, receiver, packet)

    def activate(self, name: str) -> None:
        """Let a node have an address to announce."""
        node = self.nodes[name]
        node.clock.advance(self.now, self.now)
        node.membership.activate(node.clock.now)
        self._push(self.now, name)

    def pause(self, *names: str) -> None:
        for name in names:
            self.nodes[name].is_paused = True

    def resume(self, *names: str) -> None:
        for name in names:
            self.nodes[name].is_paused = False
            self._push(self.now, name)

    def members(self, name: str) -> set[str]:
        """Return the members in the last view of a node."""
        return set(self.nodes[name].views[-1][1].members)

    def all_members(self) -> list[set[str]]:
        return [self.members(node.name) for node in self.nodes.values() if not (node.is_dead or node.is_paused)]
