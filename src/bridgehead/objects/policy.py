"""The policy/v1 kind PodDisruptionBudget.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from .meta import Condition, LabelSelector, Object, Part


class PodDisruptionBudgetSpec(Part, frozen=True, kw_only=True):
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudgetStatus(Part, frozen=True, kw_only=True):
    """`disrupted_pods`: times at which evictions were allowed (RFC 3339), by the pod's name."""

    observed_generation: int = 0
    disrupted_pods: dict[str, str] = {}
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Object, frozen=True, kw_only=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
