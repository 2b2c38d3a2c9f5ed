"""The names that a resolver asks for, and the answers that are expected."""

from __future__ import annotations

import pytest

from bridgehead.insight.trace.name_resolution import (
    NOERROR,
    NXDOMAIN,
    UPSTREAM,
    DnsAnswer,
    candidate_names,
    difference,
    expected_answer,
    expected_resolution,
    expected_resolver,
)
from bridgehead.kubelet.node.resolv_conf import Resolver

from .objects import cluster, endpoint_slice, pod, service

POD_RESOLVER = Resolver(
    nameservers=("10.96.0.53",),
    searches=("default.svc.cluster.local", "svc.cluster.local", "cluster.local"),
    options=("ndots:5",),
)


@pytest.mark.parametrize(
    ("name", "resolver", "names"),
    [
        ("web", POD_RESOLVER, ["web.default.svc.cluster.local", "web.svc.cluster.local", "web.cluster.local", "web"]),
        ("web.", POD_RESOLVER, ["web"]),
        ("a.b.c.d.e.f", POD_RESOLVER, ["a.b.c.d.e.f", *(f"a.b.c.d.e.f.{one}" for one in POD_RESOLVER.searches)]),
        ("web", Resolver(), ["web"]),
        ("web.prod", Resolver(searches=("x",)), ["web.prod", "web.prod.x"]),
        ("web", Resolver(searches=(".",)), ["web"]),
    ],
)
def test_candidate_names(name, resolver, names):
    assert list(candidate_names(name, resolver)) == names


def test_the_resolver_of_a_pod_is_the_kubelets():
    state = cluster()
    assert expected_resolver(pod("a"), state, Resolver()) == POD_RESOLVER
    assert expected_resolver(pod("a", dnsPolicy="None"), state, Resolver()) == Resolver()
    assert expected_resolver(None, state, Resolver(searches=("x",))) == Resolver(searches=("x",))


STATE = cluster(
    service(),
    service("db", clusterIP="None", clusterIPs=["None"]),
    endpoint_slice("10.244.1.7", name="db"),
    service("out", type="ExternalName", externalName="example.org", clusterIP="", clusterIPs=[]),
    service("alias", type="ExternalName", externalName="web.default.svc.cluster.local", clusterIP="", clusterIPs=[]),
    service("loop", type="ExternalName", externalName="loop.default.svc.cluster.local", clusterIP="", clusterIPs=[]),
)


@pytest.mark.parametrize(
    ("name", "rcode", "addresses", "record"),
    [
        ("web.default.svc.cluster.local", NOERROR, ("10.96.0.10",), "clusterIPs of Service default/web"),
        ("db.default.svc.cluster.local", NOERROR, ("10.244.1.7",), "EndpointSlices of Service default/db"),
        ("10-244-1-7.db.default.svc.cluster.local", NOERROR, ("10.244.1.7",), "EndpointSlices of Service default/db"),
        ("no.default.svc.cluster.local", NXDOMAIN, (), ""),
        ("default.svc.cluster.local", NOERROR, (), "Namespace default"),
        ("no.svc.cluster.local", NXDOMAIN, (), ""),
        ("10-1-2-3.default.pod.cluster.local", NOERROR, ("10.1.2.3",), "the address in the name, of Namespace default"),
        ("web.cluster.local", NXDOMAIN, (), ""),
        ("example.org", UPSTREAM, (), ""),
        ("out.default.svc.cluster.local", UPSTREAM, (), "externalName of Service default/out"),
    ],
)
def test_expected_answers(name, rcode, addresses, record):
    found = expected_answer(name, STATE)
    assert (found.rcode, found.addresses, found.record) == (rcode, addresses, record)


def test_an_alias_inside_the_cluster_is_followed():
    found = expected_answer("alias.default.svc.cluster.local", STATE)
    assert found.aliases == ("web.default.svc.cluster.local",)
    assert found.addresses == ("10.96.0.10",)


def test_an_alias_of_itself_ends():
    assert expected_answer("loop.default.svc.cluster.local", STATE).addresses == ()


def test_a_resolution_ends_at_the_first_name_with_addresses():
    found = expected_resolution("web", POD_RESOLVER, STATE)
    assert [answer.name for answer in found] == ["web.default.svc.cluster.local"]
    missing = expected_resolution("no", POD_RESOLVER, STATE)
    assert [answer.rcode for answer in missing] == [NXDOMAIN, NXDOMAIN, NXDOMAIN, UPSTREAM]


def answer(*addresses, rcode=NOERROR, name="web.default.svc.cluster.local", milliseconds=1.0):
    return DnsAnswer(name=name, rcode=rcode, addresses=addresses, milliseconds=milliseconds)


@pytest.mark.parametrize(
    ("seen", "is_different"),
    [
        (answer("10.96.0.10"), False),
        (answer("10.96.0.11"), True),
        (answer(rcode=NXDOMAIN), True),
        (answer("10.96.0.10", name="web"), True),
        (answer("10.96.0.10", name="web", milliseconds=None), False),  # printed by a program
    ],
)
def test_differences(seen, is_different):
    expected = expected_resolution("web", POD_RESOLVER, STATE)
    assert bool(difference(expected, [seen])) is is_different


def test_nothing_is_expected_of_other_names():
    assert not difference(expected_resolution("example.org.", POD_RESOLVER, STATE), [answer("192.0.2.1")])
    assert not difference((), [answer()])
