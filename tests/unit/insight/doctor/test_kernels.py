"""Doctor names the cause that a change of a node's kernel made, and finds none in kernels that work."""

from __future__ import annotations

import dataclasses
from functools import cache

import msgspec
import pytest

from bridgehead.insight.doctor.catalogue import CAUSES
from bridgehead.insight.doctor.diagnosis import diagnose
from bridgehead.insight.doctor.subjects import Facts
from bridgehead.insight.facts.network_state import NetworkState, Section
from tests.unit.insight.broken_kernels import CASES, NODE, Kernels

BY_NAME = {case.name: case for case in CASES}
MODES = ("nftables", "iptables", "ipvs", "userspace")


@cache
def _facts(name: str) -> Facts:
    """Return the facts of a case, for tests that change nothing of them."""
    return BY_NAME[name].facts()


@pytest.mark.parametrize("mode", MODES)
def test_kernels_that_work_have_no_findings(mode):
    assert diagnose(Kernels(mode).facts()).findings == ()


@pytest.mark.parametrize("name", BY_NAME)
def test_the_first_verdict_is_the_cause_that_was_made(name):
    case = BY_NAME[name]
    first, *others = diagnose(_facts(name)).findings
    assert (first.cause, first.subject) == (case.cause, case.subject), (first, *others)
    assert first.text
    assert first.fix
    assert first.evidence
    assert CAUSES[case.cause]


@pytest.mark.parametrize("name", BY_NAME)
def test_what_was_not_read_is_not_concluded(name):
    """A node whose sections could not be read has no findings of its own."""
    facts = _facts(name)
    unseen = NetworkState(unseen=dict.fromkeys(Section, "no rights"))
    blind = dataclasses.replace(facts, networks=dict.fromkeys(facts.networks, unseen), dns_answers=(), resolvers=())
    assert diagnose(dataclasses.replace(blind, hairpin_off={})).findings == ()


@pytest.mark.parametrize("section", Section)
def test_half_of_a_kernel_that_works_has_no_findings(section):
    kernels = Kernels()
    empty = NetworkState()
    for state in kernels.networks.values():
        name = str(section.name).lower()
        setattr(state, name, getattr(empty, name))
        state.unseen[section] = "no rights"
    assert diagnose(kernels.facts()).findings == ()


def test_a_node_without_a_known_proxy_is_not_compared():
    kernels = Kernels()
    kernels.world.progress.clear()
    for key in kernels.world.pods_of("kube-proxy", "kube-system"):
        del kernels.world.pods[key]
    kernels.node.nftables = b""
    assert diagnose(kernels.facts()).findings == ()


def test_hostile_listings_are_no_findings_and_no_errors():
    hostile = [
        b"\xff\xfe not json",
        b'{"nftables": 7}',
        b'{"nftables": [7, {"chain": []}, {"table": {"family": "ip"}}, {"rule": {"family": "ip", "expr": 7}}]}',
    ]
    for listing in hostile:
        kernels = Kernels()
        kernels.node.nftables = listing
        kernels.node.iptables = {4: b'*filter\n:FORWARD\n-A\n-A FORWARD -j\n-A FORWARD "\n*\n:\n'}
        diagnosis = diagnose(kernels.facts())
        assert all(finding.subject != "cluster" for finding in diagnosis.findings)


def test_texts_of_a_kernel_are_printable():
    kernels = Kernels()
    name = "eth0\x1b[31m"
    kernels.change_interface("eth0", name=name, mtu=1400)
    for finding in diagnose(kernels.facts()).findings:
        text = msgspec.json.encode(finding).decode()
        assert "\x1b" not in text
        assert "\\u001b" not in text
    assert NODE in kernels.networks
