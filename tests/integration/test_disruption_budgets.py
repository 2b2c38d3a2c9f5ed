"""PodDisruptionBudgets with the real kubectl, against an API server process and the controllers."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from bridgehead.client import ApiClient, ClientConfig
from bridgehead.controllers.manager import Manager
from bridgehead.controllers.shared_informers import Informers
from bridgehead.objects.kinds import DEPLOYMENTS, EVENTS, NODES, PODS

from .api_world import running, until
from .apiserver_process import ServerProcess, write_files
from .test_controllers_workloads import Kubelet, add_node, deployment

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

CONTROLLERS = ("deployment-controller", "replicaset-controller", "serviceaccount-controller", "disruption-controller")


async def test_w44_an_eviction_waits_for_the_budget(tmp_path):
    write_files(tmp_path)
    with contextlib.closing(ServerProcess(tmp_path)) as server:
        server.start()
        server.write_kubeconfig()
        config = ClientConfig(server=server.url, token="admin-token", ca=(tmp_path / "ca.crt").read_bytes())

        async def kubectl(*arguments: str, stdin: str = "", succeeds: bool = True) -> str:
            result = await asyncio.to_thread(server.kubectl, *arguments, stdin=stdin)
            assert (result.returncode == 0) == succeeds, (result.stdout, result.stderr)
            return result.stdout if succeeds else result.stderr

        async with ApiClient(config) as client:
            informers = Informers(client)
            kubelet = Kubelet(client, informers)
            async with running(Manager(client, CONTROLLERS).run(), informers.run(), kubelet.run()):
                await add_node(client, "node1")
                web = deployment(replicas=2)
                web["spec"]["template"]["spec"]["nodeName"] = "node1"
                await client.create(DEPLOYMENTS, web)
                await kubectl("create", "poddisruptionbudget", "web", "--selector=app=web", "--min-available=2")
                healthy = "--for=jsonpath={.status.currentHealthy}=2"
                await kubectl("wait", "pdb/web", healthy, "--timeout=60s")
                before = {pod.metadata.name for pod in (await client.list(PODS)).items}
                name = min(before)
                eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
                path = f"/api/v1/namespaces/default/pods/{name}/eviction"
                refused = await kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction), succeeds=False)
                assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
                spec = {"minAvailable": None, "maxUnavailable": "50%"}
                await kubectl("patch", "pdb", "web", "--type=merge", "-p", json.dumps({"spec": spec}))
                await kubectl("wait", "pdb/web", "--for=condition=DisruptionAllowed", "--timeout=60s")
                rows = (await kubectl("get", "pdb", "--no-headers")).split()
                assert rows[:4] == ["web", "N/A", "50%", "1"]
                await kubectl("drain", "node1", "--timeout=80s")
                assert (await client.get(NODES, "node1")).spec.unschedulable
                metadata = {"name": "bare", "namespace": "default", "labels": {"app": "web"}}
                containers = [{"name": "a", "image": "nginx"}]
                bare = {"metadata": metadata, "spec": {"nodeName": "node1", "containers": containers}}
                await client.create(PODS, bare)

                async def is_warned() -> bool:
                    return any(event.reason == "UnmanagedPods" for event in (await client.list(EVENTS)).items)

                await until(is_warned)
                await client.delete(PODS, "bare", "default", grace_period_seconds=0)

                async def are_replaced() -> bool:
                    pods = (await client.list(PODS)).items
                    return len(pods) == 2 and not before & {pod.metadata.name for pod in pods}

                await until(are_replaced)
                await kubectl("wait", "pdb/web", healthy, "--timeout=60s")
