"""Rules of service proxies in a real kernel: all are read and explained, and changes by other programs are found."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from bridgehead.insight.expectations import Expectations
from bridgehead.insight.facts.network_local_reading import collect_state
from bridgehead.insight.facts.network_state import RULES
from bridgehead.insight.rulesets.comparison import Kind, compare
from bridgehead.insight.rulesets.entries import Mechanism, NodeRules, RulesMode
from bridgehead.insight.rulesets.reading import read_rules
from bridgehead.insight.rulesets.rendering import render_mode
from bridgehead.proxy.frontends import FrontendKey
from tests.unit.insight.rulesets import kube_proxy
from tests.unit.insight.rulesets.clusters import cluster, endpoint, expect, service, slice_

from .namespaced import in_namespace, sh


def example(mode: str) -> Expectations:
    """Return what node1 should have for Services with all that a mode distinguishes, in both families."""
    ports = [{"name": "http", "port": 80, "nodePort": 30080}]
    both: dict[str, Any] = {"clusterIPs": ["10.96.0.10", "fd00:96::10"]}
    services = [
        service("web", type="NodePort", ports=ports, **both),
        service("sticky", clusterIPs=["10.96.0.11", "fd00:96::11"], sessionAffinity="ClientIP"),
        service("lonely", clusterIPs=["10.96.0.12"]),
        service(
            "lb",
            type="LoadBalancer",
            clusterIPs=["10.96.0.13"],
            ports=[{"port": 443, "nodePort": 30443}],
            externalTrafficPolicy="Local",
            loadBalancerSourceRanges=["192.0.2.0/24", "198.51.100.0/24"],
            balancer_ips=["203.0.113.7"],
        ),
        service("many", clusterIPs=["10.96.0.14"], ports=[{"port": 53, "protocol": "UDP"}]),
    ]
    four = [endpoint("10.244.1.2"), endpoint("10.244.2.2", "node2")]
    six = [endpoint("fd00:244:1::2"), endpoint("fd00:244:2::2", "node2")]
    slices = [
        slice_("web", *four, port_name="http"),
        slice_("web", *six, family=6, port_name="http"),
        slice_("sticky", *four),
        slice_("sticky", *six, family=6),
        slice_("lb", *four),
        slice_("many", *(endpoint(f"10.244.2.{number}", "node2") for number in range(3, 10)), protocol="UDP"),
    ]
    return expect(cluster(services, slices, mode=mode, families=(4, 6)))


def feed(program: str, text: str) -> None:
    subprocess.run(program, shell=True, check=True, input=text, text=True)


def load(expected: Expectations, variant: str = "nft") -> None:
    """Give the rendered rules to the kernel."""
    for heading, text in render_mode(expected):
        if heading.startswith("nft "):
            feed("nft -f -", text)
        elif "-restore" in heading:
            feed(f"{heading.partition('tables-')[0]}tables-{variant}-restore --noflush", text)


def read(expected: Expectations) -> NodeRules:
    state = collect_state(RULES)
    assert not {section: why for section, why in state.unseen.items() if section not in state.absent}
    return read_rules(state, expected.table, expected.table.cluster_ips())


@pytest.mark.parametrize("mode", ["nftables", "userspace"])
@in_namespace
def test_tables_of_nftables_are_read_as_nft_prints_them(mode: str) -> None:
    expected = example(mode)
    load(expected)
    rules = read(expected)
    assert (rules.problems, rules.unexplained) == ((), ())
    assert compare(expected, rules) == []
    printed = sh("nft list ruleset")
    missing = [
        entry.text for entry in rules.entries if entry.mechanism is Mechanism.NFTABLES and entry.text not in printed
    ]
    assert missing == []
    assert {frontend.key for frontend in expected.table} == set(rules.frontends[RulesMode(mode)])


@pytest.mark.parametrize("variant", ["nft", "legacy"])
@in_namespace
def test_chains_of_iptables_are_read(variant: str) -> None:
    expected = example("iptables")
    load(expected, variant)
    rules = read(expected)
    assert (rules.problems, rules.unexplained) == ((), ())
    assert compare(expected, rules) == []
    mechanism = Mechanism.IPTABLES if variant == "nft" else Mechanism.IPTABLES_LEGACY
    assert {entry.mechanism for entry in rules.entries} == {mechanism}


NFT_CHANGES = {
    "nft delete element ip bridgehead endpoints '{ 10.96.0.10 . tcp . 80 . 1:1 }'": Kind.MISSING_BACKEND,
    "nft delete element ip bridgehead services '{ 10.96.0.14 . udp . 53 }'": Kind.MISSING_FRONTEND,
    "nft add element ip bridgehead services '{ 10.96.0.99 . tcp . 80 : drop }'": Kind.FOREIGN_FRONTEND,
    "nft add element ip bridgehead endpoints '{ 10.96.0.14 . udp . 53 . 1:8 : 192.0.2.9 . 53 }'": Kind.FOREIGN_BACKEND,
    "nft insert rule ip bridgehead nat-prerouting tcp dport 80 accept": Kind.CHAIN,
    "nft flush chain ip bridgehead nat-output": Kind.CHAIN,
    "nft delete table ip bridgehead; nft delete table ip6 bridgehead": Kind.NO_RULES,
}


@in_namespace
def test_changes_of_nftables_by_others_are_found() -> None:
    expected = example("nftables")
    for change, kind in NFT_CHANGES.items():
        sh("nft flush ruleset")
        load(expected)
        sh(change)
        found = compare(expected, read(expected))
        assert [difference.kind for difference in found] == [kind], (change, found)


IPTABLES_CHANGES = {
    "iptables-nft -t nat -F KUBE-SERVICES": Kind.MISSING_FRONTEND,
    "iptables-nft -t nat -D PREROUTING 1": Kind.CHAIN,
    "iptables-nft -t nat -I KUBE-SERVICES -d 10.96.0.10/32 -j RETURN": Kind.CHAIN,
    "iptables-nft -F KUBE-FORWARD": Kind.CHAIN,
}


@in_namespace
def test_changes_of_iptables_by_others_are_found() -> None:
    expected = example("iptables")
    for change, kind in IPTABLES_CHANGES.items():
        sh("nft flush ruleset")
        load(expected)
        sh(change)
        assert kind in [difference.kind for difference in compare(expected, read(expected))], change


LB = FrontendKey("203.0.113.7", "tcp", 443)


@in_namespace
def test_kube_proxys_own_table_is_read() -> None:
    expected = expect(kube_proxy.kube_proxy_cluster("nftables"))
    feed("nft -f -", kube_proxy.nftables())
    rules = read(expected)
    assert (rules.problems, rules.unexplained) == ((), ())
    assert rules.mode is RulesMode.KUBE_PROXY_NFTABLES
    assert compare(expected, rules) == []
    assert rules.frontends[rules.mode][LB].backends == (("10.244.1.3", 8080),)
    assert {entry.service for entry in rules.of(LB)} == {"default/lb:", ""}
    sh("nft delete element ip kube-proxy service-nodeports '{ tcp . 30080 }'")
    assert [difference.kind for difference in compare(expected, read(expected))] == [Kind.MISSING_FRONTEND]


@in_namespace
def test_kube_proxys_own_chains_are_read() -> None:
    expected = expect(kube_proxy.kube_proxy_cluster("iptables"))
    feed("iptables-nft-restore --noflush", kube_proxy.IPTABLES)
    rules = read(expected)
    assert (rules.problems, rules.unexplained) == ((), ())
    assert compare(expected, rules) == []
    assert rules.frontends[RulesMode.IPTABLES][LB].cluster_backends == (("10.244.1.3", 8080), ("10.244.2.3", 8080))
    lines = {entry.text for entry in rules.of_service("default/web")}
    assert lines == {line for line in kube_proxy.IPTABLES.splitlines() if "default/web" in line or "BBBB -j" in line}


@in_namespace
def test_rules_of_others_are_left_out() -> None:
    sh("nft add table ip mine; nft add chain ip mine c; iptables-nft -A FORWARD -j ACCEPT")
    rules = read(example("nftables"))
    assert (rules.entries, rules.modes) == ((), ())
