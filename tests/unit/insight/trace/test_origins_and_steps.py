"""The source of a connection, and the texts of steps."""

from __future__ import annotations

import pytest

from bridgehead.insight.findings import Unseen
from bridgehead.insight.trace import steps
from bridgehead.insight.trace.expected_path import Choice, Expectation, Fate
from bridgehead.insight.trace.name_resolution import NXDOMAIN, UPSTREAM, DnsAnswer
from bridgehead.insight.trace.origins import NoOrigin, choose_source
from bridgehead.insight.trace.report import State
from bridgehead.insight.trace.routes import RouteFound
from bridgehead.insight.trace.target import Origin, OriginKind, parse_origin
from bridgehead.insight.trace.verdict import Death, Observation, StepName
from bridgehead.kubelet.node.resolv_conf import Resolver
from bridgehead.proxy.frontends import Backend

from .objects import cluster, node, pod

STATE = cluster(
    pod("b", "10.244.1.6"),
    pod("a", "10.244.1.5"),
    pod("host", "10.0.0.201", hostNetwork=True),
    pod("waits", phase="Pending"),
    pod("other", "10.244.1.7", namespace="prod"),
    node(),
)


@pytest.mark.parametrize(
    ("text", "where", "address", "is_node"),
    [
        ("pod/b", "node1", "10.244.1.6", False),
        ("pod/prod/other", "node1", "10.244.1.7", False),
        ("pod/host", "node1", "10.0.0.201", True),
        ("node/node1", "node1", "10.0.0.201", True),
        ("outside", "", None, False),
    ],
)
def test_sources(text, where, address, is_node):
    found = choose_source(parse_origin(text), "default", STATE)
    assert (found.node, found.addresses.get(4), found.is_node) == (where, address, is_node)


def test_the_default_source_is_a_pod_of_the_namespace_or_a_node():
    assert choose_source(None, "default", STATE).origin == Origin(OriginKind.POD, "a", "default")
    assert choose_source(None, "kube-system", STATE).origin == Origin(OriginKind.NODE, "node1")


@pytest.mark.parametrize(
    ("text", "state", "why"),
    [
        ("pod/no", STATE, "there is no pod default/no"),
        ("pod/waits", STATE, "does not run: its phase is Pending"),
        ("node/no", STATE, "there is no node no"),
        ("pod/no", cluster(unseen=(Unseen("pods", "forbidden"),)), "pods could not be read"),
    ],
)
def test_there_is_no_such_source(text, state, why):
    with pytest.raises(NoOrigin, match=why):
        choose_source(parse_origin(text), "default", state)


RESOLVER = Resolver(nameservers=("10.96.0.53",), searches=("x",), options=("ndots:5",))


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        (DnsAnswer(name="web.x", rcode="NOERROR", addresses=("10.96.0.10",), server="10.96.0.53"), State.OK),
        (DnsAnswer(name="web", rcode=NXDOMAIN, server="10.96.0.53"), State.FAILED),
        (DnsAnswer(name="web", rcode=UPSTREAM), State.UNKNOWN),
    ],
)
def test_the_step_of_a_name(answer, state):
    step = steps.name_step("web", RESOLVER, (), (answer,), "", "")
    assert step.state is state
    assert step.evidence[0] == "resolv.conf: search x; nameserver 10.96.0.53; ndots:5"


def test_a_name_that_was_not_asked_for():
    expected = (
        DnsAnswer(name="web.x", rcode="NOERROR", addresses=("10.96.0.10",), record="clusterIPs of Service d/web"),
    )
    step = steps.name_step("web", RESOLVER, expected, (), "", "the origin could not be entered")
    assert step.text == "web means web.x, which is 10.96.0.10"
    assert step.evidence[1:] == (
        "not asked: the origin could not be entered",
        "should be web.x: 10.96.0.10; from clusterIPs of Service d/web",
    )


def expectation(fate=Fate.TRANSLATED, count=0):
    choices = tuple(
        Choice(backend=Backend(f"10.244.1.{number}", 80, "node1"), chance=1 / count, client="10.244.1.9")
        for number in range(count)
    )
    return Expectation(fate=fate, because="because", choices=choices)


@pytest.mark.parametrize(
    ("found", "text", "state"),
    [
        (expectation(count=1), "one backend takes it", State.OK),
        (expectation(count=3), "1 of 3 backends takes it, each with a chance of 33.3 %", State.OK),
        (expectation(Fate.REJECTED), "no backend takes it", State.FAILED),
        (expectation(Fate.UNTRANSLATED), "the destination itself takes it", State.OK),
        (expectation(Fate.UNKNOWN), "because", State.UNKNOWN),
    ],
)
def test_the_step_of_backends(found, text, state):
    step = steps.backends_step(steps.possible_backends(found, {"10.244.1.0": "d/web"}), found, is_userspace=False)
    assert (step.text, step.state) == (text, state)


def test_many_backends_are_cut():
    found = expectation(count=500)
    assert len(steps.backends_step(steps.possible_backends(found, {}), found, is_userspace=True).evidence) == 22


def test_the_step_of_routes():
    route = RouteFound("10.244.1.9", "eth0", is_on_link=False)
    step = steps.route_step([("pod d/a", "10.96.0.10", route)], (), None)
    assert step.text == "pod d/a sends to 10.96.0.10 on eth0 through a gateway, from 10.244.1.9"
    assert steps.route_step([("node n", "10.1.1.1", None)], (), None).state is State.FAILED
    assert steps.route_step([], ("no",), None).state is State.UNKNOWN
    assert steps.route_step([], (), Death(StepName.ROUTE, "lost")).state is State.FAILED


def test_the_step_of_a_connection_that_was_not_made():
    seen = Observation(destination=("10.96.0.10", 80), protocol="tcp", node="node1", expectation=expectation(count=1))
    step = steps.connection_step(seen, "the origin could not be entered", {}, (), None)
    assert (step.state, step.text) == (State.UNKNOWN, "no connection was made: the origin could not be entered")
    assert steps.pod_step(seen, None).state is State.UNKNOWN
