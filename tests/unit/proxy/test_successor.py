"""The pages of the proxy that serves a node after this one."""

from __future__ import annotations

import pytest

from bridgehead.proxy.successor import Successor, successor_of

SYNC = "kubeproxy_sync_proxy_rules_last_timestamp_seconds"
LATER = "1.790000000e+09"


@pytest.mark.parametrize(
    ("mode", "metrics", "expected"),
    [
        ("iptables", f"# TYPE {SYNC} gauge\n{SYNC} {LATER}\n", Successor("iptables")),
        ("ipvs\n", f'{SYNC}{{ip_family="IPv4"}} {LATER}\n{SYNC}{{ip_family="IPv6"}} {LATER}\n', Successor("ipvs")),
        ("nftables", f"{SYNC} {LATER}\nbridgehead_proxy_elements_total 3.0\n", Successor("nftables", True)),
        ("userspace", f"{SYNC} {LATER}\nbridgehead_proxy_elements_total 3.0\n", Successor("userspace", True)),
    ],
)
def test_a_proxy_that_serves(mode: str, metrics: str, expected: Successor) -> None:
    assert successor_of(mode, metrics) == expected


@pytest.mark.parametrize(
    ("mode", "metrics", "problem"),
    [
        ("iptables", f"{SYNC} 0\n", "it has not written its rules yet"),
        ("iptables", f'{SYNC}{{ip_family="IPv4"}} {LATER}\n{SYNC}{{ip_family="IPv6"}} 0\n', "it has not written"),
        ("iptables", "", "it has not written its rules yet"),
        ("iptables", f"{SYNC} many\n", "it has not written its rules yet"),
        ("userspace", f"{SYNC} {LATER}\n", "its mode is 'userspace', instead of iptables, ipvs or nftables"),
        ("<html>" + "x" * 1000, f"{SYNC} {LATER}\n", "its mode is '<html>xxx"),
    ],
)
def test_a_proxy_that_does_not_serve_yet(mode: str, metrics: str, problem: str) -> None:
    found = successor_of(mode, metrics)
    assert found.problem.startswith(problem)
    assert len(found.problem) < 120
