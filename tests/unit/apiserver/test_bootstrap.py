"""The objects that every cluster has: created at the start, and again after a deletion."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.apiserver.bootstrap import ensure_system_objects, maintain_system_objects
from bridgehead.apiserver.kubernetes_service import KubernetesService
from bridgehead.apiserver.server_leases import OnlyServer
from tests.unit.apiserver.world import open_world

GONE = (
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/default/endpoints/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
)


@pytest.fixture
async def world():
    async with open_world() as world:
        yield world


async def test_existing_objects_are_not_written_again(world):
    before = world.store.revision
    registry = world.parts.registry
    await ensure_system_objects(registry, KubernetesService(registry, "10.96.0.1", ("10.0.0.1", 6443), OnlyServer()))
    assert world.store.revision == before


async def test_deleted_objects_are_recreated(world):
    for url in GONE:
        assert (await world.call("DELETE", url)).status == 200
    registry = world.parts.registry
    kubernetes = KubernetesService(registry, "10.96.0.1", ("10.0.0.1", 6443), OnlyServer())
    task = asyncio.create_task(maintain_system_objects(registry, kubernetes, interval=0.001))
    try:
        async with asyncio.timeout(40):
            for url in GONE:
                while (await world.call("GET", url)).status == 404:  # noqa: ASYNC110 - nobody notifies
                    await asyncio.sleep(0.001)
    finally:
        task.cancel()
    answer = await world.call("GET", GONE[0])
    assert answer.json["spec"]["clusterIP"] == "10.96.0.1"


async def test_every_cluster_has_the_mandatory_flow_schemas_and_a_new_one_the_suggested(world):
    found = await world.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    names = [item["metadata"]["name"] for item in found["items"]]
    assert (len(names), {"catch-all", "exempt", "probes", "system-nodes"} - set(names)) == (13, set())
    url = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations/catch-all"
    refused = await world.patch(url, {"spec": {"limited": {"nominalConcurrencyShares": 9}}})
    assert refused.status == 422
    assert "spec of 'catch-all' must equal the fixed value" in refused.json["message"]
