"""The address and port to which a program connects."""

from __future__ import annotations

import pytest

from bridgehead.insight.trace.destination import (
    Destination,
    NoDestination,
    PortMissing,
    find_destination,
    name_to_resolve,
    namespaces_of,
)
from bridgehead.insight.trace.name_resolution import DnsAnswer, expected_answer
from bridgehead.insight.trace.target import OriginKind, parse_target
from bridgehead.objects.meta import ObjectKey

from .objects import cluster, endpoint_slice, node, pod, service

WEB = ObjectKey("default", "web")
STATE = cluster(
    service(type="NodePort", ports=[{"name": "http", "port": 80, "nodePort": 30080}]),
    service("two", clusterIP="10.96.0.12", ports=[{"name": "a", "port": 80}, {"name": "b", "port": 81}]),
    service(
        "lb",
        clusterIP="10.96.0.13",
        type="LoadBalancer",
        status={"loadBalancer": {"ingress": [{"ip": "203.0.113.1"}]}},
    ),
    service("headless", clusterIP="None", clusterIPs=["None"]),
    service("bare", clusterIP="None", clusterIPs=["None"]),
    service("far", "prod", clusterIP="10.96.0.14"),
    endpoint_slice("10.244.1.7", name="headless"),
    pod("web-1", containers=[{"name": "web", "image": "web", "ports": [{"name": "http", "containerPort": 8080}]}]),
    pod("plain", "10.244.1.6", containers=[{"name": "web", "image": "web"}]),
    node(),
)


def find(text, origin=OriginKind.POD, protocol="tcp", answers=None):
    target = parse_target(text)
    if answers is None:
        name = name_to_resolve(target, "default")
        answers = [expected_answer(f"{name}.default.svc.cluster.local", STATE)] if name else []
    return find_destination(target, origin, "default", protocol, STATE, answers)


@pytest.mark.parametrize(
    ("text", "origin", "address", "port", "service"),
    [
        ("web", OriginKind.POD, "10.96.0.10", 80, WEB),
        ("web:http", OriginKind.POD, "10.96.0.10", 80, WEB),
        ("web:8080", OriginKind.POD, "10.96.0.10", 8080, WEB),
        ("two:b", OriginKind.POD, "10.96.0.12", 81, ObjectKey("default", "two")),
        ("headless", OriginKind.POD, "10.244.1.7", 8080, ObjectKey("default", "headless")),
        ("10.96.0.10", OriginKind.POD, "10.96.0.10", 80, WEB),
        ("10.0.0.201:30080", OriginKind.OUTSIDE, "10.0.0.201", 30080, None),
        ("service/web", OriginKind.NODE, "10.96.0.10", 80, WEB),
        ("service/web", OriginKind.OUTSIDE, "10.0.0.201", 30080, WEB),
        ("service/lb", OriginKind.OUTSIDE, "203.0.113.1", 80, ObjectKey("default", "lb")),
        ("service/headless", OriginKind.NODE, "10.244.1.7", 8080, ObjectKey("default", "headless")),
        ("pod/web-1", OriginKind.POD, "10.244.1.5", 8080, None),
        ("pod/plain:81", OriginKind.POD, "10.244.1.6", 81, None),
    ],
)
def test_destinations(text, origin, address, port, service):
    found = find(text, origin)
    assert isinstance(found, Destination)
    assert (found.address, found.port, found.service) == (address, port, service)


@pytest.mark.parametrize("text", ["two", "web:nope", "10.9.9.9", "pod/plain", "10.0.0.201"])
def test_a_port_that_is_not_clear_has_to_be_named(text):
    with pytest.raises(PortMissing):
        find(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nosuch", "there is no Service default/nosuch"),
        ("far", "namespace prod has one of that name"),
        ("bare", "headless and has no ready endpoint"),
        ("service/nosuch", "there is no Service default/nosuch"),
        ("pod/nosuch", "there is no pod default/nosuch"),
    ],
)
def test_reasons_for_which_there_is_no_destination(text, reason):
    with pytest.raises(NoDestination, match=reason):
        find(text)


def test_an_alias_without_an_address_is_named():
    answers = [
        DnsAnswer(name="out.x", rcode="NOERROR", aliases=("example.org",)),
        DnsAnswer(name="o", rcode="NXDOMAIN"),
    ]
    with pytest.raises(NoDestination, match=r"out\.x is an alias of example\.org"):
        find("out:80", answers=answers)


@pytest.mark.parametrize(
    ("text", "namespaces"),
    [
        ("web", {"default"}),
        ("web.prod", {"prod"}),
        ("web.prod.svc.cluster.local", {"prod"}),
        ("service/prod/web", {"prod"}),
        ("pod/web", {"default"}),
        ("10.96.0.1", {""}),
    ],
)
def test_namespaces_of_which_objects_are_read(text, namespaces):
    assert namespaces_of(parse_target(text), "default", "cluster.local") == namespaces
