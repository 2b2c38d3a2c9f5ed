"""What must be there: made at the start, and again when somebody deletes it."""

from __future__ import annotations

import asyncio

import pytest

from bridgehead.apiserver.bootstrap import ensure_basics, keep_basics

from .apiserver_world import open_world

GONE = (
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/default/endpoints/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
)


@pytest.fixture
async def world():
    async with open_world() as world:
        yield world


async def test_what_is_there_is_not_written_again(world):
    before = world.store.revision
    await ensure_basics(world.parts.registry, service_ip="10.96.0.1", advertise=("10.0.0.1", 6443))
    assert world.store.revision == before


async def test_what_is_deleted_comes_back(world):
    for url in GONE:
        assert (await world.call("DELETE", url)).status == 200
    task = asyncio.create_task(
        keep_basics(world.parts.registry, service_ip="10.96.0.1", advertise=("10.0.0.1", 6443), interval=0.001)
    )
    try:
        async with asyncio.timeout(40):
            for url in GONE:
                while (await world.call("GET", url)).status == 404:  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)
    finally:
        task.cancel()
    answer = await world.call("GET", GONE[0])
    assert answer.json["spec"]["clusterIP"] == "10.96.0.1"
