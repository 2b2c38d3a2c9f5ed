"""Generated clusters: every Frontend is found in rendered rules, and every change by another program."""

from __future__ import annotations

import json
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.expectations import Expectations
from bridgehead.insight.facts.network_state import NetworkState
from bridgehead.insight.rulesets.comparison import compare, rules_mode
from bridgehead.insight.rulesets.entries import NodeRules
from bridgehead.insight.rulesets.reading import read_rules
from tests.unit.examples import examples

from .clusters import MODES, clusters, expect, kernel_of


def read(expected: Expectations, kernel: NetworkState) -> NodeRules:
    return read_rules(kernel, expected.table, expected.table.cluster_ips())


@pytest.mark.parametrize("mode", MODES)
@examples(30)
@given(st.data())
def test_rendered_rules_are_what_is_expected(mode: str, data: st.DataObject) -> None:
    expected = expect(data.draw(clusters(mode)))
    rules = read(expected, kernel_of(expected))
    assert rules.problems == ()
    assert rules.unexplained == ()
    assert compare(expected, rules) == []
    if any(True for _ in expected.table):
        assert rules.mode is rules_mode(expected)
    served = rules.frontends.get(rules.mode, {}) if rules.mode is not None else {}
    for frontend in expected.table:
        present = served.get(frontend.key)
        if present is not None and mode != "userspace" and frontend.source_ranges != ():
            assert set(present.backends) == {(one.address, one.port) for one in frontend.backends}
            assert present.service in ("", frontend.owner)
            assert rules.of(frontend.key)
        elif frontend.backends and mode != "ipvs":
            assert present is not None


@pytest.mark.parametrize("mode", ["nftables", "userspace"])
@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_an_element_or_rule_that_is_gone_is_found(mode: str, data: st.DataObject, chance: random.Random) -> None:
    expected = expect(data.draw(clusters(mode)))
    kernel = kernel_of(expected)
    listing = json.loads(kernel.nftables)
    removable: list[tuple[list[object], int]] = []
    for index, item in enumerate(listing["nftables"]):
        if "rule" in item:
            removable.append((listing["nftables"], index))
        elif "map" in item and item["map"]["name"] in ("services", "endpoints"):
            removable += ((item["map"]["elem"], number) for number in range(len(item["map"]["elem"])))
    if not removable:
        return
    where, index = chance.choice(removable)
    del where[index]
    changed = msgspec.structs.replace(kernel, nftables=json.dumps(listing).encode())
    assert compare(expected, read(expected, changed)) != []


@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_a_rule_of_iptables_that_is_gone_is_found(data: st.DataObject, chance: random.Random) -> None:
    expected = expect(data.draw(clusters("iptables")))
    kernel = kernel_of(expected)
    family = chance.choice(sorted(kernel.iptables))
    lines = kernel.iptables[family].splitlines()
    rules = [index for index, line in enumerate(lines) if line.startswith(b"-A ")]
    del lines[chance.choice(rules)]
    changed = msgspec.structs.replace(kernel, iptables={**kernel.iptables, family: b"\n".join(lines)})
    assert compare(expected, read(expected, changed)) != []


@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_a_virtual_server_that_is_gone_is_found(data: st.DataObject, chance: random.Random) -> None:
    expected = expect(data.draw(clusters("ipvs")))
    kernel = kernel_of(expected)
    servers = list(kernel.virtual_servers)
    if not servers:
        return
    del servers[chance.randrange(len(servers))]
    changed = msgspec.structs.replace(kernel, virtual_servers=tuple(servers))
    assert compare(expected, read(expected, changed)) != []


@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_an_element_or_address_of_ipvs_that_is_gone_is_found(data: st.DataObject, chance: random.Random) -> None:
    expected = expect(data.draw(clusters("ipvs")))
    kernel = kernel_of(expected)
    elements = kernel.ip_sets.splitlines()
    *others, dummy = kernel.interfaces
    addresses = list(dummy.addresses)
    if not elements:
        return
    removed = chance.randrange(len(elements) + len(addresses))
    if removed < len(elements):
        del elements[removed]
    else:
        del addresses[removed - len(elements)]
    dummy = msgspec.structs.replace(dummy, addresses=tuple(addresses))
    changed = msgspec.structs.replace(kernel, ip_sets=b"\n".join(elements), interfaces=(*others, dummy))
    assert compare(expected, read(expected, changed)) != []


@examples(30)
@given(st.data(), st.randoms(use_true_random=False))
def test_another_scheduler_or_persistence_is_found(data: st.DataObject, chance: random.Random) -> None:
    expected = expect(data.draw(clusters("ipvs")))
    kernel = kernel_of(expected)
    servers = list(kernel.virtual_servers)
    if not servers:
        return
    index = chance.randrange(len(servers))
    change = chance.choice(({"scheduler": "wlc"}, {"persistent_seconds": 77}))
    servers[index] = msgspec.structs.replace(servers[index], **change)
    changed = msgspec.structs.replace(kernel, virtual_servers=tuple(servers))
    assert compare(expected, read(expected, changed)) != []
