"""Choice of handlers: what discovery lists is answered, and everything else is a 405."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.resource import Resource
from tests.unit.apiserver.world import World, open_world

# The method of each verb, and whether its path has a name.
VERBS = {
    "create": ("POST", False),
    "deletecollection": ("DELETE", False),
    "list": ("GET", False),
    "get": ("GET", True),
    "update": ("PUT", True),
    "patch": ("PATCH", True),
    "delete": ("DELETE", True),
}
# Handled by `streams` and `proxying`.
STREAMS = {"attach", "exec", "log", "portforward", "proxy"}
PATCH = {"content-type": "application/merge-patch+json"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as one:
        yield one


async def verbs_at(world: World, path: str) -> dict[str, set[str]]:
    """Return the verbs that discovery has for each resource (`pods`) and subresource (`pods/status`) of a version."""
    return {one["name"]: set(one["verbs"]) for one in (await world.get(path))["resources"]}


async def status(world: World, method: str, path: str) -> int:
    body = {} if method in ("POST", "PUT", "PATCH") else None
    return (await world.call(method, f"{path}?dryRun=All", body, headers=PATCH if method == "PATCH" else None)).status


def path_of(resource: Resource) -> str:
    return f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"


async def test_a_verb_is_refused_exactly_if_discovery_does_not_have_it(world):
    for resource in world.parts.registry.table:
        listed = await verbs_at(world, path_of(resource))
        base = f"{path_of(resource)}{'/namespaces/n' if resource.namespaced else ''}/{resource.plural}"
        for verb, (method, is_named) in VERBS.items():
            refused = await status(world, method, f"{base}/x" if is_named else base) == 405
            assert refused == (verb not in listed[resource.plural]), (base, verb)
        for subresource in set(resource.subresources) - STREAMS:
            for verb, method in (("get", "GET"), ("create", "POST"), ("update", "PUT"), ("patch", "PATCH")):
                refused = await status(world, method, f"{base}/x/{subresource}") == 405
                assert refused == (verb not in listed[f"{resource.plural}/{subresource}"]), (base, subresource, verb)


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("POST", "/api/v1/pods", 405),
        ("DELETE", "/api/v1/pods", 405),
        ("PUT", "/api/v1/namespaces/n/pods", 405),
        ("POST", "/api/v1/namespaces/n/pods/x", 405),
        ("OPTIONS", "/api/v1/namespaces/n/pods/x", 405),
        ("DELETE", "/api/v1/namespaces/n/pods/x/status", 405),
        ("HEAD", "/api/v1/namespaces/n/pods/x", 405),
        ("POST", "/api/v1/watch/namespaces/n/pods", 405),
        ("GET", "/api/v1/pods/x", 404),
        ("PATCH", "/api/v1/pods/x/status", 404),
        ("GET", "/apis/apps/v1/deployments/x/scale", 404),
        ("GET", "/api/v1/namespaces/n/nodes/x", 404),
        ("GET", "/api/v1/namespaces/n/pods/x/nosuch", 404),
        ("PUT", "/api/v1/namespaces/n/bindings", 405),
        ("POST", "/api/v1/namespaces/n/bindings/x", 405),
    ],
)
async def test_paths_and_methods_without_a_handler(world, method, path, expected):
    answer = await world.call(method, path, {} if method in ("POST", "PUT") else None, headers=PATCH)
    assert (answer.status, answer.json["code"]) == (expected, expected)
