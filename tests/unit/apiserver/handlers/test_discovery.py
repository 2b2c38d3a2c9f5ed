"""Discovery in both forms."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridgehead import yaml_loader
from tests.unit.apiserver.world import World, open_world

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


@pytest.mark.parametrize(("path", "begin"), [("/version", b'{\n  "major": "1",'), ("/", b'{\n  "paths": [')])
async def test_what_people_read_is_indented_for_all_clients(world, path, begin):
    assert (await world.call("GET", path)).body.startswith(begin)


async def test_every_listed_path_is_there(world):
    for path in (await world.get("/"))["paths"]:
        assert (await world.call("GET", path)).status == 200, path


async def test_legacy_discovery_lists_groups_and_resources(world):
    assert (await world.get("/api"))["versions"] == ["v1"]
    groups = (await world.get("/apis"))["groups"]
    assert [group["name"] for group in groups] == [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "apps",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
    ]
    resources = {entry["name"]: entry for entry in (await world.get("/api/v1"))["resources"]}
    assert resources["services"]["shortNames"] == ["svc"]
    assert resources["pods/binding"]["verbs"] == resources["bindings"]["verbs"] == ["create"]
    assert (resources["pods/resize"]["kind"], resources["pods/resize"]["verbs"]) == ("Pod", ["get", "patch", "update"])
    assert resources["nodes"]["namespaced"] is False
    scale = {entry["name"]: entry for entry in (await world.get("/apis/apps/v1"))["resources"]}["deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert (await world.get("/apis/apps"))["preferredVersion"]["groupVersion"] == "apps/v1"


async def test_hashes_of_stored_versions_are_kubernetes_own(world):
    """kube-apiserver prints the same ones; events.k8s.io is stored as core/v1."""

    async def hashes(path: str) -> dict[str, str | None]:
        return {each["name"]: each.get("storageVersionHash") for each in (await world.get(path))["resources"]}

    core = await hashes("/api/v1")
    assert (core["pods"], core["configmaps"], core["componentstatuses"]) == ("xPOwRZ+Yhw8=", "qFsyl6wFWjQ=", None)
    assert core["events"] == (await hashes("/apis/events.k8s.io/v1"))["events"] == "r2yiGXH7wu8="
    assert (await hashes("/apis/apps/v1"))["deployments"] == "8aSe+NMegvE="


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
async def test_aggregated_discovery_lists_all_resources(world, version):
    accept = AGGREGATED.replace("v=v2", f"v={version}") + ",application/json"
    answer = await world.call("GET", "/apis", headers={"accept": accept})
    assert answer.header("content-type")[0] == AGGREGATED.replace("v=v2", f"v={version}")
    assert answer.json["kind"] == "APIGroupDiscoveryList"
    apps = next(item for item in answer.json["items"] if item["metadata"]["name"] == "apps")
    deployments = next(r for r in apps["versions"][0]["resources"] if r["resource"] == "deployments")
    assert deployments["scope"] == "Namespaced"
    assert {s["subresource"] for s in deployments["subresources"]} == {"status", "scale"}
    (etag,) = answer.header("etag")
    again = await world.call("GET", "/apis", headers={"accept": accept, "if-none-match": etag})
    assert (again.status, again.body) == (304, b"")


async def test_both_forms_name_the_same_resources(world):
    aggregated = await world.get("/api", headers={"accept": AGGREGATED})
    (core,) = aggregated["items"]
    names = set()
    for resource in core["versions"][0]["resources"]:
        names.add(resource["resource"])
        names |= {f"{resource['resource']}/{sub['subresource']}" for sub in resource.get("subresources", ())}
    assert names == {entry["name"] for entry in (await world.get("/api/v1"))["resources"]}


async def test_clients_without_aggregated_discovery_get_the_legacy_form(world):
    for accept in ("application/json", "*/*", f"application/json,{AGGREGATED}"):
        assert (await world.get("/apis", headers={"accept": accept}))["kind"] == "APIGroupList"


@pytest.mark.parametrize("path", ["/apis", "/apis/apps", "/apis/apps/v1"])
async def test_documents_have_the_form_that_the_client_asks_for(world, path):
    document = await world.get(path)
    answer = await world.call("GET", path, headers={"accept": "application/yaml"})
    assert answer.header("content-type") == ["application/yaml"]
    assert yaml_loader.load_object(answer.body) == document
    answer = await world.call("GET", path, headers={"accept": "application/vnd.kubernetes.protobuf, */*"})
    assert answer.header("content-type") == ["application/vnd.kubernetes.protobuf"]
    assert answer.body.startswith(b"k8s\0")
    assert (await world.call("GET", path, headers={"accept": AGGREGATED.replace("v2", "v3")})).status == 406
