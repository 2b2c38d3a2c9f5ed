"""The chains and rules that are removed beside a kube-proxy, and those that stay."""

from __future__ import annotations

import pytest

from bridgehead.proxy.iptables.chains import LOOPBACK_GUARD, fixed_chains, jumps
from bridgehead.proxy.iptables.kube_proxy_takeover import removal
from bridgehead.proxy.iptables.readback import Table, parse_listing
from bridgehead.proxy.mode import Settings
from tests.unit.insight.rulesets import kube_proxy

OURS, ORPHAN = "KUBE-SVC-AAAAAAAAAAAAAAA7", "KUBE-SEP-AAAAAAAAAAAAAAA7"
SETTINGS = Settings(service_cidrs=("10.96.0.0/12",))


@pytest.fixture
def tables() -> dict[str, Table]:
    """The tables of a node that kube-proxy has taken over from this proxy, with leftovers."""
    found = parse_listing(kube_proxy.IPTABLES.encode())
    nat, filter_ = found["nat"].chains, found["filter"].chains
    nat |= {OURS: [f"-j {ORPHAN}"], ORPHAN: ["-p tcp -j DNAT --to-destination 10.244.1.9:80"]}
    fixed = {chain.name: list(rules) for chain, rules in fixed_chains(4, SETTINGS).items() if chain.table == "filter"}
    filter_ |= {"KUBE-CLUSTER-IPS": ["-d 10.96.0.10/32 -j KUBE-REFUSE", "-j DROP"], "KUBE-REFUSE": fixed["KUBE-REFUSE"]}
    filter_["KUBE-FIREWALL"] = fixed["KUBE-FIREWALL"]
    filter_["OUTPUT"] += [jump.rule for jump in jumps() if jump[:2] == ("filter", "OUTPUT")]
    return found


def test_beside_mode_iptables_only_what_nothing_leads_to_is_removed(tables: dict[str, Table]) -> None:
    transaction = removal({4: tables}, "iptables")

    assert transaction.part(4, "nat").removed == [ORPHAN, OURS]
    part = transaction.part(4, "filter")
    assert part.removed == ["KUBE-CLUSTER-IPS", "KUBE-REFUSE"]
    (jump, *guards) = part.lines
    assert (jump.startswith("-D OUTPUT ! -o lo"), jump.endswith("-j KUBE-EXTERNAL-SERVICES")) == (True, True)
    assert [f"-D KUBE-FIREWALL {rule}" for rule in tables["filter"].chains["KUBE-FIREWALL"][1:]] == guards
    assert tables["filter"].chains["KUBE-FIREWALL"][0] == LOOPBACK_GUARD[0], "the kubelet's, which stays"


def test_rules_of_a_family_that_kube_proxy_has_not_synced_stay_in_use(tables: dict[str, Table]) -> None:
    tables["nat"].chains["KUBE-SERVICES"].append(f"-d 10.96.0.99/32 -p tcp -j {OURS}")
    tables["filter"].chains["KUBE-SERVICES"].append("-d 10.96.0.0/12 -j KUBE-CLUSTER-IPS")

    transaction = removal({4: tables}, "iptables")

    assert not transaction.part(4, "nat")
    assert "-D KUBE-SERVICES -d 10.96.0.0/12 -j KUBE-CLUSTER-IPS" in transaction.part(4, "filter").lines


def test_beside_mode_ipvs_the_chains_of_services_are_removed(tables: dict[str, Table]) -> None:
    tables["nat"].chains["KUBE-SERVICES"] = []  # kube-proxy's, without jumps to chains of Services

    transaction = removal({4: tables}, "ipvs")

    removed = transaction.part(4, "nat").removed
    assert {name for name in tables["nat"].chains if "KUBE-S" in name or "PORTS" in name} - set(removed) == {
        "KUBE-SERVICES"
    }
    assert "KUBE-PROXY-FIREWALL" not in transaction.part(4, "filter").removed, "of kube-proxy's mode ipvs, too"


def test_a_firewall_chain_with_nothing_of_the_kubelet_is_removed(tables: dict[str, Table]) -> None:
    chains = tables["filter"].chains
    chains["KUBE-FIREWALL"] = chains["KUBE-FIREWALL"][1:]

    assert "KUBE-FIREWALL" in removal({6: tables}, "iptables").part(6, "filter").removed


def test_nothing_is_removed_twice() -> None:
    assert not removal({4: parse_listing(kube_proxy.IPTABLES.encode())}, "iptables")
