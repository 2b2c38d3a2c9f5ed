"""Limits of an autoscaler's changes, replayed over time."""

from __future__ import annotations

import pytest

from bridgehead.controllers.autoscaling.replica_counts import Tolerances
from bridgehead.controllers.autoscaling.scaling_limits import ScalingRecord, limit_replicas, tolerances
from bridgehead.objects.autoscaling import HorizontalPodAutoscalerBehavior, HPAScalingPolicy, HPAScalingRules

DEFAULT_UP = (
    HPAScalingPolicy(type="Pods", value=4, period_seconds=15),
    HPAScalingPolicy(type="Percent", value=100, period_seconds=15),
)
DEFAULT_DOWN = (HPAScalingPolicy(type="Percent", value=100, period_seconds=15),)


def rules(*policies: tuple[str, int, int], select: str = "Max", window: int | None = 0) -> HPAScalingRules:
    made = tuple(HPAScalingPolicy(type=kind, value=value, period_seconds=period) for kind, value, period in policies)
    return HPAScalingRules(policies=made, select_policy=select, stabilization_window_seconds=window)


def behavior(up: HPAScalingRules | None = None, down: HPAScalingRules | None = None) -> HorizontalPodAutoscalerBehavior:
    return HorizontalPodAutoscalerBehavior(
        scale_up=up or HPAScalingRules(policies=DEFAULT_UP, stabilization_window_seconds=0),
        scale_down=down or HPAScalingRules(policies=DEFAULT_DOWN),
    )


def replay(
    given: HorizontalPodAutoscalerBehavior | None,
    first: int,
    steps: list[tuple[int, int]],
    least: int = 1,
    most: int = 100,
) -> list[tuple[int, str, str]]:
    """Return replicas and reasons after each (seconds, desired), as the controller does it."""
    record = ScalingRecord()
    record.recommend(first, 0.0)
    current, results = first, []
    for now, desired in steps:
        limited = limit_replicas(record, given, least, most, current, desired, float(now))
        if limited.replicas != current:
            record.change(current, limited.replicas, float(now))
        current = limited.replicas
        results.append((current, limited.stable[0], limited.limit[0]))
    return results


READY, DOWN, UP = "ReadyForNewScale", "ScaleDownStabilized", "ScaleUpStabilized"
IN_RANGE, MANY, FEW = "DesiredWithinRange", "TooManyReplicas", "TooFewReplicas"
FAST, SLOW = "ScaleUpLimit", "ScaleDownLimit"

REPLAYS = {
    "doubles at most": (None, 3, [(15, 20), (30, 20)], [(6, READY, FAST), (12, READY, FAST)]),
    "grows to four at once": (None, 1, [(15, 9)], [(4, READY, FAST)]),
    "waits five minutes to shrink": (
        None,
        6,
        [(15, 2), (299, 3), (301, 2), (330, 2), (600, 2)],
        [(6, DOWN, IN_RANGE), (6, DOWN, IN_RANGE), (3, DOWN, IN_RANGE), (3, DOWN, IN_RANGE), (2, READY, IN_RANGE)],
    ),
    "rules: four pods or the double in 15 s": (
        behavior(),
        1,
        [(15, 50), (20, 50), (31, 50)],
        [(5, READY, FAST), (5, READY, FAST), (10, READY, FAST)],
    ),
    "rules: the smallest change": (
        behavior(rules(("Pods", 4, 60), ("Percent", 10, 60), select="Min")),
        15,
        [(15, 50), (30, 50), (76, 50)],
        [(17, READY, FAST), (17, READY, FAST), (19, READY, FAST)],
    ),
    "rules: no growth": (behavior(rules(("Pods", 4, 60), select="Disabled")), 2, [(15, 9)], [(2, READY, FAST)]),
    "rules: no shrinking": (behavior(down=rules(("Pods", 4, 60), select="Disabled")), 9, [(15, 2)], [(9, READY, SLOW)]),
    "rules: one pod less in a minute": (
        behavior(down=rules(("Pods", 1, 60))),
        5,
        [(15, 1), (30, 1), (76, 1)],
        [(4, READY, SLOW), (4, READY, SLOW), (3, READY, SLOW)],
    ),
    "rules: half in a minute, the rest rounded down": (
        behavior(down=rules(("Percent", 50, 60))),
        5,
        [(15, 1)],
        [(2, READY, SLOW)],
    ),
    "rules: the smallest shrinking": (
        behavior(down=rules(("Percent", 50, 60), ("Pods", 1, 60), select="Min")),
        9,
        [(15, 1)],
        [(8, READY, SLOW)],
    ),
    "rules: what was added may go again in the period": (
        behavior(rules(("Pods", 9, 60)), rules(("Pods", 1, 60))),
        5,
        [(15, 8), (30, 4)],
        [(8, READY, IN_RANGE), (4, READY, IN_RANGE)],
    ),
    "rules: five minutes to shrink without a window": (
        behavior(down=HPAScalingRules(policies=DEFAULT_DOWN)),
        6,
        [(15, 2), (301, 2), (302, 2)],
        [(6, DOWN, IN_RANGE), (2, READY, IN_RANGE), (2, READY, IN_RANGE)],
    ),
    "rules: the lowest of a minute to grow": (
        behavior(rules(("Percent", 900, 15), window=60)),
        2,
        [(15, 6), (40, 9), (61, 9), (101, 9)],
        [(2, UP, IN_RANGE), (2, UP, IN_RANGE), (6, UP, IN_RANGE), (9, READY, IN_RANGE)],
    ),
}


@pytest.mark.parametrize("name", REPLAYS)
def test_replays(name: str) -> None:
    given, first, steps, expected = REPLAYS[name]
    assert replay(given, first, steps) == expected


@pytest.mark.parametrize(
    ("given", "first", "desired", "expected"),
    [
        (None, 5, 9, (6, READY, MANY)),
        (None, 5, 1, (5, DOWN, IN_RANGE)),
        (behavior(), 5, 9, (6, READY, MANY)),
        (behavior(down=rules(("Percent", 100, 15))), 5, 1, (3, READY, FEW)),
        (behavior(), 5, 5, (5, READY, IN_RANGE)),
    ],
)
def test_bounds(given, first, desired, expected) -> None:
    assert replay(given, first, [(15, desired)], least=3, most=6) == [expected]


def test_the_least_counts_without_rules() -> None:
    record = ScalingRecord()
    assert limit_replicas(record, None, 3, 6, 3, 1, 0.0)[0::2] == (
        3,
        (FEW, "the desired replica count is less than the minimum replica count"),
    )


def test_a_record_forgets_after_an_hour() -> None:
    record = ScalingRecord()
    for now in (0.0, 10.0, 3605.0):
        record.recommend(1, now)
        record.change(1, 2, now)
        record.change(2, 1, now)
    times = [10.0, 3605.0]
    for entries in (record.recommendations, record.added, record.removed):
        assert [entry.time for entry in entries] == times


def test_tolerances_of_rules() -> None:
    assert tolerances(None) == Tolerances(0.1, 0.1)
    assert tolerances(behavior()) == Tolerances(0.1, 0.1)
    given = HorizontalPodAutoscalerBehavior(
        scale_up=HPAScalingRules(tolerance="0"), scale_down=HPAScalingRules(tolerance="50m")
    )
    assert tolerances(given) == Tolerances(0.05, 0.0)
