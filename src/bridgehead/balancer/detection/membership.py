"""Live nodes, as one node concludes from heartbeats.

A node is alive while this node has recent evidence of it: a heartbeat of its own, or the age of one in a heartbeat of
another node. Only a heartbeat that echoes a recent packet of the receiver counts, so a node that cannot receive, or
whose packets are replayed, is not alive. Before a silent node is declared dead, another node has to answer after the
silence began; that answer contains its own evidence. A node that receives nothing at all changes nothing for a while:
it is rather cut off itself than the only survivor.

As long as no address is announced anywhere, nothing can be taken over, and heartbeats are rare (`IDLE`). The first node
that has an address to announce goes over to the pace of takeovers (`ACTIVE`); its packets let all others follow at
once, and no node goes back before its speaker restarts.

All times are seconds of the observation clock (`engine.py`). Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from .heartbeat_packets import LONGEST_AGE, Age, Heartbeat, node_id

DEAD_AFTER: Final = 0.3  # without evidence, while any address is announced
QUERY_INTERVAL: Final = 0.02  # between two queries about a silent node
QUERIED: Final = 3  # nodes that are asked about a silent one
ISOLATED_SECONDS: Final = 2.0  # after which a node that receives nothing believes that all others are dead
FIRST_SECONDS: Final = 0.5  # after the start, in which this node only listens
_REPLY_INTERVAL: Final = 0.01
_MICROSECONDS: Final = 1_000_000
_LONG_AGO: Final = float("-inf")
FULL_MESH_NODES: Final = 10  # up to here every node exchanges heartbeats with every other one


class Pace(NamedTuple):
    """Times in seconds. `interval`: between two heartbeats to each neighbour. `dead_after`: without evidence."""

    interval: float
    dead_after: float

    @property
    def echo_age(self) -> float:
        """Age of an echo when packets pass in both directions."""
        return 1.2 * self.interval

    @property
    def confirmation_age(self) -> float:
        """Age, at most, of the last packet of this node that another one has received."""
        return self.dead_after + 2 * self.interval


ACTIVE: Final = Pace(0.05, DEAD_AFTER)
IDLE: Final = Pace(3.0, 12.0)


class Change(NamedTuple):
    """A node that became alive or dead. `silence`: seconds since the last evidence of it."""

    node: str
    is_alive: bool
    reason: str
    silence: float


class Conclusion(NamedTuple):
    """The conclusion. `members`: nodes alive, this one included if the others receive it.

    `leaving`: members that end soon, as planned. `is_isolated`: several peers became silent at once and none has been
    received since, so this node is rather cut off itself. `is_alone`: there are peers, and none is received now.
    """

    members: frozenset[str]
    leaving: frozenset[str]
    is_isolated: bool
    is_alone: bool = False


class _Peer:
    """Another node, and what is known of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = node_id(name)
        self.is_neighbour = True
        self.is_alive = False
        self.direct = _LONG_AGO  # when a heartbeat with a recent echo arrived last
        self.evidence = _LONG_AGO  # when the node was alive for certain, from whatever source
        self.received = _LONG_AGO  # when the last authentic packet arrived
        self.sent = _LONG_AGO
        self.timestamp = 0  # of that packet, to be echoed
        self.is_leaving = False
        self.is_fit = True
        self.suspected: float | None = None  # since when the node has been silent for too long
        self.queried = _LONG_AGO


