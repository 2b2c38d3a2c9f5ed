"""Limits of priority levels: requests that are carried out at a time, and requests that wait.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "API Priority and Fairness", nominal concurrency limits,
seats borrowing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from bridgehead.apiserver.resource import JsonObject

# kube-apiserver's --max-requests-inflight and --max-mutating-requests-inflight together.
TOTAL_SEATS = 600


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of a level. `seats` None: exempt from all limits.

    `lendable` of the seats may be used by other levels while this one does not need them; the level always gets the
    others. `borrowable` seats of other levels are the most that it may use in addition.
    `queued` and `queued_of_flow` are how many requests may wait in the level and of one flow in it; 0: none.
    """

    seats: int | None
    queued: int = 0
    queued_of_flow: int = 0
    lendable: int = 0
    borrowable: int = 0

    @property
    def lower(self) -> int:
        """The seats that no other level uses."""
        return (self.seats or 0) - self.lendable

    @property
    def upper(self) -> int:
        """The most seats that the level may use."""
        return (self.seats or 0) + self.borrowable


def plan_limits(specs: Mapping[str, JsonObject], total: int = TOTAL_SEATS) -> dict[str, Limits]:
    """Return the limits of levels by name, from their specs with default values. Limited ones share the seats."""
    shares = {name: spec["limited"]["nominalConcurrencyShares"] for name, spec in specs.items() if "limited" in spec}
    of_exempt = sum(spec.get("exempt", {}).get("nominalConcurrencyShares", 0) for spec in specs.values())
    whole = sum(shares.values()) + of_exempt
    limits = {}
    for name, spec in specs.items():
        if name not in shares:
            limits[name] = Limits(None)
            continue
        seats = math.ceil(total * shares[name] / whole) if whole else 0
        limited = spec["limited"]
        queuing = limited.get("limitResponse", {}).get("queuing") or {"queues": 0, "handSize": 0, "queueLengthLimit": 0}
        length, borrowing = queuing["queueLengthLimit"], limited.get("borrowingLimitPercent")
        limits[name] = Limits(
            seats,
            queuing["queues"] * length,
            queuing["handSize"] * length,
            _percentage(seats, limited.get("lendablePercent", 0)),
            total - seats if borrowing is None else min(total - seats, _percentage(seats, borrowing)),
        )
    return limits


def _percentage(seats: int, percent: int) -> int:
    """Return a part of seats; halves are rounded up."""
    return (2 * seats * percent + 100) // 200
