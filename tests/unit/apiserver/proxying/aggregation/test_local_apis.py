"""APIServices for the APIs that the server serves itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bridgehead.apiserver.access.request_headers import RequestHeaders
from bridgehead.apiserver.proxying.aggregation.extension_authentication import (
    authentication_data,
    publish_authentication,
)
from bridgehead.apiserver.proxying.aggregation.local_apis import RESOURCE, LocalApis
from bridgehead.storage import Key
from tests.unit.apiserver.world import open_world

_PATH = "/apis/apiregistration.k8s.io/v1/apiservices"


async def test_objects_follow_the_table():
    async with open_world() as world:
        local = LocalApis(world.parts.registry)
        await local.sync(starts=True)
        items = (await world.get(_PATH))["items"]
        by_name = {item["metadata"]["name"]: item for item in items}
        assert by_name["v1.flowcontrol.apiserver.k8s.io"]["spec"]["versionPriority"] == 21
        assert by_name["v1.storage.k8s.io"]["spec"]["groupPriorityMinimum"] == 16800
        (condition,) = by_name["v1."]["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "Local")
        assert condition["lastTransitionTime"] == by_name["v1."]["metadata"]["creationTimestamp"]

        # A second start changes nothing, and corrects what users changed.
        revision = world.store.revision
        await local.sync(starts=True)
        assert world.store.revision == revision
        await world.patch(f"{_PATH}/v1.apps", {"spec": {"versionPriority": 1}})
        await world.call("DELETE", f"{_PATH}/v1.storage.k8s.io")
        await local.sync(starts=False)
        assert world.store.get(Key(RESOURCE.id, "", "v1.storage.k8s.io")) is None
        await local.sync(starts=True)
        assert (await world.get(f"{_PATH}/v1.apps"))["spec"]["versionPriority"] == 15

        # A user's own object stays as it is.
        metadata = {"name": "v1.old.example.com", "labels": {}}
        spec = {"group": "old.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1}
        await world.create(_PATH, {"metadata": metadata, "spec": spec})
        await local.sync(starts=True)
        assert world.store.get(Key(RESOURCE.id, "", "v1.old.example.com")) is not None


async def test_custom_resources_are_registered_and_removed():
    async with open_world() as world:
        local = LocalApis(world.parts.registry)
        table = world.parts.table
        definition: Any = _Definition()
        custom = replace(
            table.by_id("configmaps"), group="example.com", plural="widgets", kind="Widget", definition=definition
        )
        table.add(custom)
        await local.sync(starts=False)
        spec = (await world.get(f"{_PATH}/v1.example.com"))["spec"]
        priorities = {"groupPriorityMinimum": 1000, "versionPriority": 100}
        assert spec == {"group": "example.com", "version": "v1", **priorities}
        table.remove(custom.id)
        await local.sync(starts=False)
        assert (await world.call("GET", f"{_PATH}/v1.example.com")).status == 404


class _Definition:
    """The definition of a custom resource, of which nothing is read here."""

    digest = ""


async def test_the_servers_of_aggregated_apis_learn_whom_to_trust(tmp_path):
    (tmp_path / "ca.crt").write_text("CA")
    (tmp_path / "front.crt").write_text("FRONT")
    data = authentication_data(tmp_path / "ca.crt", RequestHeaders(tmp_path / "front.crt", ("front-proxy-client",)))
    assert data == {
        "client-ca-file": "CA",
        "requestheader-allowed-names": '["front-proxy-client"]',
        "requestheader-client-ca-file": "FRONT",
        "requestheader-extra-headers-prefix": '["X-Remote-Extra-"]',
        "requestheader-group-headers": '["X-Remote-Group"]',
        "requestheader-uid-headers": '["X-Remote-Uid"]',
        "requestheader-username-headers": '["X-Remote-User"]',
    }
    assert authentication_data(None, None) == {}
    async with open_world() as world:
        path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
        await publish_authentication(world.parts.registry, {})
        assert (await world.call("GET", path)).status == 404
        for changed in ("CA", "NEW"):
            await publish_authentication(world.parts.registry, {**data, "client-ca-file": changed})
            assert (await world.get(path))["data"]["client-ca-file"] == changed
