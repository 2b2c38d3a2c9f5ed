"""The pods of a run, in small Deployments."""

from __future__ import annotations

import pytest
from chaos.workload.churn import plan_deployments


@pytest.mark.parametrize(
    ("pods", "sizes"),
    [(200, [5] * 40), (12, [6, 6]), (13, [7, 6]), (3, [3]), (0, [0])],
)
def test_pods_are_in_small_deployments(pods: int, sizes: list[int]) -> None:
    assert list(plan_deployments(pods).values()) == sizes
