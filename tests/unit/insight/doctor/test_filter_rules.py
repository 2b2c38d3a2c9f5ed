"""The fate of packets in packet filters: a drop is certain, or there is none."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.doctor.filter_rules import Filters, Packet
from bridgehead.insight.facts.network_state import NetworkState

PACKET = Packet(
    4, "tcp", "10.244.1.2", "10.244.2.3", 80, "eth0", "veth7", is_translated=True, is_for_node=False, mark=0
)


def iptables(*rules: str, policy: str = "ACCEPT", chains: str = "", variant: str = "iptables") -> Filters:
    lines = ["*filter", f":FORWARD {policy} [0:0]", *(f":{name} - [0:0]" for name in chains.split()), *rules, "COMMIT"]
    listing = {4: "\n".join(lines).encode()}
    if variant == "iptables":
        return Filters(NetworkState(iptables=listing))
    return Filters(NetworkState(iptables_legacy=listing))


def nft(*rules: list[Any], policy: str = "accept", name: str = "fw", **chain: Any) -> Filters:
    head = {"family": "inet", "table": name}
    base = {**head, "name": "c", "type": "filter", "hook": "forward", "prio": 0, "policy": policy, **chain}
    items: list[Any] = [
        {"table": {"family": "inet", "name": name}},
        {"chain": base},
        {"chain": {**head, "name": "sub"}},
    ]
    items += ({"rule": {**head, "chain": "c", "expr": rule}} for rule in rules)
    return Filters(NetworkState(nftables=json.dumps({"nftables": items}).encode()))


def match(left: Any, right: Any, op: str = "==") -> Any:
    return {"match": {"op": op, "left": left, "right": right}}


DPORT = {"payload": {"protocol": "tcp", "field": "dport"}}
DADDR = {"payload": {"protocol": "ip", "field": "daddr"}}
DROP: Any = {"drop": None}
ACCEPT: Any = {"accept": None}

DROPPING = [
    ["-A FORWARD -j DROP"],
    ["-A FORWARD -p tcp -m tcp --dport 80 -j REJECT --reject-with icmp-port-unreachable"],
    ["-A FORWARD -p tcp -m multiport --dports 22,80:90 -j DROP"],
    ["-A FORWARD ! -s 192.168.0.0/16 -j DROP"],
    ["-A FORWARD -d 10.244.0.0/16 -i eth+ -o veth7 -j DROP"],
    ["-A FORWARD -m conntrack --ctstate NEW,INVALID -j DROP"],
    ["-A FORWARD -m mark ! --mark 0x4000/0x4000 -j DROP"],
    ["-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT", "-A FORWARD -j DROP"],
    ['-A FORWARD -m comment --comment "a -j ACCEPT" -j LOG --log-prefix "x "', "-A FORWARD -j DROP"],
]
PASSING = [
    [],
    ["-A FORWARD -j ACCEPT", "-A FORWARD -j DROP"],
    ["-A FORWARD -p tcp --dport 8080 -j DROP"],
    ["-A FORWARD -i docker0 -j DROP"],
    ["-A FORWARD -m set --match-set allowed src -j ACCEPT", "-A FORWARD -j DROP"],
    ["-A FORWARD -m set --match-set blocked dst -j DROP"],
    ["-A FORWARD -m limit --limit 5/sec -j DROP"],
    ["-A FORWARD -m conntrack --ctstate INVALID -j DROP"],
    ["-A FORWARD -m conntrack --ctstatus DNAT -j ACCEPT", "-A FORWARD -j DROP"],
    ["-A FORWARD -j UNKNOWN-CHAIN", "-A FORWARD -j DROP"],
    ["-A FORWARD -p tcp --dport no-such-service -j DROP"],
]


@pytest.mark.parametrize("rules", DROPPING)
@pytest.mark.parametrize("variant", ["iptables", "iptables-legacy"])
def test_iptables_that_drops(rules, variant):
    drop = iptables(*rules, variant=variant).find_drop(PACKET, "forward")
    assert drop is not None
    assert drop.text == rules[-1]
    assert drop.chain == f"{variant} table ip filter, chain FORWARD"


@pytest.mark.parametrize("rules", PASSING)
def test_iptables_that_may_let_pass(rules):
    assert iptables(*rules).find_drop(PACKET, "forward") is None


def test_the_policy_of_a_chain():
    drop = iptables(policy="DROP").find_drop(PACKET, "forward")
    assert drop is not None
    assert drop.is_policy
    assert iptables("-A FORWARD -o veth7 -j ACCEPT", policy="DROP").find_drop(PACKET, "forward") is None
    assert iptables(policy="DROP").find_drop(PACKET, "input") is None


def test_chains_that_call_each_other():
    rules = ("-A FORWARD -j USER", "-A FORWARD -j DROP")
    assert iptables(*rules, "-A USER -j RETURN", chains="USER").find_drop(PACKET, "forward")
    assert iptables(*rules, "-A USER -o veth7 -j ACCEPT", chains="USER").find_drop(PACKET, "forward") is None
    assert iptables("-A FORWARD -g USER", "-A FORWARD -j DROP", chains="USER").find_drop(PACKET, "forward") is None
    assert iptables(*rules, "-A USER -j USER", chains="USER").find_drop(PACKET, "forward") is None


NFT_DROPPING = [
    [[DROP]],
    [[{"counter": {}}, {"reject": {"type": "icmpx"}}]],
    [[match(DPORT, 80), DROP]],
    [[match(DPORT, {"set": [22, {"range": [79, 81]}]}), DROP]],
    [[match(DADDR, {"prefix": {"addr": "10.244.0.0", "len": 16}}), DROP]],
    [[match(DADDR, "192.0.2.1", "!="), DROP]],
    [[match({"ct": {"key": "state"}}, ["established", "related"], "in"), ACCEPT], [DROP]],
    [[match({"meta": {"key": "iifname"}}, "lo"), ACCEPT], [DROP]],
    [[match({"meta": {"key": "nfproto"}}, "ipv6"), ACCEPT], [DROP]],
]
NFT_PASSING = [
    [[match(DPORT, 8080), DROP]],
    [[match(DPORT, "@blocked"), DROP]],
    [[match(DADDR, "@blocked"), DROP]],
    [[match({"payload": {"protocol": "ip6", "field": "daddr"}}, "fd00::1"), DROP]],
    [[match({"payload": {"protocol": "udp", "field": "dport"}}, 80), DROP]],
    [[{"limit": {"rate": 5, "per": "second"}}, DROP]],
    [[match({"ct": {"key": "status"}}, "dnat"), ACCEPT], [DROP]],
    [[{"vmap": {"key": DPORT, "data": "@verdicts"}}], [DROP]],
    [[{"xt": {"type": "match", "name": "bpf"}}, DROP]],
    [[match({"&": [DADDR, 255]}, 3), DROP]],
    [[{"jump": {"target": "absent"}}], [DROP]],
]


@pytest.mark.parametrize("rules", NFT_DROPPING)
def test_nftables_that_drops(rules):
    drop = nft(*rules).find_drop(PACKET, "forward")
    assert drop is not None
    assert drop.chain == "table inet fw, chain c"


@pytest.mark.parametrize("rules", NFT_PASSING)
def test_nftables_that_may_let_pass(rules):
    assert nft(*rules).find_drop(PACKET, "forward") is None


def test_tables_of_proxies_and_chains_of_nat_do_not_count():
    for name in ("bridgehead", "bridgehead-pods", "kube-proxy"):
        assert not nft([DROP], name=name).may_drop
    assert nft([DROP], type="nat").find_drop(PACKET, "forward") is None


def test_only_base_chains_before_the_translation():
    filters = nft([DROP], hook="prerouting", prio=-300)
    assert filters.find_drop(PACKET, "prerouting", -100)
    assert filters.find_drop(PACKET, "prerouting", -300) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 99999) | st.text(max_size=8) | st.sampled_from(["ip", "@x", "tcp"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["match", "left", "right", "op", "payload", "meta", "ct", "set", "prefix", "drop", "jump"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.lists(st.lists(JSON, max_size=4), max_size=4))
def test_odd_rules_of_nftables_are_no_errors(rules):
    nft(*rules).find_drop(PACKET, "forward")


@given(st.lists(st.text(st.sampled_from("-Ajdsmp !0123./:\"'DROPx\x1b"), max_size=40), max_size=4))
def test_odd_rules_of_iptables_are_no_errors(rules):
    iptables(*(f"-A FORWARD {rule}" for rule in rules)).find_drop(PACKET, "forward")


CALICO = (
    "-A FORWARD -j cali-fw",
    "-A FORWARD -m mark --mark 0x10000/0x10000 -j ACCEPT",
    "-A cali-fw -i eth0 -j cali-tw",
    "-A cali-tw -j MARK --set-xmark 0x0/0x10000",
    "-A cali-tw -j cali-profile",
    "-A cali-tw -m mark --mark 0x10000/0x10000 -j RETURN",
    "-A cali-tw -j DROP",
    "-A cali-profile -j MARK --set-xmark 0x10000/0x10000",
    "-A cali-profile -m mark --mark 0x10000/0x10000 -j RETURN",
)


def test_marks_by_which_a_network_plugin_accepts_are_not_known() -> None:
    found = iptables(*CALICO, policy="DROP", chains="cali-fw cali-tw cali-profile")
    assert found.find_drop(PACKET, "forward") is None


@pytest.mark.parametrize("condition", ["", "-m set --match-set some src"])
def test_chains_that_call_each_other_again_and_again_take_little_time(condition: str) -> None:
    names = [f"c{number}" for number in range(15)]
    rules = [f"-A FORWARD {condition} -j c0", "-A FORWARD -j DROP"]
    rules += [f"-A {name} {condition} -j {target}" for name, target in itertools.pairwise(names) for _ in range(10)]
    found = iptables(*rules, chains=" ".join(names))
    assert found.find_drop(PACKET, "forward") is None
