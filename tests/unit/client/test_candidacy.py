"""Decisions of candidates, alone and with clocks that run at different rates."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.client.candidacy import Candidacy, ElectionTimings, released
from bridgehead.objects.coordination import LeaseSpec

TIMINGS = ElectionTimings()


def held(by: str = "other", renewed: str = "t0", **fields: int | str | None) -> LeaseSpec:
    return LeaseSpec(holder_identity=by, renew_time=renewed, **{"lease_duration_seconds": 15, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "error"),
    [
        ((15, 15, 2), "leaseDuration must be greater than renewDeadline"),
        ((15, 2.4, 2), r"renewDeadline must be greater than retryPeriod\*JitterFactor"),
        ((15, 10, 0), "retryPeriod must be greater than zero"),
        ((0, -1, -2), "leaseDuration must be a whole number of seconds"),
        ((2.5, 2, 1), "leaseDuration must be a whole number of seconds"),
    ],
)
def test_times_that_do_not_fit_are_refused(times, error):
    with pytest.raises(ValueError, match=error):
        ElectionTimings(*times)


def test_a_lease_may_be_taken_when_it_has_not_changed_for_its_duration():
    candidacy = Candidacy("me", TIMINGS)
    candidacy.observe(held(), 100.0)
    assert not candidacy.may_write(114.9)
    assert candidacy.is_lost
    candidacy.observe(held(), 110.0)
    assert candidacy.may_write(115.0), "the same record"
    candidacy.observe(held(renewed="t1"), 110.0)
    assert not candidacy.may_write(124.9)
    candidacy.observe(held(renewed="t2", lease_duration_seconds=3), 200.0)
    assert candidacy.may_write(203.0), "the holder's duration counts"
    candidacy.observe(held(renewed="t3", lease_duration_seconds=None), 300.0)
    assert candidacy.expires_at == 315.0


def test_a_free_lease_may_be_taken_at_once_and_counts_as_a_transition():
    candidacy = Candidacy("me", TIMINGS)
    candidacy.observe(released(held(lease_transitions=4), "t1"), 0.0)
    assert candidacy.may_write(0.0)
    assert not candidacy.is_lost
    spec = candidacy.next_spec("t2")
    assert spec == held("me", "t2", acquire_time="t2", lease_transitions=5)
    candidacy.on_written(spec, 0.5, 1.0)
    assert candidacy.holds
    assert candidacy.leads_until == 10.5, "from before the request"


def test_a_renewal_keeps_the_time_of_acquisition():
    candidacy = Candidacy("me", TIMINGS)
    assert candidacy.next_spec("t0").lease_transitions == 0
    candidacy.on_written(candidacy.next_spec("t0"), 0.0, 0.1)
    assert candidacy.next_spec("t1") == held("me", "t1", acquire_time="t0", lease_transitions=0)


# --- Several candidates ---------------------------------------------------------------------------------------


@dataclass
class Store:
    """The API server's Lease. A write needs the version that its writer has read."""

    spec: LeaseSpec | None = None
    version: int = 0

    def write(self, spec: LeaseSpec, version: int) -> bool:
        if version != self.version:
            return False
        self.spec, self.version = spec, version + 1
        return True


@dataclass
class Simulated:
    """A candidate whose clock runs at `rate`. `spans`: when it led, in true time."""

    candidacy: Candidacy
    rate: float
    spans: list[tuple[float, float]] = field(default_factory=list)

    def clock(self, now: float) -> float:
        return now * self.rate

    def on_written(self, spec: LeaseSpec, sent: float, now: float) -> None:
        self.candidacy.on_written(spec, self.clock(sent), self.clock(now))
        until = self.candidacy.leads_until / self.rate
        if until > now:  # else the answer came too late
            self.spans.append((now, until))


# Most requests are quick, so that candidates see renewals; some take nearly as long as a Lease lasts.
_DELAYS = (0.0, 0.0, 0.0, 0.1, 9.0, 14.0)
_PAUSES = (0.1, 2.0, 4.0)
_RATES = (1.0, 1.2, 1.499)


@given(st.randoms(use_true_random=True))
def test_no_two_candidates_lead_at_a_time_while_no_clock_is_half_as_fast_again(random):
    rates = random.choices(_RATES, k=random.randint(2, 3))
    # A try is a read and a write. Each step: how long the read's request and answer take, and the write's.
    steps = [(*random.choices(_DELAYS, k=4), random.choice(_PAUSES)) for _ in range(60)]
    store = Store()
    candidates = [Simulated(Candidacy(f"c{number}", TIMINGS), rate) for number, rate in enumerate(rates)]
    due = [(float(number), number) for number in range(len(candidates))]  # time of the next try, candidate
    heapq.heapify(due)
    waiting: list[tuple[float, int, str, tuple[Any, ...]]] = []
    for order, (read_sent, read_back, write_sent, write_back, pause) in enumerate(steps):
        now, number = heapq.heappop(due)
        waiting.append((now + read_sent, order, "read", (number, read_back, write_sent, write_back)))
        heapq.heappush(due, (now + read_sent + read_back + write_sent + write_back + pause, number))
    heapq.heapify(waiting)
    order = len(steps)
    while waiting:
        now, _, what, details = heapq.heappop(waiting)
        order += 1
        if what == "read":
            number, back, *rest = details
            heapq.heappush(waiting, (now + back, order, "decide", (number, store.spec, store.version, *rest)))
        elif what == "decide":
            number, spec, version, sent, back = details
            me = candidates[number]
            if spec is not None:
                me.candidacy.observe(spec, me.clock(now))
                if not me.candidacy.may_write(me.clock(now)):
                    continue
            wanted = me.candidacy.next_spec(f"{now}")
            heapq.heappush(waiting, (now + sent, order, "write", (number, wanted, version, now, back)))
        elif what == "write":
            number, wanted, version, sent_at, back = details
            if store.write(wanted, version):
                heapq.heappush(waiting, (now + back, order, "written", (number, wanted, sent_at)))
        else:
            number, wanted, sent_at = details
            candidates[number].on_written(wanted, sent_at, now)
    spans = sorted((begin, end, number) for number, one in enumerate(candidates) for begin, end in one.spans)
    for begin, end, number in spans:
        for other_begin, _, other in spans:
            assert other == number or not begin <= other_begin < end - 1e-6