class Membership:
    """The conclusions of the node `this`. `start`: the time now.

    `changes` are to be taken by the caller.
    """

    def __init__(self, this: str, start: float, *, is_fit: bool = True) -> None:
        self.this = this
        self.is_fit = is_fit
        self.is_leaving = False
        self.changes: list[Change] = []
        self._id = node_id(this)
        self._peers: dict[str, _Peer] = {}
        self._by_id: dict[bytes, _Peer] = {}
        self._next_send = _LONG_AGO
        self._confirmed = _LONG_AGO  # when a packet was sent that a peer has received
        self._confirmed_after = _LONG_AGO  # the end of the last long pause of this node
        self._alone_since: float | None = None  # since when all of several peers are silent
        self._is_isolated = False
        self._is_alone = False
        self._first_until = self._unconfirmed_until = start + FIRST_SECONDS
        self._pace = IDLE

    @property
    def is_active(self) -> bool:
        """Whether heartbeats have the pace of takeovers."""
        return self._pace is ACTIVE

    def activate(self, now: float) -> None:
        """Go over to the pace of takeovers, for the next heartbeats are due now."""
        if self.is_active:
            return
        self._pace = ACTIVE
        self._next_send = now
        # The last heartbeats may be as old as the idle pace allows: the shorter patience begins now.
        for peer in self._peers.values():
            if peer.is_alive:
                peer.evidence = peer.received = now
        if self._confirmed != _LONG_AGO:
            self._confirmed = now

    def set_peers(self, names: Iterable[str]) -> None:
        """Set the other nodes of the cluster, whether or not a speaker runs there."""
        wanted = set(names) - {self.this}
        for name in self._peers.keys() - wanted:
            del self._by_id[self._peers.pop(name).id]
        for name in wanted - self._peers.keys():
            self._peers[name] = peer = _Peer(name)
            self._by_id[peer.id] = peer
        near = neighbours(self.this, wanted)
        for peer in self._peers.values():
            peer.is_neighbour = peer.name in near

    # --- Packets -------------------------------------------------------------------------------------------------

    def receive(self, packet: Heartbeat, now: float) -> str | None:
        """Take an authentic packet. Return the peer that should get a heartbeat at once, or None."""
        peer = self._by_id.get(packet.sender)
        if peer is None or packet.destination != self._id:
            return None
        if packet.timestamp <= peer.timestamp and now - peer.received <= self._pace.dead_after:
            return None  # a duplicate, or overtaken; a lower timestamp after a silence is a node that has restarted
        peer.timestamp, peer.received = packet.timestamp, now
        if packet.is_active:
            self.activate(now)
        echo = packet.echo / _MICROSECONDS
        # A node that no longer receives echoes the same packet for ever.
        moment = min(now, echo + self._pace.echo_age)
        is_recent = now - moment <= self._pace.dead_after
        if is_recent:
            if echo >= self._confirmed_after:
                self._confirmed = max(self._confirmed, echo)
            peer.direct = max(peer.direct, moment)
            peer.evidence = max(peer.evidence, moment)
            peer.is_leaving, peer.is_fit = packet.is_leaving, packet.is_fit
            for age in packet.ages:
                self._relay(age, now)
        if (packet.wants_reply or moment < now) and now - peer.sent >= _REPLY_INTERVAL:
            return peer.name
        return None

    def _relay(self, age: Age, now: float) -> None:
        peer, moment = self._by_id.get(age.node), now - age.seconds
        if peer is not None and age.seconds < LONGEST_AGE and moment > peer.evidence + self._pace.interval / 10:
            peer.evidence = moment
            peer.is_leaving, peer.is_fit = age.is_leaving, age.is_fit

    def heartbeat(self, name: str, now: float, *, wants_reply: bool = False) -> Heartbeat:
        """Return the packet for a peer."""
        peer = self._peers[name]
        peer.sent = now
        ages = [
            Age(other.id, now - other.direct, other.is_leaving, other.is_fit)
            for other in self._peers.values()
            if other is not peer and now - other.direct < LONGEST_AGE
        ]
        return Heartbeat(
            self._id,
            peer.id,
            int(now * _MICROSECONDS),
            peer.timestamp,
            is_leaving=self.is_leaving,
            is_fit=self.is_fit,
            wants_reply=wants_reply,
            is_active=self.is_active,
            ages=ages,
        )

    def announce(self, now: float) -> list[tuple[str, Heartbeat]]:
        """Return heartbeats to all neighbours and members, because this node's own state has changed."""
        self._next_send = now + self._pace.interval
        return [
            (peer.name, self.heartbeat(peer.name, now))
            for peer in self._peers.values()
            if peer.is_neighbour or peer.is_alive
        ]

    # --- Time ----------------------------------------------------------------------------------------------------

    def suspend(self, seconds: float, now: float) -> None:
        """Take into account that this node did not run for a while. After a long pause the others believe it dead."""
        if seconds > self._pace.dead_after:
            self._confirmed = _LONG_AGO
            self._confirmed_after = now - 1 / _MICROSECONDS  # timestamps are rounded down
            self._unconfirmed_until = now + self._pace.confirmation_age

    def next_deadline(self) -> float:
        """Return the time at which `on_timer` has something to do."""
        found = [self._next_send]
        found += [
            peer.evidence + self._pace.dead_after if peer.suspected is None else peer.queried + QUERY_INTERVAL
            for peer in self._peers.values()
            if peer.is_alive
        ]
        if self._alone_since is not None:
            found.append(self._alone_since + ISOLATED_SECONDS)
        if self._peers and not self._is_alone:
            found.append(self._last_received() + self._pace.dead_after)
        return min(found)

    def on_timer(self, now: float) -> list[tuple[str, Heartbeat]]:
        """Return the heartbeats to send now."""
        packets = []
        if now >= self._next_send:
            packets = [
                (peer.name, self.heartbeat(peer.name, now)) for peer in self._peers.values() if peer.is_neighbour
            ]
            # A late heartbeat moves the later ones, so that they are never sent in bursts.
            self._next_send = now + self._pace.interval
        self._conclude(now)
        packets += [(name, self.heartbeat(name, now, wants_reply=True)) for name in sorted(self._queries(now))]
        return packets

    def view(self, now: float) -> Conclusion | None:
        """Return the conclusion; None as long as this node has only listened since its start."""
        self._conclude(now)
        members = {peer.name for peer in self._peers.values() if peer.is_alive}
        is_known = not self._peers or all(peer.is_alive for peer in self._peers.values())
        if now < self._first_until and not (is_known and self._is_confirmed(now)):
            return None
        leaving = {peer.name for peer in self._peers.values() if peer.is_alive and peer.is_leaving}
        if self.is_fit and self._is_confirmed(now):
            members.add(self.this)
            if self.is_leaving:
                leaving.add(self.this)
        return Conclusion(frozenset(members), frozenset(leaving), self._is_isolated, self._is_alone)

    def _audible(self, now: float) -> int:
        """Return how many peers this node receives now, whether or not they receive this node."""
        return sum(now - peer.received <= self._pace.dead_after for peer in self._peers.values())

    def _last_received(self) -> float:
        return max((peer.received for peer in self._peers.values()), default=_LONG_AGO)

    def _is_confirmed(self, now: float) -> bool:
        """Return whether this node may believe that the others receive it.

        A node that receives at most one peer cannot distinguish whose fault it is when that one does not receive it.
        """
        return now - self._confirmed <= self._pace.confirmation_age or (
            self._audible(now) <= 1 and (not self._peers or now >= self._unconfirmed_until)
        )

    # --- Conclusions ---------------------------------------------------------------------------------------------

    def _conclude(self, now: float) -> None:
        self._is_alone = bool(self._peers) and now >= self._last_received() + self._pace.dead_after
        for peer in self._peers.values():
            is_recent = now - peer.evidence <= self._pace.dead_after
            if is_recent:
                peer.suspected = None
            if is_recent and peer.is_fit != peer.is_alive:
                reason = "its heartbeats arrive" if peer.is_fit else "its speaker does not run"
                self._change(peer, is_alive=peer.is_fit, reason=reason, now=now)
            elif peer.is_alive and not is_recent and peer.suspected is None:
                peer.suspected = now
        self._judge([(p, p.suspected) for p in self._peers.values() if p.is_alive and p.suspected is not None], now)

    def _judge(self, silent: list[tuple[_Peer, float]], now: float) -> None:
        """Declare silent nodes dead if the others, or the time, confirm it."""
        others = [peer for peer in self._peers.values() if peer.is_alive and peer.suspected is None]
        is_alone = not others and len(silent) > 1
        if not is_alone:
            self._alone_since = None
            self._is_isolated &= not others
        elif self._alone_since is None:
            self._alone_since, self._is_isolated = now, True
        for peer, suspected in silent:
            if self._alone_since is not None:
                if now - self._alone_since >= ISOLATED_SECONDS:
                    self._change(peer, is_alive=False, reason="no node answers", now=now)
            elif not others:
                self._change(peer, is_alive=False, reason="no heartbeats", now=now)
            elif any(other.direct > suspected for other in others):
                self._change(peer, is_alive=False, reason="no heartbeats, confirmed by another node", now=now)

    def _queries(self, now: float) -> Iterator[str]:
        """Yield the peers to ask about silent nodes: the silent ones and some others."""
        for peer in self._peers.values():
            if peer.is_alive and peer.suspected is not None and now - peer.queried >= QUERY_INTERVAL:
                peer.queried = now
                yield peer.name
                others = (p.name for p in self._peers.values() if p.is_alive and p.suspected is None)
                yield from (name for name, _ in zip(others, range(QUERIED), strict=False))

    def _change(self, peer: _Peer, *, is_alive: bool, reason: str, now: float) -> None:
        peer.is_alive, peer.suspected = is_alive, None
        silence = 0.0 if peer.evidence == _LONG_AGO else now - peer.evidence
        self.changes.append(Change(peer.name, is_alive, reason, silence))


def neighbours(this: str, nodes: Iterable[str]) -> frozenset[str]:
    """Return the nodes to which `this` sends heartbeats; the relation is symmetric.

    In a large cluster the nodes form a grid in the order of their names, and a node's neighbours are its row and its
    column. Any two nodes then have a common neighbour, so news of a node reaches all others after one relay, and a node
    of a cluster of 1,000 sends 62 packets in each interval instead of 999.
    """
    names = sorted({*nodes, this})
    if len(names) <= FULL_MESH_NODES:
        return frozenset(names) - {this}
    width = math.isqrt(len(names) - 1) + 1
    row, column = divmod(names.index(this), width)
    # The last row may be short. Its missing columns are represented by the node in the row above.
    in_row = names[row * width : (row + 1) * width]
    in_column = names[column::width]
    found = {*in_row, *in_column}
    last_row, length = divmod(len(names) - 1, width)
    if row == last_row:
        found.update(names[(last_row - 1) * width + length + 1 : last_row * width])
    elif row == last_row - 1 and column > length:
        found.update(names[last_row * width :])
    return frozenset(found - {this})
