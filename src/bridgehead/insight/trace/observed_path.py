"""The way of a traced connection through one node's nf_tables, from the kernel's events.

A packet passes base chains, hook by hook. The kernel reports the packet's addresses with the first event of each base
chain, so a translation shows in the next one.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.network.flow_trace import TABLE_PREFIX, Header, TraceEvent
from bridgehead.objects.addresses import join_host_port

from .rule_texts import ChainName, RuleTexts

_MOST_PACKETS = 12  # of one connection at one node
_MOST_HOPS = 200  # of one packet


class Hop(msgspec.Struct, frozen=True, kw_only=True):
    """A rule that a packet matched, or the policy of a base chain that dropped it.

    `chain`: "ip nat KUBE-SERVICES". `rule`: its text, "" if it is not known any more. `verdict`: continue, accept,
    drop, reject, return, "jump CHAIN", "goto CHAIN".
    """

    chain: str
    rule: str
    verdict: str


class PacketPath(msgspec.Struct, frozen=True, kw_only=True):
    """One packet. `first` and `last`: its addresses in the first and in the last base chain.

    `is_reply`: it goes to the client. `end`: the hop that dropped or rejected it; None if none did. `interfaces`: the
    indexes of the incoming and the outgoing interface, 0 for none.
    """

    first: Header
    last: Header
    is_reply: bool = False
    hops: tuple[Hop, ...] = ()
    end: Hop | None = None
    interfaces: tuple[int, int] = (0, 0)


class Journey(msgspec.Struct, frozen=True, kw_only=True):
    """The packets of the connection at one node, in the order in which they came."""

    node: str
    packets: tuple[PacketPath, ...] = ()

    @property
    def request(self) -> PacketPath | None:
        """The first packet to the server."""
        return next((packet for packet in self.packets if not packet.is_reply), None)

    @property
    def ended(self) -> PacketPath | None:
        """The first packet that a rule dropped or rejected."""
        return next((packet for packet in self.packets if packet.end is not None), None)


def chains_of(events: Iterable[TraceEvent]) -> set[ChainName]:
    """Return the chains whose rules the packets matched."""
    return {(e.family, e.table, e.chain) for e in events if e.kind == "rule" and e.handle and not _is_ours(e)}


def journey(node: str, events: Iterable[TraceEvent], texts: RuleTexts, client_port: int) -> Journey:
    """Return the packets of a node's events. `client_port`: the port from which the connection was made.

    Packets of which the kernel reported no addresses are left out.
    """
    by_packet: dict[int, list[TraceEvent]] = {}
    for event in events:
        by_packet.setdefault(event.packet, []).append(event)
    paths = (_path(found, texts, client_port) for found in by_packet.values())
    return Journey(node=node, packets=tuple(path for path in paths if path is not None)[:_MOST_PACKETS])


def _path(events: list[TraceEvent], texts: RuleTexts, client_port: int) -> PacketPath | None:
    headers = [event.header for event in events if event.header is not None]
    if not headers:
        return None
    hops = []
    end: Hop | None = None
    for event in events:
        if _is_ours(event) or not _matters(event):
            continue
        hop = _hop(event, texts)
        hops.append(hop)
        if hop.verdict in ("drop", "reject"):
            end = hop
    interfaces = [event.interfaces for event in events if event.header is not None]
    return PacketPath(
        first=headers[0],
        last=headers[-1],
        is_reply=headers[0].source_port != client_port and headers[0].destination_port == client_port,
        hops=tuple(hops[:_MOST_HOPS]),
        end=end,
        interfaces=(
            next((found[0] for found in interfaces if found[0]), 0),
            next((found[1] for found in reversed(interfaces) if found[1]), 0),
        ),
    )


def _is_ours(event: TraceEvent) -> bool:
    return event.table.startswith(TABLE_PREFIX)


def _matters(event: TraceEvent) -> bool:
    """Leave out the ends of chains, unless a policy dropped the packet."""
    return bool(event.handle) if event.kind == "rule" else event.kind == "policy" and event.verdict == "drop"


def _hop(event: TraceEvent, texts: RuleTexts) -> Hop:
    chain = f"{event.family} {event.table} {event.chain}"
    if event.kind == "policy":
        return Hop(chain=chain, rule=f"policy {event.verdict}", verdict=event.verdict)
    rule = texts.get((event.family, event.table, event.handle), "")
    verdict = f"{event.verdict} {event.target}".strip()
    if event.verdict == "drop" and "reject" in rule.lower().split():  # the kernel reports a rejection as a drop
        verdict = "reject"
    return Hop(chain=chain, rule=rule, verdict=verdict)


def translations(path: PacketPath) -> tuple[str, ...]:
    """Return the changes of a packet's addresses between its first and its last base chain, a text each."""
    first, last = path.first, path.last
    pairs = (
        ("destination", (first.destination, first.destination_port), (last.destination, last.destination_port)),
        ("source", (first.source, first.source_port), (last.source, last.source_port)),
    )
    return tuple(
        f"{what} {join_host_port(*before)} -> {join_host_port(*after)}"
        for what, before, after in pairs
        if before != after
    )
