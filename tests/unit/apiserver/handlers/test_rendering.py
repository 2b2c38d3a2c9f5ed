"""The forms of answers that are not stored objects."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadata"])
@pytest.mark.parametrize("subresource", ["binding", "eviction"])
async def test_bindings_and_evictions_answer_with_a_status_in_every_form(world, subresource, form):
    await world.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pods = "/api/v1/namespaces/default/pods"
    await world.create(pods, {"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
    sent = {"metadata": {"name": "x"}} | ({"target": {"name": "n"}} if subresource == "binding" else {})
    headers = {"accept": f"application/json;as={form};v=v1;g=meta.k8s.io", "content-type": "application/json"}
    answer = await world.call("POST", f"{pods}/x/{subresource}", sent, headers=headers)
    assert (answer.status, answer.json["kind"], answer.json["status"]) == (201, "Status", "Success")
