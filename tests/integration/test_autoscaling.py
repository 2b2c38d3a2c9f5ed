"""The horizontal pod autoscaler with the real kubectl, against an API server process and the controllers.

The metrics API is a custom resource with the paths and the form of metrics.k8s.io, which the test fills.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any

import pytest

from bridgehead.client import ApiClient, ClientConfig
from bridgehead.controllers.manager import Manager
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.kinds import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS, STATEFUL_SETS
from bridgehead.objects.times import format_time

from .api_world import running, until
from .apiserver_process import ServerProcess, write_files
from .test_controllers_workloads import Kubelet, add_node, deployment

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

CONTROLLERS = (
    "deployment-controller",
    "replicaset-controller",
    "serviceaccount-controller",
    "horizontal-pod-autoscaler-controller",
)
POD_METRICS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "pods.metrics.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "metrics.k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "pods", "singular": "pod", "kind": "PodMetrics", "listKind": "PodMetricsList"},
        "versions": [
            {
                "name": "v1beta1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}

AUTOSCALER: dict[str, Any] = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "web"},
    "spec": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        "minReplicas": 2,
        "maxReplicas": 5,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}

STATEFUL_SET = {
    "metadata": {"name": "db", "namespace": "default"},
    "spec": {
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {
            "metadata": {"labels": {"app": "db"}},
            "spec": {"containers": [{"name": "db", "image": "a:1"}]},
        },
    },
}


async def test_workloads_grow_to_the_minimum_and_with_the_use_of_memory(tmp_path):
    write_files(tmp_path)
    with contextlib.closing(ServerProcess(tmp_path)) as server:
        server.start()
        server.write_kubeconfig()
        config = ClientConfig(server=server.url, token="admin-token", ca=(tmp_path / "ca.crt").read_bytes())

        async def kubectl(*arguments: str, stdin: str = "") -> str:
            result = await asyncio.to_thread(server.kubectl, *arguments, stdin=stdin)
            assert result.returncode == 0, (result.stdout, result.stderr)
            return result.stdout

        async with ApiClient(config) as client:
            informers = Informers(client)
            kubelet = Kubelet(client, informers)
            async with running(Manager(client, CONTROLLERS).run(), informers.run(), kubelet.run()):
                await add_node(client, "node1")
                web = deployment(replicas=2)
                template = web["spec"]["template"]["spec"]
                template["nodeName"] = "node1"
                template["containers"][0]["resources"] = {"requests": {"memory": "100Mi"}}
                await client.create(DEPLOYMENTS, web)
                await kubectl("rollout", "status", "deployment/web", "--timeout=60s")

                # A StatefulSet grows to the minimum without any metric.
                await client.create(STATEFUL_SETS, STATEFUL_SET)
                target = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"}
                spec = {**AUTOSCALER["spec"], "scaleTargetRef": target}
                await client.create(HORIZONTAL_POD_AUTOSCALERS, {"metadata": STATEFUL_SET["metadata"], "spec": spec})

                async def has_minimum() -> bool:
                    return (await client.get(STATEFUL_SETS, "db", "default")).spec.replicas == 2

                await until(has_minimum)
                await client.delete(HORIZONTAL_POD_AUTOSCALERS, "db", "default")

                await kubectl("create", "-f", "-", stdin=json.dumps(AUTOSCALER))
                inactive = "--for=condition=ScalingActive=false"
                await kubectl("wait", "hpa/web", inactive, "--timeout=60s")
                columns = (await kubectl("get", "hpa", "--no-headers")).split()
                assert columns[:5] == ["web", "Deployment/web", "memory:", "<unknown>/50%", "2"]
                found = await client.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")
                assert [(one.type, one.reason) for one in found.status.conditions] == [
                    ("AbleToScale", "SucceededGetScale"),
                    ("ScalingActive", "FailedGetResourceMetric"),
                ]
                assert found.status.conditions[1].message == (
                    "the HPA was unable to compute the replica count: failed to get memory utilization: unable to get "
                    "metrics for resource memory: unable to fetch metrics from resource metrics API: the server could "
                    "not find the requested resource (get pods.metrics.k8s.io)"
                )

                await kubectl("create", "-f", "-", stdin=json.dumps(POD_METRICS))
                await kubectl("wait", "crd/pods.metrics.k8s.io", "--for=condition=Established", "--timeout=60s")
                root = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods"
                for pod in (await client.list(PODS)).items:
                    usage = {
                        "metadata": {"name": pod.metadata.name, "labels": pod.metadata.labels},
                        "timestamp": format_time(0),
                        "window": "15s",
                        "containers": [{"name": "web", "usage": {"memory": "90Mi"}}],
                    }
                    body = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetrics", **usage}
                    await client.request("POST", root, json=body)
                # A change of the spec is looked at at once; otherwise the controller looks every 15 s.
                await kubectl("patch", "hpa", "web", "--type=merge", "-p", '{"spec":{"maxReplicas":6}}')
                active = "--for=condition=ScalingActive"
                await kubectl("wait", "hpa/web", active, "--timeout=80s")

                async def has_grown() -> bool:
                    return (await client.get(DEPLOYMENTS, "web", "default")).spec.replicas == 4

                await until(has_grown)
                autoscaler = await client.get(HORIZONTAL_POD_AUTOSCALERS, "web", "default")
                (metric,) = autoscaler.status.current_metrics
                assert metric["resource"]["current"]["averageUtilization"] == 90
                assert autoscaler.status.last_scale_time is not None
