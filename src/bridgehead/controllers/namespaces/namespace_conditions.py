"""Conditions of a namespace that is being deleted: the reasons why it is still there.

Pure: no I/O, no clock, no randomness.
Source: `pkg/controller/namespace/deletion/status_condition_utils.go`; types, reasons and messages are Kubernetes' own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bridgehead.objects.meta import Condition


@dataclass
class Remains:
    """The content left in a namespace: counts by `plural.group`, counts by finalizer, and errors."""

    counts: dict[str, int] = field(default_factory=dict)
    finalizers: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    discovery_failure: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.counts or self.failures or self.discovery_failure)

    def add(self, group: str, plural: str, finalizers: Sequence[Sequence[str]]) -> None:
        """Count remaining objects, with one entry of `finalizers` for each."""
        if finalizers:
            self.counts[f"{plural}.{group}"] = len(finalizers)
        for each in finalizers:
            for finalizer in each:
                self.finalizers[finalizer] = self.finalizers.get(finalizer, 0) + 1


def plan_conditions(remains: Remains) -> list[Condition]:
    """Return all five conditions, in Kubernetes' order, without times."""
    content = [f"{name} has {count} resource instances" for name, count in sorted(remains.counts.items())]
    kept = [f"{name} in {count} resource instances" for name, count in sorted(remains.finalizers.items())]
    failures = "; ".join(remains.failures)
    return [
        _condition(
            "NamespaceDeletionDiscoveryFailure",
            ("DiscoveryFailed", f"Discovery failed for some groups: {remains.discovery_failure}")
            if remains.discovery_failure
            else None,
            ("ResourcesDiscovered", "All resources successfully discovered"),
        ),
        _condition(
            "NamespaceDeletionGroupVersionParsingFailure",
            None,
            ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
        ),
        _condition(
            "NamespaceDeletionContentFailure",
            (
                "ContentDeletionFailed",
                f"Failed to delete all resource types, {len(remains.failures)} remaining: {failures}",
            )
            if failures
            else None,
            ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
        ),
        _condition(
            "NamespaceContentRemaining",
            ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(content)}") if content else None,
            ("ContentRemoved", "All content successfully removed"),
        ),
        _condition(
            "NamespaceFinalizersRemaining",
            ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {', '.join(kept)}")
            if kept
            else None,
            ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
        ),
    ]


def merge_conditions(
    current: Sequence[Condition], wanted: Sequence[Condition], now: str
) -> list[dict[str, Any]] | None:
    """Return all conditions of the new status; None without changes. `lastTransitionTime` changes with `status`."""
    before = {condition.type: condition for condition in current}
    merged = dict(before)
    for condition in wanted:
        old = before.get(condition.type)
        since = old.last_transition_time if old is not None and old.status == condition.status else now
        merged[condition.type] = msgspec.structs.replace(condition, last_transition_time=since)
    if merged == before:
        return None
    built: list[dict[str, Any]] = msgspec.to_builtins(list(merged.values()))
    return built


def _condition(type: str, problem: tuple[str, str] | None, success: tuple[str, str]) -> Condition:
    reason, message = problem or success
    return Condition(type=type, status="True" if problem else "False", reason=reason, message=message)
