"""Removal of iptables' chains by nft, from the JSON that nft prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridgehead.proxy.without_iptables import is_ours, removal


def listing(*objects: dict[str, Any]) -> bytes:
    return json.dumps({"nftables": [{"metainfo": {"version": "1.0.6"}}, *objects]}).encode()


def chain(name: str) -> dict[str, Any]:
    return {"chain": {"family": "ip", "table": "nat", "name": name, "handle": 1}}


def rule(chain: str, handle: int, *statements: dict[str, Any]) -> dict[str, Any]:
    return {"rule": {"family": "ip", "table": "nat", "chain": chain, "handle": handle, "expr": list(statements)}}


def test_chains_are_removed_after_the_rules_that_lead_to_them() -> None:
    comment = {"xt": {"type": "match", "name": "comment"}}
    text = removal(
        listing(
            {"table": {"family": "ip", "name": "nat", "handle": 1}},
            *(chain(name) for name in ("PREROUTING", "KUBE-SERVICES", "KUBE-SVC-4N57TFCL4MD7ZTDA", "MINE")),
            rule("PREROUTING", 5, comment, {"counter": None}, {"jump": {"target": "KUBE-SERVICES"}}),
            rule("MINE", 6, {"goto": {"target": "KUBE-SERVICES"}}),
            rule("PREROUTING", 7, {"jump": {"target": "MINE"}}),
            rule("KUBE-SERVICES", 8, {"jump": {"target": "KUBE-SVC-4N57TFCL4MD7ZTDA"}}),
            rule("PREROUTING", 9, {"accept": None}),
        ),
        is_ours,
    )

    assert text.splitlines() == [
        "delete rule ip nat PREROUTING handle 5",
        "delete rule ip nat MINE handle 6",
        "flush chain ip nat KUBE-SERVICES",
        "flush chain ip nat KUBE-SVC-4N57TFCL4MD7ZTDA",
        "delete chain ip nat KUBE-SERVICES",
        "delete chain ip nat KUBE-SVC-4N57TFCL4MD7ZTDA",
    ]


def test_a_table_without_our_chains_stays_as_it_is() -> None:
    assert removal(listing(chain("PREROUTING"), rule("PREROUTING", 5, {"accept": None})), is_ours) == ""


@pytest.mark.parametrize(
    ("table", "name", "expected"),
    [
        ("nat", "KUBE-SERVICES", True),
        ("nat", "KUBE-NODE-PORT", True),
        ("mangle", "KUBE-IPVS", True),
        ("nat", "KUBE-MARK-DROP", False),
        ("mangle", "KUBE-KUBELET-CANARY", False),
        ("nat", "PREROUTING", False),
    ],
)
def test_the_kubelets_chains_are_not_the_proxys(table: str, name: str, expected: bool) -> None:
    assert is_ours(table, name) is expected
