"""The verdict on a connection, and the differences."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from bridgehead.insight.trace.expected_path import Choice, Expectation, Fate
from bridgehead.insight.trace.observed_path import Hop, Journey, PacketPath
from bridgehead.insight.trace.probing import Outcome, ProbeResult
from bridgehead.insight.trace.verdict import Observation, StepName, differences, find_death, verdict, works
from bridgehead.network.flow_lookup import TrackedFlow
from bridgehead.network.flow_trace import Header
from bridgehead.proxy.frontends import Backend

TO = ("10.96.0.10", 80)
POD = ("10.244.2.7", 8080)
CLIENT = "10.244.1.5"
CHOICE = Choice(backend=Backend(*POD, node="node2"), chance=1.0, client=CLIENT)
TRANSLATED = Expectation(fate=Fate.TRANSLATED, because="all", choices=(CHOICE,))
REJECTED = Expectation(fate=Fate.REJECTED, because="the Service has no ready endpoint")
DROPPED = Expectation(fate=Fate.DROPPED, because="its source is in no range")
UNTRANSLATED = Expectation(fate=Fate.UNTRANSLATED, because="no Service has this address and port")
UNKNOWN = Expectation(fate=Fate.UNKNOWN, because="EndpointSlices could not be read")
TRACKED = TrackedFlow(POD, (CLIENT, 61234), has_reply=True)


def probe(outcome, why=""):
    return ProbeResult(outcome=outcome, source=(CLIENT, 61234), milliseconds=1.0, why=why)


def packet(to=POD, end=None, *, is_reply=False):
    first = Header("tcp", CLIENT, 61234, *TO)
    return PacketPath(first=first, last=Header("tcp", CLIENT, 61234, *to), end=end, is_reply=is_reply)


def observation(outcome=Outcome.CONNECTED, expectation=TRANSLATED, **more):
    more = {"tracked": TRACKED, "watched": ("node1", "node2"), **more}
    return Observation(
        destination=TO,
        protocol="tcp",
        node="node1",
        expectation=expectation,
        mode=more.pop("mode", "nftables"),
        probe=probe(outcome) if outcome is not None else None,
        pods={POD[0]: "default/web-1"},
        **more,
    )


def test_a_connection_that_works():
    seen = observation()
    assert works(seen) is True
    assert find_death(seen) is None
    assert differences(seen) == ()
    assert verdict(seen) == (
        "Works: answered by pod default/web-1 (10.244.2.7:8080), which sees 10.244.1.5 as its client, after 1 ms"
    )


DROP = Hop(chain="inet filter forward", rule="policy drop", verdict="drop")
NODE1, NODE2 = Journey(node="node1", packets=(packet(),)), Journey(node="node2", packets=(packet(),))
REFUSED, TIMED_OUT = Outcome.REFUSED, Outcome.TIMED_OUT
UNANSWERED = TrackedFlow(POD, (CLIENT, 61234), has_reply=False)


@pytest.mark.parametrize(
    ("seen", "step", "because"),
    [
        (observation(REFUSED, listens={"10.244.2.7:8080": False}), StepName.POD, "no process of pod default/web-1"),
        (observation(REFUSED, tracked=None, journeys=(NODE1,)), StepName.POD, "pod default/web-1 .* refused it"),
        (observation(REFUSED, REJECTED, tracked=None), StepName.RULES, "node1 rejected it: the Service has no ready"),
        (observation(TIMED_OUT, DROPPED, tracked=None), StepName.RULES, "node1 dropped it: its source"),
        (
            observation(TIMED_OUT, journeys=(Journey(node="node2", packets=(packet(end=DROP),)),)),
            StepName.RULES,
            r"node2 dropped it \(inet filter forward: policy drop\)",
        ),
        (
            observation(TIMED_OUT, journeys=(Journey(node="node1", packets=(packet(end=DROP, is_reply=True),)),)),
            StepName.RULES,
            "node1 dropped a reply",
        ),
        (observation(TIMED_OUT, tracked=UNANSWERED, journeys=(NODE1,)), StepName.ROUTE, "did not arrive at node2"),
        (observation(TIMED_OUT, tracked=UNANSWERED, journeys=(NODE1, NODE2)), StepName.POD, "which did not answer"),
        (observation(TIMED_OUT, journeys=(NODE1, NODE2)), StepName.ROUTE, "the answer did not come back"),
        (observation(TIMED_OUT, tracked=None), StepName.ROUTE, "no packet of it reached node1"),
        (
            observation(TIMED_OUT, tracked=None, journeys=(Journey(node="node1", packets=(packet(to=TO),)),)),
            StepName.RULES,
            "node1 did not translate it",
        ),
        (observation(Outcome.UNREACHABLE, UNTRANSLATED, tracked=None), StepName.ROUTE, "cannot be reached"),
        (observation(REFUSED, UNTRANSLATED, tracked=None), StepName.POD, "10.96.0.10:80 refused it"),
        (observation(Outcome.CLOSED, mode="userspace"), StepName.POD, "reached no backend"),
        (observation(REFUSED, mode="userspace", listens={"a:1": False}), StepName.POD, "no process listens on tcp"),
        (observation(TIMED_OUT, tracked=None, watched=()), StepName.CONNECTION, "could not be followed at any node"),
        (
            observation(TIMED_OUT, tracked=None, watched=(), listens={"10.244.2.7:8080": False}),
            StepName.POD,
            "no process listens on tcp at 10.244.2.7:8080",
        ),
        (observation(None, REJECTED), StepName.RULES, "it should be rejected"),
        (observation(None, listens={"10.244.2.7:8080": False}), StepName.POD, "no backend has a process"),
    ],
)
def test_the_step_at_which_a_connection_dies(seen, step, because):
    found = find_death(seen)
    assert found is not None
    assert found.step == step
    assert re.search(because, found.because)
    assert works(seen) is False
    assert verdict(seen) == f"Dies at the step {step}: {found.because}"


def test_a_datagram_without_an_answer_works_if_nothing_stopped_it():
    seen = replace(observation(Outcome.SENT), protocol="udp")
    assert works(seen) is True
    assert "the datagram was taken by pod default/web-1" in verdict(seen)
    deaf = replace(seen, listens={"10.244.2.7:8080": False})
    assert works(deaf) is False


def test_a_connection_that_was_not_made():
    assert works(observation(None)) is None
    assert works(observation(Outcome.NOT_TRIED)) is None
    assert verdict(observation(None)) == "Should work, but no connection was made"


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        (observation(tracked=TrackedFlow(("10.244.9.9", 1), (CLIENT, 1), True)), "none of its backends"),
        (observation(tracked=TrackedFlow(POD, ("10.0.0.201", 1), True)), "should see 10.244.1.5 as its client"),
        (observation(REFUSED, tracked=None, journeys=(Journey(node="node1", packets=(packet(to=TO),)),)),
         "should have sent it to a backend"),
        (observation(Outcome.CONNECTED, REJECTED), "should have rejected it .* was answered by pod default/web-1"),
        (observation(TIMED_OUT, REJECTED, tracked=None), "should have rejected it, but it was dropped"),
        (observation(REFUSED, DROPPED, tracked=None), "should have dropped it, but it was rejected"),
        (observation(rule_differences=("node1: a backend is missing",)), "node1: a backend is missing"),
    ],
)  # fmt: skip
def test_differences_between_the_objects_and_the_kernel(seen, text):
    (found,) = differences(seen)
    assert re.search(text, found)


def test_no_difference_of_a_kernel_that_could_not_be_looked_at():
    for outcome in (Outcome.CONNECTED, REFUSED):
        assert differences(observation(outcome, tracked=None, watched=())) == ()


@pytest.mark.parametrize("expectation", [UNKNOWN, UNTRANSLATED])
def test_no_difference_where_nothing_is_expected(expectation):
    assert differences(observation(expectation=expectation)) == ()
    assert differences(observation(REFUSED, expectation, tracked=None)) == ()


def test_a_userspace_proxy_hides_the_backend_unless_there_is_one_only():
    both = Expectation(fate=Fate.TRANSLATED, because="all", choices=(CHOICE, CHOICE))
    assert observation(expectation=both, mode="userspace").backend is None
    assert "by the proxy of node1 for one of 2 backends" in verdict(observation(expectation=both, mode="userspace"))
    assert observation(mode="userspace").backend == POD
