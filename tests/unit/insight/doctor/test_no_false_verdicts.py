"""States of a cluster that look broken and work, and commands to copy."""

from __future__ import annotations

import dataclasses
import shlex

import msgspec
import pytest

from bridgehead.insight.doctor.diagnosis import diagnose
from bridgehead.insight.doctor.filter_rules import Drop
from bridgehead.insight.doctor.packet_filters import how_to_accept
from bridgehead.insight.doctor.report import render_json, render_text
from bridgehead.insight.doctor.subjects import Facts, make_finding
from bridgehead.insight.facts.network_state import NetworkState, Route
from bridgehead.insight.findings import Unseen
from bridgehead.objects.core import ServicePort
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import Versions
from tests.unit.insight import broken_clusters, broken_kernels
from tests.unit.insight.generated_clusters import base, endpoints, service

CASES = {case.name: case for case in broken_clusters.CASES}
WEB = ObjectKey("default", "web")


def causes(facts: Facts) -> set[str]:
    return {finding.cause for finding in diagnose(facts).findings}


def without(facts: Facts, kind: str) -> Facts:
    cluster = dataclasses.replace(facts.cluster, unseen=(Unseen(kind, "forbidden"),))
    return dataclasses.replace(facts, cluster=cluster)


@pytest.mark.parametrize("has_endpoints", [False, True])
def test_a_service_without_ports_and_selector_keeps_the_state_of_an_operator(has_endpoints: bool) -> None:
    world = base()
    world.add(service("state-config", ip="None"))
    if has_endpoints:
        world.add(endpoints("state-config", ()))
    assert causes(world.facts()) == set()


@pytest.mark.parametrize("name", ["ingress_of_an_unknown_class", "ingress_without_a_class"])
def test_an_ingress_with_an_address_has_a_controller(name: str) -> None:
    world = CASES[name].world()
    assert causes(world.facts())
    world.ingresses[-1]["status"] = {"loadBalancer": {"ingress": [{"ip": "10.0.0.9"}]}}
    assert causes(world.facts()) == set()


def test_sockets_of_a_sandbox_cannot_be_seen() -> None:
    world = base()
    world.change_pods("web", spec_runtime_class_name="gvisor")
    facts = world.facts()
    silent = {key: NetworkState() for key in world.pods_of("web")}
    assert "NothingListens" not in causes(dataclasses.replace(facts, pod_listeners={**facts.pod_listeners, **silent}))


def test_labels_of_namespaces_that_were_not_read_may_match() -> None:
    world = CASES["network_policy_allows_labels_of_nobody"].world()
    peers = [{"namespaceSelector": {"matchLabels": {"team": "a"}}}]
    world.network_policies[-1]["spec"]["ingress"] = [{"from": peers}]
    assert "NetworkPolicyAllowsNobody" in causes(world.facts())
    assert "NetworkPolicyAllowsNobody" not in causes(without(world.facts(), "namespaces"))


def test_a_fix_that_is_too_long_is_left_out() -> None:
    assert make_finding("ProxyBehind", "service/a/b", "text", fix=f"echo '{'x' * 2000}'").fix == ""


def test_hostile_names_are_quoted_in_commands_and_harmless_in_reports() -> None:
    world = base()
    hostile = msgspec.structs.replace(
        service("web;reboot\x1b[2J", ServicePort(port=80), ip="10.96.0.77"),
        spec=msgspec.structs.replace(world.services[WEB].spec, cluster_ip="10.96.0.77", cluster_ips=("10.96.0.77",)),
    )
    world.add(hostile)
    for name, progress in world.progress.items():
        world.progress[name] = progress._replace(programmed=Versions(services=0, slices=0))
    diagnosis = diagnose(world.facts())
    behind = [each for each in diagnosis.of("service/default/web;reboot?[2J") if each.cause == "ProxyBehind"]
    assert shlex.split(behind[0].fix) == ["bridgehead", "wait", "service/web;reboot?[2J", "-n", "default"]
    assert all(line.isprintable() for line in render_text(diagnosis).splitlines())
    assert render_json(diagnosis).isascii()
    assert "\x1b" not in render_json(diagnosis)


@pytest.mark.parametrize(
    ("rule", "fix"),
    [
        (
            '-A FORWARD -m comment --comment "$(reboot) \\"x\\"" -j DROP',
            ["iptables", "-t", "filter", "-D", "FORWARD", "-m", "comment", "--comment", '$(reboot) "x"', "-j", "DROP"],
        ),
        ("", ["iptables", "-t", "filter", "-P", "FORWARD", "ACCEPT"]),
    ],
)
def test_the_text_of_a_rule_is_quoted(rule: str, fix: list[str]) -> None:
    drop = Drop("iptables table ip filter, chain FORWARD", rule or "policy drop", is_policy=not rule)
    assert shlex.split(how_to_accept(drop)) == fix


def test_a_wide_route_by_the_device_of_the_default_route_changes_nothing() -> None:
    kernels = broken_kernels.Kernels()
    default = next(route for route in kernels.node.routes if route.destination == "default")
    kernels.node.routes += (msgspec.structs.replace(default, destination="10.0.0.0/8"),)
    assert "ServiceCidrRouted" not in causes(kernels.facts())
    kernels.node.routes += (Route(destination="10.0.0.0/8", device="tun0"),)
    assert "ServiceCidrRouted" in causes(kernels.facts())
