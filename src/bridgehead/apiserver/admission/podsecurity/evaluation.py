"""The checks of a level and version, and their result for a pod.

Pure: no I/O, no clock, no randomness. Source: Kubernetes pod-security-admission/policy/registry.go, checks.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from bridgehead.apiserver.resource import JsonObject

from .baseline import BASELINE_CHECKS
from .levels import BASELINE, PRIVILEGED, LevelVersion
from .restricted import REPLACED, RESTRICTED_CHECKS
from .violations import Check, Violation

# The newest version in which a check changed; later ones, and `latest`, are the same.
_NEWEST = max(
    first for checks in (BASELINE_CHECKS, RESTRICTED_CHECKS) for versions in checks.values() for first, _ in versions
)


def evaluate(wanted: LevelVersion, metadata: JsonObject, spec: JsonObject) -> list[Violation]:
    """Return what in a pod violates a level; `metadata` and `spec` are those of a pod or of a template."""
    checks = _checks(wanted.level, min(wanted.version, _NEWEST))
    return [violation for check in checks if (violation := check(metadata, spec)) is not None]


def describe(violations: Iterable[Violation]) -> str:
    """Return violations as a refusal lists them: `hostPort (container "a" uses hostPort 80), privileged (...)`."""
    return ", ".join(f"{reason} ({detail})" if detail else reason for reason, detail in violations)


def summarize(violations: Iterable[Violation]) -> str:
    """Return violations without what distinguishes pods."""
    return ", ".join(violation.reason for violation in violations)


@lru_cache(maxsize=128)
def _checks(level: str, version: int) -> Sequence[Check]:
    """Return the checks of a level: those of `baseline` first, each level in the order of their ids."""
    if level == PRIVILEGED:
        return ()
    baseline = _at(BASELINE_CHECKS, version)
    if level == BASELINE:
        return tuple(baseline.values())
    restricted = _at(RESTRICTED_CHECKS, version)
    replaced = {REPLACED[one] for one in restricted if one in REPLACED}
    return (*(check for name, check in baseline.items() if name not in replaced), *restricted.values())


def _at(checks: dict[str, tuple[tuple[int, Check], ...]], version: int) -> dict[str, Check]:
    """Return the checks that exist in a version, by id."""
    found: dict[str, Check] = {}
    for name in sorted(checks):
        for first, check in checks[name]:
            if first <= version:
                found[name] = check
    return found
