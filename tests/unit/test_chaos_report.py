"""The verdict on a run, and its table."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from chaos.connections import ClientKind, Connection
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
    converged_after=2.5,
    not_converged=[],
)


def test_a_sound_run() -> None:
    verdict = judge(SOUND)
    assert verdict.is_sound
    lines = list(describe([verdict]))
    assert lines[2] == "| nftables | 2.0 | 1 | 1,234 | 1 | 0 | 95% | 567 | 0 | 0 | 2.5 s |"
    assert "| partition | 1, broke 1 |" in lines
    assert "| full-disk | 0, 1 impossible |" in lines


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (
            {"occurrences": []},
            "could have been served: lab -> web (cluster-ip by node1): refused, 1 times from second 30 on",
        ),
        ({"lost": ["x"]}, "lost: x"),
        ({"given_twice": ["10.96.0.1"]}, "given twice: 10.96.0.1"),
        ({"converged_after": 10.1}, "converged only 10.1 s after the last fault"),
        ({"converged_after": None, "not_converged": ["node2"]}, "not as it should be in the end: node2"),
    ],
)
def test_what_makes_a_run_unsound(change: dict[str, object], finding: str) -> None:
    verdict = judge(replace(SOUND, **change))
    assert not verdict.is_sound
    assert f"- {finding}" in list(describe([verdict]))


def test_on_a_slow_machine_convergence_may_take_longer() -> None:
    assert judge(replace(SOUND, converged_after=29.0), slack=3).is_sound
    assert not judge(replace(SOUND, converged_after=31.0), slack=3).is_sound
