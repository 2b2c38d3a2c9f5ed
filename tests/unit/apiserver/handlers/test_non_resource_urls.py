"""Methods of URLs that name no resource, and what is answered where nothing is."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.customresources.definitions import define, definition, version
from tests.unit.apiserver.world import World, open_world

OTHER_METHODS = ("HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
NO_SUCH_PAGE = b"404 page not found\n"
NO_SUCH_RESOURCE = "the server could not find the requested resource"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        await define(world, definition(version("v1")))
        yield world


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/index.html", "/healthz", "/healthz/ping", "/livez", "/readyz", "/metrics", "/metrics/slis", "/flagz"),
        *("/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"),
        *("/apis", "/apis/", "/apis/apps", "/apis/apps/", "/apis/stable.example.com", "/apis/stable.example.com/v1"),
    ],
)
async def test_pages_of_the_path_recorder_accept_any_method(world, path):
    page = await world.call("GET", path)
    assert page.status == 200
    for method in OTHER_METHODS:
        answer = await world.call(method, path)
        # The HTTP server leaves out the body of an answer to HEAD.
        assert (answer.status, answer.header("content-type")) == (200, page.header("content-type")), method
        assert path == "/metrics" or answer.body == page.body, method


@pytest.mark.parametrize(
    "path",
    [
        *("/version", "/version/", "/api", "/api/", "/api/v1", "/apis/apps/v1", "/apis/apps/v1/"),
        *("/apis/authorization.k8s.io/v1", "/openid/v1/jwks", "/openid/v1/jwks/", "/.well-known/openid-configuration"),
    ],
)
async def test_web_services_accept_only_get(world, path):
    assert (await world.call("GET", path)).status == 200
    for method in OTHER_METHODS:
        answer = await world.call(method, path)
        # As in Kubernetes, no header names the methods that are allowed.
        assert (answer.status, answer.header("allow")) == (405, []), method
        assert answer.json == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": "the server does not allow this method on the requested resource",
            "reason": "MethodNotAllowed",
            "details": {},
            "code": 405,
        }


@pytest.mark.parametrize(
    "path",
    [
        *("/api/v2", "/api/v2/pods", "/api//v1", "/apis/apps/v2", "/apis/apps//v1", "/apis/apps/v2/deployments"),
        *("/apis/authorization.k8s.io/v2", "/version/openapi"),
    ],
)
async def test_a_status_answers_below_the_paths_of_web_services(world, path):
    for method in ("GET", "POST"):
        answer = await world.call(method, path)
        assert (answer.status, answer.json["message"], answer.json["details"]) == (404, NO_SUCH_RESOURCE, {}), method


@pytest.mark.parametrize(
    "path",
    [
        *("/nope", "/healthz/", "/healthz/nope", "//healthz", "/metrics/", "/openapi", "/openapi/v2/", "*"),
        *("/apis//", "/apis/nope", "/apis/nope/", "/apis/nope/v1", "/apis/nope/v1/x"),
        *("/apis/stable.example.com/v2", "/apis/stable.example.com/v2/crontabs"),
    ],
)
async def test_a_text_answers_at_other_paths(world, path):
    for method in ("GET", "POST"):
        answer = await world.call(method, path)
        assert (answer.status, answer.body) == (404, NO_SUCH_PAGE), method
