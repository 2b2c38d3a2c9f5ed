"""The autoscaling/v2 kind HorizontalPodAutoscaler.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from typing import Any

from .meta import Condition, LabelSelector, Object, Part

Quantity = str | int | float


class CrossVersionObjectReference(Part, frozen=True, kw_only=True):
    kind: str = ""
    name: str = ""
    api_version: str = ""


class MetricIdentifier(Part, frozen=True, kw_only=True):
    name: str = ""
    selector: LabelSelector | None = None


class MetricTarget(Part, frozen=True, kw_only=True):
    type: str = ""
    value: Quantity | None = None
    average_value: Quantity | None = None
    average_utilization: int | None = None


class ResourceMetricSource(Part, frozen=True, kw_only=True):
    name: str = ""
    target: MetricTarget = MetricTarget()


class ContainerResourceMetricSource(ResourceMetricSource, frozen=True, kw_only=True):
    container: str = ""


class MetricSource(Part, frozen=True, kw_only=True):
    """Source of a metric of pods, or of an external one."""

    metric: MetricIdentifier = MetricIdentifier()
    target: MetricTarget = MetricTarget()


class ObjectMetricSource(MetricSource, frozen=True, kw_only=True):
    described_object: CrossVersionObjectReference = CrossVersionObjectReference()


class MetricSpec(Part, frozen=True, kw_only=True):
    """One metric. The field for its type is set."""

    type: str = ""
    object: ObjectMetricSource = ObjectMetricSource()
    pods: MetricSource = MetricSource()
    resource: ResourceMetricSource = ResourceMetricSource()
    container_resource: ContainerResourceMetricSource = ContainerResourceMetricSource()
    external: MetricSource = MetricSource()


class HPAScalingPolicy(Part, frozen=True, kw_only=True):
    type: str = ""
    value: int = 0
    period_seconds: int = 0


class HPAScalingRules(Part, frozen=True, kw_only=True):
    stabilization_window_seconds: int | None = None
    select_policy: str = "Max"
    policies: tuple[HPAScalingPolicy, ...] = ()
    tolerance: Quantity | None = None


class HorizontalPodAutoscalerBehavior(Part, frozen=True, kw_only=True):
    scale_up: HPAScalingRules = HPAScalingRules()
    scale_down: HPAScalingRules = HPAScalingRules()


class HorizontalPodAutoscalerSpec(Part, frozen=True, kw_only=True):
    scale_target_ref: CrossVersionObjectReference = CrossVersionObjectReference()
    min_replicas: int = 1
    max_replicas: int = 0
    metrics: tuple[MetricSpec, ...] = ()
    behavior: HorizontalPodAutoscalerBehavior | None = None


class HorizontalPodAutoscalerStatus(Part, frozen=True, kw_only=True):
    last_scale_time: str | None = None
    current_replicas: int = 0
    desired_replicas: int = 0
    current_metrics: tuple[dict[str, Any], ...] = ()
    conditions: tuple[Condition, ...] = ()


class HorizontalPodAutoscaler(Object, frozen=True, kw_only=True):
    spec: HorizontalPodAutoscalerSpec = HorizontalPodAutoscalerSpec()
    status: HorizontalPodAutoscalerStatus = HorizontalPodAutoscalerStatus()
