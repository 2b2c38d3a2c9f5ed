"""Scrapers of a kubelet's server: tokens and rights are those of the API server."""

from __future__ import annotations

import aiohttp
import pytest

from bridgehead.client.access_reviews import AccessReviews
from bridgehead.kubelet.server.authorization import NodeReviews

from .kubelet_world import World, open_world

pytestmark = pytest.mark.integration

ACCOUNT = "system:serviceaccount:kube-system:kube-proxy"  # who has the token "proxy" in this world


@pytest.fixture
async def world(tmp_path):
    async with open_world(tmp_path) as world:
        yield world


async def grant(world: World, *resources: str) -> None:
    """Give the account `get` of these resources."""
    group = "rbac.authorization.k8s.io"
    role = {"metadata": {"name": "scraper"}, "rules": [{"apiGroups": [""], "resources": resources, "verbs": ["get"]}]}
    binding = {
        "metadata": {"name": "scraper"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "scraper"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": ACCOUNT}],
    }
    await world.admin.request("POST", f"/apis/{group}/v1/clusterroles", json=role)
    await world.admin.request("POST", f"/apis/{group}/v1/clusterrolebindings", json=binding)


async def get(port: int, path: str, token: str = "") -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{port}{path}", headers=headers) as answer,
    ):
        return answer.status, await answer.text()


async def test_a_token_gives_what_its_owner_may(world):
    await grant(world, "nodes/metrics", "nodes/pods")
    port = (await world.serve_kubelet(checks_access=True)).settings.port
    status, text = await get(port, "/metrics", "proxy")
    assert status == 200
    assert 'kubelet_node_name{node="node1"} 1' in text
    assert (await get(port, "/pods", "proxy"))[0] == 200
    assert (await get(port, "/configz", "admin"))[0] == 200
    asked = f"(user={ACCOUNT}, verb=get, resource=nodes, subresource(s)="
    assert await get(port, "/logs/", "proxy") == (403, f"Forbidden {asked}[log])")
    assert await get(port, "/exec/default/web/app", "proxy") == (403, f"Forbidden {asked}[proxy])")
    assert await get(port, "/healthz", "proxy") == (403, f"Forbidden {asked}[healthz proxy])")


async def test_pages_about_the_kubelet_itself_have_rights_of_their_own(world):
    await grant(world, "nodes/statusz", "nodes/configz")
    port = (await world.serve_kubelet(checks_access=True)).settings.port
    status, text = await get(port, "/statusz", "proxy")
    assert (status, text.splitlines()[1]) == (200, "kubelet statusz")
    assert "Paths: /configz /flagz /healthz /metrics /statusz" in text.splitlines()
    status, text = await get(port, "/flagz", "proxy")
    assert (status, text.splitlines()[1]) == (200, "kubelet flagz")
    as_object = {"Accept": "application/json;g=config.k8s.io;v=v1beta1;as=Statusz", "Authorization": "Bearer proxy"}
    async with aiohttp.ClientSession(headers=as_object) as session:
        async with session.get(f"http://127.0.0.1:{port}/statusz") as answer:
            assert (await answer.json())["metadata"] == {"name": "kubelet"}
        async with session.get(f"http://127.0.0.1:{port}/flagz") as answer:
            assert answer.status == 406


@pytest.mark.parametrize("token", ["", "nobody's"])
async def test_nobody_is_let_in_without_a_valid_token(world, token):
    port = (await world.serve_kubelet(checks_access=True)).settings.port
    for path in ("/metrics", "/healthz", "/pods", "/exec/default/web/app"):
        assert await get(port, path, token) == (401, "Unauthorized")


async def test_answers_of_the_api_server_are_kept_for_some_time(world):
    now = 0.0
    reviews = NodeReviews(AccessReviews(world.node_client, lambda: now), "node1")
    client = await reviews.authenticate("proxy")
    assert client is not None
    assert client.name == ACCOUNT
    assert not await reviews.is_allowed(client, "get", "metrics")
    await grant(world, "nodes/metrics")
    assert not await reviews.is_allowed(client, "get", "metrics")
    now = 31.0
    assert await reviews.is_allowed(client, "get", "metrics")
    await world.admin.request("DELETE", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/scraper")
    now = 330.0
    assert await reviews.is_allowed(client, "get", "metrics")
    now = 332.0
    assert not await reviews.is_allowed(client, "get", "metrics")
