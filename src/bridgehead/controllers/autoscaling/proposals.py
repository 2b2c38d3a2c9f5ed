"""Proposals of replicas, one for each metric of an autoscaler, and the largest of them. Called by `horizontal`.

Source: Kubernetes `pkg/controller/podautoscaler/horizontal.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bridgehead.objects.autoscaling import HorizontalPodAutoscaler, MetricSpec, Quantity, ResourceMetricSource
from bridgehead.objects.core import Pod
from bridgehead.objects.quantities import milli_value
from bridgehead.objects.selectors import shown_selector

from .autoscaler_status import metric_status
from .metrics_client import MetricsClient, selector_query
from .replica_counts import (
    Computed,
    MetricsError,
    Tolerances,
    average_replicas,
    share_replicas,
    utilization_replicas,
    value_replicas,
)


class Proposal(NamedTuple):
    """A number of replicas by one metric. `name` describes the metric, `status` is its entry of `currentMetrics`."""

    replicas: int
    name: str
    status: dict[str, Any]


class Target(NamedTuple):
    """The scaled object: the replicas of its spec and its status, its pods, and their label selector as text."""

    spec_replicas: int
    status_replicas: int
    pods: Sequence[Pod]
    selector: str


@dataclass
class Proposals:
    """The proposals of all metrics of an autoscaler; `failures` are (reason, message, whole message) of failed ones."""

    replicas: int = 0
    name: str = ""
    statuses: list[dict[str, Any]] = field(default_factory=list)
    failures: list[tuple[str, str, str]] = field(default_factory=list)

    @property
    def error(self) -> str:
        """The message about all failures; "" without one."""
        if not self.failures:
            return ""
        count, total = len(self.failures), len(self.statuses)
        return f"invalid metrics ({count} invalid out of {total}), first error is: {self.failures[0][2]}"

    def may_be_applied(self, current: int) -> bool:
        """Whether the metrics that were read suffice: a number is lowered only if all were."""
        count = len(self.failures)
        return count < len(self.statuses) and not (count and self.replicas < current)


class MetricProposals:
    """Computes proposals. `clock` returns seconds since the epoch."""

    def __init__(self, metrics: MetricsClient, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock

    async def compute(self, autoscaler: HorizontalPodAutoscaler, target: Target, tolerances: Tolerances) -> Proposals:
        """Return what the metrics propose. The largest number counts."""
        result = Proposals()
        for metric in autoscaler.spec.metrics:
            try:
                proposal = await self._propose(metric, autoscaler.metadata.namespace, target, tolerances)
            except MetricFailure as failure:
                result.statuses.append({"type": ""})
                result.failures.append((failure.reason, failure.message, f"{failure.context}: {failure.message}"))
                continue
            result.statuses.append(proposal.status)
            if result.replicas == 0 or proposal.replicas > result.replicas:
                result.replicas, result.name = proposal.replicas, proposal.name
        return result

    async def _propose(self, metric: MetricSpec, namespace: str, target: Target, tolerances: Tolerances) -> Proposal:
        match metric.type:
            case "Resource":
                context = f"failed to get {metric.resource.name} resource metric value"
                request = self._by_resource(metric, metric.resource, "", namespace, target, tolerances)
            case "ContainerResource":
                source = metric.container_resource
                context = f"failed to get {source.container} container metric value"
                request = self._by_resource(metric, source, source.container, namespace, target, tolerances)
            case "Pods":
                context, request = (
                    "failed to get pods metric value",
                    self._by_pods(metric, namespace, target, tolerances),
                )
            case "Object":
                context = "failed to get object metric value"
                request = self._by_object(metric, namespace, target, tolerances)
            case _:
                context = f"failed to get {metric.external.metric.name} external metric value"
                request = self._by_external(metric, namespace, target, tolerances)
        try:
            return await request
        except MetricsError as error:
            raise MetricFailure(f"FailedGet{metric.type}Metric", str(error), context) from error

    async def _by_resource(
        self,
        metric: MetricSpec,
        source: ResourceMetricSource,
        container: str,
        namespace: str,
        target: Target,
        tolerances: Tolerances,
    ) -> Proposal:
        resource, wanted = source.name, source.target
        is_share = wanted.average_value is None
        try:
            try:
                values = await self._metrics.resource(namespace, resource, target.selector, container)
            except MetricsError as error:
                raise MetricsError(f"unable to get metrics for resource {resource}: {error}") from error
            current, pods, now = target.spec_replicas, target.pods, self._clock()
            if wanted.average_value is not None:
                least = milli_value(wanted.average_value)
                computed = average_replicas(current, least, resource, pods, values, tolerances, now)
            else:
                percent = wanted.average_utilization or 0
                computed = utilization_replicas(current, percent, resource, container, pods, values, tolerances, now)
        except MetricsError as error:
            raise MetricsError(f"failed to get {resource} {'utilization' if is_share else 'usage'}: {error}") from error
        what = "container resource" if container else "resource"
        name = f"{resource} {what} utilization (percentage of request)" if is_share else f"{resource} resource"
        status = metric_status(metric, averageUtilization=computed.utilization, averageValue=computed.average)
        return Proposal(computed.replicas, name, status)

    async def _by_pods(self, metric: MetricSpec, namespace: str, target: Target, tolerances: Tolerances) -> Proposal:
        source = metric.pods
        name, selector = source.metric.name, selector_query(source.metric.selector)
        try:
            values = await self._metrics.pods(namespace, name, target.selector, selector)
        except MetricsError as error:
            raise MetricsError(f"unable to get metric {name}: {error}") from error
        wanted = milli_value(source.target.average_value or 0)
        computed = average_replicas(target.spec_replicas, wanted, "", target.pods, values, tolerances, self._clock())
        status = metric_status(metric, averageValue=computed.average)
        return Proposal(computed.replicas, f"pods metric {name}", status)

    async def _by_object(self, metric: MetricSpec, namespace: str, target: Target, tolerances: Tolerances) -> Proposal:
        source = metric.object
        name, reference = source.metric.name, source.described_object
        selector = selector_query(source.metric.selector)
        try:
            try:
                value = await self._metrics.object(namespace, name, reference, selector)
            except MetricsError as error:
                where = f"{reference.kind} on {namespace} {reference.name}"
                raise MetricsError(f"unable to get metric {name}: {where}/{error}") from error
            if source.target.type == "Value" and source.target.value is not None:
                computed = _by_value(target, source.target.value, value, tolerances)
                status = metric_status(metric, value=computed.average)
                return Proposal(computed.replicas, f"{reference.kind} metric {name}", status)
            computed = _by_share(target, source.target.average_value, value, tolerances)
        except MetricsError as error:
            if source.target.type == "Value":
                raise
            raise MetricsError(f"failed to get {name} object metric: {error}") from error
        described = f"external metric {name}({shown_selector(source.metric.selector)})"
        return Proposal(computed.replicas, described, metric_status(metric, averageValue=computed.average))

    async def _by_external(
        self, metric: MetricSpec, namespace: str, target: Target, tolerances: Tolerances
    ) -> Proposal:
        source = metric.external
        name, shown = source.metric.name, shown_selector(source.metric.selector)
        is_share = source.target.average_value is not None
        try:
            try:
                value = await self._metrics.external(namespace, name, selector_query(source.metric.selector))
            except MetricsError as error:
                raise MetricsError(f"unable to get external metric {namespace}/{name}/{shown}: {error}") from error
            if is_share:
                computed = _by_share(target, source.target.average_value, value, tolerances)
                status = metric_status(metric, averageValue=computed.average)
            else:
                computed = _by_value(target, source.target.value or 0, value, tolerances)
                status = metric_status(metric, value=computed.average)
        except MetricsError as error:
            what = f"{name} external metric" if is_share else f"external metric {name}"
            raise MetricsError(f"failed to get {what}: {error}") from error
        return Proposal(computed.replicas, f"external metric {name}({shown})", status)


class MetricFailure(MetricsError):
    """A metric of which no proposal can be made. `context` precedes the message in the message about all metrics."""

    def __init__(self, reason: str, message: str, context: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.context = context


def _by_value(target: Target, wanted: Quantity, value: int, tolerances: Tolerances) -> Computed:
    return value_replicas(target.spec_replicas, milli_value(wanted), value, target.pods, tolerances)


def _by_share(target: Target, wanted: Quantity | None, value: int, tolerances: Tolerances) -> Computed:
    if wanted is None:
        raise MetricsError("invalid object metric source: neither a value target nor an average value target was set")
    return share_replicas(target.status_replicas, milli_value(wanted), value, tolerances)
