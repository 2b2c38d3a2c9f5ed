"""The pages of the proxy that serves a node after this one."""

from __future__ import annotations

import pytest

from bridgehead.proxy.successor import Successor, Syncs, Waiting, successor_of

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


def page(ended: float, requested: float, count: int, seconds: float) -> str:
    """The metrics of a kube-proxy before 1.32."""
    return (
        f"{SYNC} {ended}\nkubeproxy_sync_proxy_rules_last_queued_timestamp_seconds {requested}\n"
        f'kubeproxy_sync_proxy_rules_duration_seconds_bucket{{le="+Inf"}} {count}\n'
        f"kubeproxy_sync_proxy_rules_duration_seconds_sum {seconds}\n"
        f"kubeproxy_sync_proxy_rules_duration_seconds_count {count}\n"
    )


def test_a_sync_that_was_requested_during_the_first_one_is_waited_for() -> None:
    waiting = Waiting()
    pages = (
        (page(0, 100, 0, 0), "it has not written its rules yet"),
        (page(110, 103, 1, 8), "it writes its rules once more"),  # from 102 on
        (page(110, 103, 1, 8), "it writes its rules once more"),
        (page(116, 103, 2, 14), ""),
        (page(116, 117, 2, 14), "it writes its rules once more"),
        (page(119, 117, 3, 15), ""),
    )
    for now, (metrics, expected) in enumerate(pages):
        assert waiting.problem(successor_of("ipvs", metrics), float(now)) == expected


def test_a_kube_proxy_that_always_gets_changes_is_not_waited_for_forever() -> None:
    waiting = Waiting()
    busy = successor_of("ipvs", page(110, 111, 40, 50))

    assert busy.syncs == Syncs(110, 111, 40, 50)
    assert waiting.problem(busy, 1000) == "it writes its rules once more"
    assert waiting.problem(busy, 1059) == "it writes its rules once more"
    assert waiting.problem(busy, 1061) == ""
