"""HTTP pages of a speaker: health, metrics, and the status that `bridgehead balancer status` reads."""

from __future__ import annotations

import json
import time
from typing import Any

from bridgehead.balancer.announcer import Held
from bridgehead.pages import Page, Routes, metrics_page

from .metrics import SpeakerMetrics
from .speaker_reconciler import SpeakerReconciler


def speaker_routes(reconciler: SpeakerReconciler, metrics: SpeakerMetrics) -> Routes:
    """Return the pages. /healthz shows that the event loop runs.

    /readyz is 503 until the speaker announces, /started while a rollout should wait for this speaker.
    """

    def page(reason: str) -> Page:
        return Page(503, reason.encode()) if reason else Page(200, b"ok")

    return {
        "/healthz": lambda: Page(200, b"ok"),
        "/readyz": lambda: page(reconciler.unready_reason),
        "/started": lambda: page(reconciler.unstarted_reason),
        "/metrics": metrics_page(metrics.registry),
        "/status": lambda: Page(200, json.dumps(status(reconciler)).encode(), "application/json"),
    }


def status(reconciler: SpeakerReconciler) -> dict[str, Any]:
    """Return what the speaker does, fit for JSON. Times are epoch seconds, durations seconds.

    `deaths`: how often this node concluded that another one is dead. `changes`: the last nodes that became alive or
    dead, as this node concluded. `takeovers`: the last times that this node took addresses of dead nodes over.
    `sections`: what the announcers add by protocol.
    """
    members = reconciler.members
    return {
        "node": reconciler.view.this_node,
        "time": time.time(),
        "notReady": reconciler.unready_reason,
        "configurationError": reconciler.configuration.error,
        "members": sorted(reconciler.view.members),
        "leaving": sorted(members.members.leaving),
        "isolated": reconciler.view.is_isolated,
        "detectorError": members.error,
        "held": [_held(held) for held in sorted(reconciler.held, key=lambda held: (held.service, held.address.packed))],
        "takeovers": [
            {
                "at": takeover.at,
                "nodes": list(takeover.nodes),
                "reason": takeover.reason,
                "addresses": takeover.addresses,
                "seconds": round(takeover.seconds, 3),
            }
            for takeover in reconciler.takeovers.latest
        ],
        "deaths": members.deaths,
        "changes": [
            {
                "at": change.at,
                "node": change.node,
                "alive": change.is_alive,
                "reason": change.reason,
                "silence": round(change.silence, 3),
            }
            for change in members.history
        ],
        "sections": {name: section() for name, section in reconciler.sections.items()},
    }


def _held(held: Held) -> dict[str, Any]:
    return {
        "address": str(held.address),
        "service": str(held.service),
        "protocol": held.protocol,
        "since": held.since,
        "detail": list(held.detail),
        "why": held.why,
    }
