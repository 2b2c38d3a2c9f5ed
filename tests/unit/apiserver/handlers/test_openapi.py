"""OpenAPI documents of the served kinds."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator

import pytest

from tests.unit.apiserver.world import World, open_world


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


async def test_openapi_v3_documents_describe_the_served_kinds(world):
    paths = (await world.get("/openapi/v3"))["paths"]
    groups: tuple[str, ...] = ("apiextensions.k8s.io", "apiregistration.k8s.io", "apps", "batch", "certificates.k8s.io")
    groups += ("coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "flowcontrol.apiserver.k8s.io")
    groups += ("admissionregistration.k8s.io", "networking.k8s.io", "node.k8s.io", "rbac.authorization.k8s.io")
    groups += (
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "policy",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    )
    assert set(paths) == {"api/v1", "apis/autoscaling/v2", *(f"apis/{group}/v1" for group in groups)}
    url = paths["apis/apps/v1"]["serverRelativeURL"]
    answer = await world.call("GET", url, headers={"accept-encoding": "gzip", "user-agent": "curl/8"})
    assert gzip.decompress(answer.body) == (await world.call("GET", url)).body
    assert "public, immutable" in answer.header("cache-control")
    reviews = (await world.get(paths["apis/authorization.k8s.io/v1"]["serverRelativeURL"]))["paths"]
    assert set(reviews["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"]) == {"post", "parameters"}
    document = (await world.call("GET", url)).json
    item = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]
    assert "fieldValidation" in [parameter["name"] for parameter in item["patch"]["parameters"]]
    assert item["patch"]["x-kubernetes-group-version-kind"] == {"group": "apps", "kind": "Deployment", "version": "v1"}
    schemas = document["components"]["schemas"]
    replicas = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]
    assert (replicas["type"], replicas["format"]) == ("integer", "int32")
    template = schemas["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["template"]
    assert template["allOf"] == [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodTemplateSpec"}]


@pytest.mark.parametrize(
    ("url", "prefix"), [("/openapi/v3/api/v1", "#/components/schemas/"), ("/openapi/v2", "#/definitions/")]
)
async def test_every_openapi_reference_resolves(world, url, prefix):
    document = await world.get(url)
    schemas = document["components"]["schemas"] if "components" in document else document["definitions"]

    def check(value: object) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                assert value["$ref"].startswith(prefix)
                assert value["$ref"].removeprefix(prefix) in schemas
            for child in value.values():
                check(child)
        elif isinstance(value, list):
            for child in value:
                check(child)

    check(document)


async def test_an_unknown_openapi_document_is_not_found(world):
    assert (await world.call("GET", "/openapi/v3/apis/nope/v1")).status == 404
    assert (await world.call("GET", "/openapi/v3", headers={"accept": "application/xml"})).status == 406
