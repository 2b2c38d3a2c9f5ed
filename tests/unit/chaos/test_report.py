"""The verdict on a run, and its table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from chaos.connections import ClientKind, Connection
from chaos.convergence import Convergence
from chaos.faults import FaultKind, Occurrence
from chaos.report import Observed, describe, judge

REFUSED = Connection("lab", "lab", ClientKind.CLUSTER_IP, "web", "node1", frozenset({"node2"}), 30, 31, "refused")
SOUND = Observed(
    mode="nftables",
    begun=0,
    seconds=120,
    occurrences=[Occurrence(FaultKind.PARTITION, 29, 32, "node2")],
    impossible=[(FaultKind.FULL_DISK, "no disk")],
    used=[replace(REFUSED, start=0, end=0)],
    made=Counter({ClientKind.CLUSTER_IP: 1000, ClientKind.DNS: 234}),
    failed=[REFUSED],
    acknowledged=567,
    lost=[],
    given_twice=[],
    convergence=Convergence(2.5, "node node1 is not ready"),
    unread=[],
)


def test_a_run_without_violations_passes() -> None:
    verdict = judge(SOUND)
    assert verdict.is_sound
    lines = list(describe([verdict]))
    assert lines[2] == "| nftables | 2.0 | 1 | 1,234 | 1 | 0 | 95% | 567 | 0 | 0 | 2.5 s |"
    assert "Last to converge in nftables: node node1 is not ready" in lines
    assert "| partition | 1, 1 failures |" in lines
    assert "| full-disk | 0, 1 impossible |" in lines


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            {"occurrences": []},
            "unexplained: lab -> web (cluster-ip by node1): refused, 1 times from second 30 on",
        ),
        ({"made": Counter()}, "clients made no connection"),
        ({"lost": ["x"]}, "lost write: x"),
        ({"given_twice": ["10.96.0.1"]}, "duplicate address: 10.96.0.1"),
        ({"convergence": Convergence(10.1, "x")}, "converged only 10.1 s after the last fault; last: x"),
        ({"convergence": Convergence(None, "node2", ["node2"])}, "wrong after the run: node2"),
        ({"convergence": Convergence(2.5, "", ["pod x"])}, "wrong after the run: pod x"),
        ({"unread": ["client-node1"]}, "wrong after the run: client-node1"),
    ],
)
def test_violations_fail_a_run(change: dict[str, Any], finding: str) -> None:
    verdict = judge(replace(SOUND, **change))
    assert not verdict.is_sound
    assert f"- {finding}" in list(describe([verdict]))


def test_the_slack_factor_extends_the_convergence_limit() -> None:
    assert judge(replace(SOUND, convergence=Convergence(29.0)), slack=3).is_sound
    assert not judge(replace(SOUND, convergence=Convergence(31.0)), slack=3).is_sound
