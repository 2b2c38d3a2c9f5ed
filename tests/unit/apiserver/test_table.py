"""Resources that are added and removed while the server runs: the table, discovery, OpenAPI, requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bridgehead.apiserver.resource import Resource
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.resources.shared.columns import NAME
from bridgehead.apiserver.shapes import ANYTHING, Shape
from bridgehead.apiserver.table import ResourceTable, version_order
from tests.unit.apiserver.world import World, open_world

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
URL = "/apis/example.com/v1/widgets"


@dataclass(frozen=True)
class WidgetDefinition:
    field: str
    name: str = "com.example.v1.Widget"
    list_name: str = "com.example.v1.WidgetList"
    shape: Shape = ANYTHING

    @property
    def digest(self) -> str:
        return self.field

    def openapi(self, version: int) -> Mapping[str, dict[str, Any]]:
        meta = {"$ref": "#/$defs/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
        widget = {"type": "object", "properties": {"metadata": meta, self.field: {"type": "string"}}}
        return {self.name: widget, self.list_name: {"type": "object"}}


def widgets(version: str = "v1", field: str = "size") -> Resource:
    return Resource(
        group="example.com",
        version=version,
        kind="Widget",
        plural="widgets",
        singular="widget",
        namespaced=False,
        columns=(NAME,),
        definition=WidgetDefinition(field),
    )


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


def test_a_table_finds_what_was_added_until_it_is_removed():
    table = ResourceTable([widgets()])
    revisions = []
    table.on_change(lambda: revisions.append(table.revision))
    newer = widgets("v2")
    table.add(newer)
    assert table.find("example.com", "v2", "widgets") is newer
    assert [r.version for r in table.versions("widgets.example.com")] == ["v1", "v2"]
    assert table.by_id("widgets.example.com").version == "v1"
    changed = widgets("v1", "weight")
    table.replace("widgets.example.com", changed)
    assert list(table) == [changed]
    table.remove("widgets.example.com")
    table.remove("widgets.example.com")
    assert (len(table), revisions) == (0, [1, 2, 3])
    assert table.find("example.com", "v1", "widgets") is None
    assert table.versions("widgets.example.com") == ()


def test_a_table_refuses_two_resources_of_one_path_and_stays_as_it_was():
    table = ResourceTable([widgets(), replace(widgets(), plural="gadgets")])
    with pytest.raises(ValueError, match=r"two resources widgets in example\.com/v1"):
        table.add(widgets())
    with pytest.raises(ValueError, match="two resources gadgets"):
        table.replace("widgets.example.com", replace(widgets(), plural="gadgets"))
    assert [r.plural for r in table] == ["gadgets", "widgets"]


async def test_an_added_resource_is_served_without_a_restart(world):
    assert (await world.call("GET", URL)).status == 404
    world.parts.table.add(widgets())
    # Without a stored definition, as here, it has no objects: these are written only if the definition is still there.
    assert (await world.get(URL))["items"] == []
    world.parts.table.remove("widgets.example.com")
    assert (await world.call("GET", URL)).status == 404


async def test_discovery_follows_the_table(world):
    before = await world.call("GET", "/apis", headers={"accept": AGGREGATED})
    assert (await world.call("GET", "/apis/example.com")).status == 404
    world.parts.table.add(widgets("v1beta1"), widgets("v2"))
    group = await world.get("/apis/example.com")
    assert [v["version"] for v in group["versions"]] == ["v2", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v2"
    assert (await world.get("/apis"))["groups"][-1]["name"] == "example.com"
    assert "/apis/example.com/v2" in (await world.get("/"))["paths"]
    assert [r["name"] for r in (await world.get("/apis/example.com/v1beta1"))["resources"]] == ["widgets"]
    after = await world.call("GET", "/apis", headers={"accept": AGGREGATED})
    assert after.header("etag") != before.header("etag")
    assert [v["version"] for v in after.json["items"][-1]["versions"]] == ["v2", "v1beta1"]
    world.parts.table.remove("widgets.example.com")
    assert (await world.call("GET", "/apis/example.com")).status == 404
    assert (await world.call("GET", "/apis", headers={"accept": AGGREGATED})).header("etag") == before.header("etag")


async def test_openapi_follows_the_table_and_its_hashes_the_schemas(world):
    core, second = (await world.get("/openapi/v3"))["paths"]["api/v1"], await world.call("GET", "/openapi/v2")
    world.parts.table.add(widgets())
    paths = (await world.get("/openapi/v3"))["paths"]
    assert paths["api/v1"] == core
    url = paths["apis/example.com/v1"]["serverRelativeURL"]
    answer = await world.call("GET", url)
    assert "public, immutable" in answer.header("cache-control")
    schemas = answer.json["components"]["schemas"]
    assert set(schemas["com.example.v1.Widget"]["properties"]) == {"metadata", "size"}
    assert "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta" in schemas
    assert "com.example.v1.Widget" in (await world.get("/openapi/v2"))["definitions"]
    world.parts.table.replace("widgets.example.com", widgets(field="weight"))
    assert (await world.get("/openapi/v3"))["paths"]["apis/example.com/v1"]["serverRelativeURL"] != url
    answer = await world.call("GET", url)
    assert "public, immutable" not in answer.header("cache-control")
    assert set(answer.json["components"]["schemas"]["com.example.v1.Widget"]["properties"]) == {"metadata", "weight"}
    world.parts.table.remove("widgets.example.com")
    assert (await world.call("GET", url)).status == 404
    unchanged = await world.call("GET", "/openapi/v2", headers={"if-none-match": second.header("etag")[0]})
    assert unchanged.status == 304


def test_versions_are_ordered_by_stability_and_number():
    names = ["foo1", "v1alpha1", "v2", "v1beta2", "v10", "v2alpha1", "v1", "v1beta10", "bar", "v11beta1"]
    expected = ["v10", "v2", "v1", "v11beta1", "v1beta10", "v1beta2", "v2alpha1", "v1alpha1", "bar", "foo1"]
    assert sorted(names, key=version_order) == expected


def test_the_hooks_of_a_resource_are_those_of_what_it_stores():
    resources = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
    stored_elsewhere = [one for one in resources if one.stored is not one]
    assert {one.id for one in stored_elsewhere} == {"events.events.k8s.io", "horizontalpodautoscalers.autoscaling"}
    assert all(one.strategy is one.stored.strategy for one in stored_elsewhere)
