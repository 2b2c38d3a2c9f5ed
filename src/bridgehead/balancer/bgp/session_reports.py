"""Metrics of BGP sessions, under MetalLB's names, and their part of the speaker's status page.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from bridgehead.objects.addresses import join_host_port

from .announcer import PeerState


def session_metrics(states: Sequence[PeerState]) -> Iterator[Metric]:
    """Yield the metrics of sessions. Source: MetalLB, internal/bgp/native/stats.go; frr-k8s for BFD."""
    up = GaugeMetricFamily("metallb_bgp_session_up", "BGP session state (1 is up, 0 is down)", labels=("peer",))
    updates = CounterMetricFamily("metallb_bgp_updates", "Number of BGP UPDATE messages sent", labels=("peer",))
    announced = GaugeMetricFamily(
        "metallb_bgp_announced_prefixes_total",
        "Number of prefixes currently being advertised on the BGP session",
        labels=("peer",),
    )
    pending = GaugeMetricFamily(
        "metallb_bgp_pending_prefixes_total",
        "Number of prefixes that should be advertised on the BGP session",
        labels=("peer",),
    )
    bfd = GaugeMetricFamily("metallb_bfd_session_up", "BFD session state (1 is up, 0 is down)", labels=("peer",))
    for state in states:
        peer = (join_host_port(str(state.address), state.port),)
        up.add_metric(peer, state.status == "established")
        updates.add_metric(peer, state.updates)
        announced.add_metric(peer, state.announced)
        pending.add_metric(peer, state.pending)
        if state.bfd:
            bfd.add_metric((str(state.address),), state.bfd == "up")
    yield from (up, updates, announced, pending, bfd)


def status_section(states: Sequence[PeerState]) -> list[dict[str, Any]]:
    """Return the sessions for the speaker's status page, fit for JSON. `since`: epoch seconds."""
    return [
        {
            "peer": state.name,
            "address": join_host_port(str(state.address), state.port),
            "state": state.status,
            "since": state.since,
            "reason": state.reason,
            "bfd": state.bfd,
            "announced": state.announced,
        }
        for state in states
    ]
