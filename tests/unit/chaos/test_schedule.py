"""The faults of a seed."""

from __future__ import annotations

import pytest
from chaos.faults import SPECS, FaultKind
from chaos.injectors import INJECTORS
from chaos.schedule import plan_faults


def test_equal_seeds_give_equal_schedules() -> None:
    assert plan_faults(7, 50, 600, set(FaultKind)) == plan_faults(7, 50, 600, set(FaultKind))
    assert plan_faults(7, 50, 600, set(FaultKind)) != plan_faults(8, 50, 600, set(FaultKind))


@pytest.mark.parametrize("count", [0, 1, len(FaultKind), 200])
def test_faults_respect_the_duration_and_the_limits_of_their_kind(count: int) -> None:
    faults = plan_faults(1, count, 60, set(FaultKind))
    assert len(faults) == count
    assert [fault.at for fault in faults] == sorted(fault.at for fault in faults)
    for fault in faults:
        assert 0 <= fault.at <= 60
        assert SPECS[fault.kind].shortest <= fault.seconds <= SPECS[fault.kind].longest


def test_every_kind_occurs_before_any_repeats() -> None:
    assert {fault.kind for fault in plan_faults(3, len(FaultKind), 60, set(FaultKind))} == set(FaultKind)


def test_only_the_selected_kinds_occur() -> None:
    assert {fault.kind for fault in plan_faults(3, 9, 60, {FaultKind.PARTITION})} == {FaultKind.PARTITION}


def test_every_kind_has_limits_and_an_injector() -> None:
    assert set(SPECS) == set(INJECTORS) == set(FaultKind)
