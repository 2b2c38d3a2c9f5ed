"""Metrics of the aggregated APIs metrics.k8s.io, custom.metrics.k8s.io and external.metrics.k8s.io.

Used by `proposals`. Every method raises MetricsError, also when there is no such API.
Source: Kubernetes `pkg/controller/podautoscaler/metrics/client.go`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.controllers.served_kinds import find_kinds
from bridgehead.objects.autoscaling import CrossVersionObjectReference
from bridgehead.objects.meta import LabelSelector

from .metric_answers import external_metric, object_metric, pod_metrics, resource_metrics
from .replica_counts import MetricsError, PodMetric

T = TypeVar("T")
_CUSTOM, _EXTERNAL, _RESOURCE = "custom.metrics.k8s.io", "external.metrics.k8s.io", "metrics.k8s.io"
_CUSTOM_VERSIONS = ("v1beta2", "v1beta1")


class MetricsClient:
    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def resource(self, namespace: str, resource: str, selector: str, container: str) -> dict[str, PodMetric]:
        """Return the use of a resource by the pods that the label selector selects."""
        path = f"/apis/{_RESOURCE}/v1beta1/namespaces/{namespace}/pods"
        return await self._read(
            path, {"labelSelector": selector}, lambda answer: resource_metrics(answer, resource, container), "resource"
        )

    async def pods(self, namespace: str, metric: str, selector: str, metric_selector: str) -> dict[str, PodMetric]:
        """Return a custom metric of the pods that the label selector selects."""
        path = f"{await self._custom()}/namespaces/{namespace}/pods/*/{metric}"
        query = {"labelSelector": selector} | _metric_query(metric_selector)
        return await self._read(path, query, pod_metrics, "custom")

    async def object(
        self, namespace: str, metric: str, reference: CrossVersionObjectReference, metric_selector: str
    ) -> int:
        """Return a custom metric of one object, in thousandths."""
        root = await self._custom()
        group = reference.api_version.rpartition("/")[0]
        if (reference.kind, group) == ("Namespace", ""):
            # A reference cannot lead to another namespace.
            path = f"{root}/namespaces/{namespace}/metrics/{metric}"
        else:
            kinds = await self._reading(find_kinds(self._client, group, reference.kind), "custom")
            if not kinds:
                why = f'no matches for kind "{reference.kind}" in group "{group}"'
                raise MetricsError(f"unable to fetch metrics from custom metrics API: {why}")
            resource = f"{kinds[0].plural}.{group}" if group else kinds[0].plural
            path = f"{root}/namespaces/{namespace}/{resource}/{reference.name}/{metric}"
        return await self._read(path, _metric_query(metric_selector), object_metric, "custom")

    async def external(self, namespace: str, metric: str, selector: str) -> int:
        """Return the sum of an external metric, in thousandths."""
        path = f"/apis/{_EXTERNAL}/v1beta1/namespaces/{namespace}/{metric}"
        return await self._read(path, {"labelSelector": selector} if selector else {}, external_metric, "external")

    async def _custom(self) -> str:
        """Return the root of the custom metrics API, in the newest version that is served."""
        try:
            group = await self._reading(self._client.request("GET", f"/apis/{_CUSTOM}"), "custom")
        except MetricsError as error:
            if isinstance(error.__cause__, NotFound):
                why = f"no custom metrics API ({_CUSTOM}) registered"
                raise MetricsError(f"unable to fetch metrics from custom metrics API: {why}") from error
            raise
        served = {one.get("version") for one in group.get("versions") or ()}
        version = next((one for one in _CUSTOM_VERSIONS if one in served), _CUSTOM_VERSIONS[0])
        return f"/apis/{_CUSTOM}/{version}"

    async def _read(self, path: str, query: dict[str, str], parse: Callable[[dict[str, Any]], T], api: str) -> T:
        answer = await self._reading(self._client.request("GET", path, params=query), api, path)
        try:
            return parse(answer)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            why = f"malformed answer: {error!r}"
            raise MetricsError(f"unable to fetch metrics from {api} metrics API: {why}") from error

    async def _reading(self, request: Any, api: str, path: str = "") -> Any:
        try:
            return await request
        except ClientError as error:
            why = str(error)
            if isinstance(error, NotFound) and path and "requested resource" in why:
                # Kubernetes' clients name the resource that they asked for.
                group, resource = path.split("/")[2], path.split("/")[6]
                why = f"{why} (get {resource}.{group})"
            raise MetricsError(f"unable to fetch metrics from {api} metrics API: {why}") from error


def selector_query(selector: LabelSelector | None) -> str:
    """Return a label selector in the form of a query's parameter; "" for none."""
    if selector is None:
        return ""
    terms = [f"{key}={value}" for key, value in sorted(selector.match_labels.items())]
    for one in selector.match_expressions:
        values = ",".join(sorted(one.values))
        match one.operator:
            case "In":
                terms.append(f"{one.key} in ({values})")
            case "NotIn":
                terms.append(f"{one.key} notin ({values})")
            case "Exists":
                terms.append(one.key)
            case _:
                terms.append(f"!{one.key}")
    return ",".join(terms)


def _metric_query(selector: str) -> dict[str, str]:
    return {"metricLabelSelector": selector} if selector else {}
