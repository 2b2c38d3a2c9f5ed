"""The example of docs/recipes/add-a-kind.md, served by an API server."""

import inspect

from bridgehead.apiserver.resources.workloads import controllerrevisions
from tests.unit.apiserver.world import open_world
from tests.unit.recipes import code_of

URL = "/apis/apps/v1/namespaces/default/controllerrevisions"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def test_the_example_is_the_module():
    assert code_of("add-a-kind.md") == inspect.getsource(controllerrevisions)


async def test_the_example_is_served():
    async with open_world() as world:
        created = await world.create(URL, {"metadata": {"name": "web-1"}, "data": {"a": 1}})
        assert (created["kind"], created["revision"]) == ("ControllerRevision", 0)
        table = (await world.call("GET", URL, headers={"accept": TABLE})).json
        assert table["rows"][0]["cells"] == ["web-1", "<none>", 0, "0s"]
        refused = await world.patch(f"{URL}/web-1", {"data": {"a": 2}})
        assert refused.json["message"].endswith('data: Invalid value: {"a":2}: field is immutable')
        found = {entry["name"] for entry in (await world.get("/apis/apps/v1"))["resources"]}
        assert "controllerrevisions" in found
        assert (
            "/apis/apps/v1/namespaces/{namespace}/controllerrevisions"
            in (await world.get("/openapi/v3/apis/apps/v1"))["paths"]
        )
