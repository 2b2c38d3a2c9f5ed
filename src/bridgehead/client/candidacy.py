"""Decisions of one candidate for a leader's Lease: when it may take the Lease, and until when it may lead.

Clocks of different machines are never compared: a Lease has expired when this candidate has not seen it change for the
Lease's duration, by its own clock. A leader counts from before it sent its latest renewal, the others from after they
saw that. So no two lead at a time while no clock is faster than another by more than `lease_duration` to
`renew_deadline`, 3 to 2 by default, however long requests take.

Pure: no I/O, no clock, no randomness. Source: client-go's tools/leaderelection; there, a leader counts from the answer
to its renewal.
"""

from __future__ import annotations

from dataclasses import dataclass

from bridgehead.objects.coordination import LeaseSpec

JITTER_FACTOR = 1.2


@dataclass(frozen=True)
class ElectionTimings:
    """Times in seconds, with the defaults of kube-controller-manager. Raises ValueError.

    `lease_duration`: other candidates may take a Lease that was not renewed for so long. `renew_deadline`: a leader
    that cannot renew for so long stops. `retry_period`: between two tries.
    """

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if self.lease_duration < 1 or self.lease_duration != int(self.lease_duration):
            raise ValueError("leaseDuration must be a whole number of seconds, at least 1")
        if self.lease_duration <= self.renew_deadline:
            raise ValueError("leaseDuration must be greater than renewDeadline")
        if self.renew_deadline <= self.retry_period * JITTER_FACTOR:
            raise ValueError("renewDeadline must be greater than retryPeriod*JitterFactor")
        if self.retry_period <= 0:
            raise ValueError("retryPeriod must be greater than zero")


class Candidacy:
    """The state of the candidate `identity`. Times are in seconds, on the candidate's own clock."""

    def __init__(self, identity: str, timings: ElectionTimings) -> None:
        self.identity = identity
        self.timings = timings
        # The candidate may lead before this time, if it holds the Lease.
        self.leads_until = float("-inf")
        self._observed: LeaseSpec | None = None
        self._observed_at = 0.0

    @property
    def holds(self) -> bool:
        """Whether this candidate was the holder when the Lease was last seen."""
        return self._observed is not None and self._observed.holder_identity == self.identity

    @property
    def is_lost(self) -> bool:
        """Whether another candidate was the holder when the Lease was last seen."""
        return self._observed is not None and bool(self._observed.holder_identity) and not self.holds

    @property
    def expires_at(self) -> float:
        """The time at which the candidate may take the Lease, if that does not change any more."""
        if self._observed is None or not self._observed.holder_identity:
            return float("-inf")
        return self._observed_at + (self._observed.lease_duration_seconds or self.timings.lease_duration)

    def observe(self, spec: LeaseSpec, now: float) -> None:
        """Record the Lease as the API server has it. `now`: a time after its answer came."""
        if self._observed != spec:
            self._observed, self._observed_at = spec, now

    def may_write(self, now: float) -> bool:
        """Whether the candidate may take the Lease that it has observed, or holds it."""
        return self.holds or now >= self.expires_at

    def next_spec(self, moment: str) -> LeaseSpec:
        """Return the Lease with which the candidate takes or renews it. `moment`: the date, as of renewTime."""
        held = self._observed
        return LeaseSpec(
            holder_identity=self.identity,
            lease_duration_seconds=int(self.timings.lease_duration),
            acquire_time=held.acquire_time or moment if held is not None and self.holds else moment,
            renew_time=moment,
            lease_transitions=0 if held is None else (held.lease_transitions or 0) + (0 if self.holds else 1),
        )

    def on_written(self, spec: LeaseSpec, sent: float, now: float) -> None:
        """Record that the API server has stored `next_spec`. `sent`: a time before the request."""
        self.observe(spec, now)
        self.leads_until = sent + self.timings.renew_deadline


def released(spec: LeaseSpec, moment: str) -> LeaseSpec:
    """Return a Lease without a holder, which the next candidate may take at once. `moment`: the date."""
    return LeaseSpec(
        holder_identity="",
        lease_duration_seconds=1,
        acquire_time=moment,
        renew_time=moment,
        lease_transitions=spec.lease_transitions,
    )
