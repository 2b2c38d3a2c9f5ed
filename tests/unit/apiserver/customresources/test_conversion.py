"""Several versions of a custom resource: without conversion, and with a webhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from bridgehead.apiserver.webhookclient.errors import CallFailed
from tests.unit.apiserver.world import TABLE, World, open_world

from .definitions import DEFINITIONS, NAME, SCHEMA, crontab, define, definition, redefine, url, version

V1 = {"type": "object", "properties": {"hostPort": {"type": "string"}}}
V2 = {"type": "object", "properties": {"host": {"type": "string"}, "port": {"type": "string", "default": "80"}}}
NAMES = {"singular": "crontab", "listKind": "CronTabList"}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


class Webhook:
    """A conversion webhook: `hostPort` of v1 is `host` and `port` of v2."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []
        self.answer: Any = None
        self.gate: asyncio.Event | None = None
        self.called = asyncio.Event()

    async def post(self, config: Any, body: bytes, *, seconds: float) -> Any:
        review = msgspec.json.decode(body)
        request = review["request"]
        self.called.set()
        self.calls.append([one["metadata"]["name"] for one in request["objects"]])
        if self.gate is not None:
            await self.gate.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        converted = [convert(one, request["desiredAPIVersion"]) for one in request["objects"]]
        response = {"uid": request["uid"], "convertedObjects": converted, "result": {"status": "Success"}}
        answer = {"kind": "ConversionReview", "apiVersion": review["apiVersion"], "response": response}
        return self.answer(answer) if self.answer else answer


def convert(obj: dict[str, Any], wanted: str) -> dict[str, Any]:
    obj = {**obj, "apiVersion": wanted}
    if wanted.endswith("/v2"):
        host, _, port = obj.pop("hostPort", "").partition(":")
        return {**obj, "host": host, **({"port": port} if port else {})}
    return {**obj, "hostPort": f"{obj.pop('host', '')}:{obj.pop('port', '')}"}


def hosts(*, storage: str = "v1") -> dict[str, Any]:
    client = {"url": "https://127.0.0.1:9443/convert"}
    return definition(
        version("v1", storage=storage == "v1", schema=V1, selectableFields=[{"jsonPath": ".hostPort"}]),
        version(
            "v2",
            storage=storage == "v2",
            schema=V2,
            selectableFields=[{"jsonPath": ".host"}, {"jsonPath": ".port"}],
            additionalPrinterColumns=[{"name": "Host", "type": "string", "jsonPath": ".host"}],
        ),
        names=NAMES,
        conversion={"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}},
    )


@pytest.fixture
async def webhook(world, monkeypatch) -> Webhook:
    webhook = Webhook()
    monkeypatch.setattr(world.parts.webhooks, "post", webhook.post)
    await define(world, hosts())
    return webhook


def stored(world: World, name: str) -> Any:
    return next(json.loads(r.value) for r in world.store.list(NAME) if r.key.name == name)


# --- strategy None


async def test_without_conversion_only_the_version_differs(world):
    two = definition(version("v1beta1", storage=False), version("v1"), names=NAMES)
    two["spec"]["versions"][0] |= {"deprecated": True}
    await define(world, two)
    answer = await world.call("POST", url("v1beta1"), crontab(version="v1beta1"))
    assert answer.header("warning") == [
        '299 - "stable.example.com/v1beta1 CronTab is deprecated; use stable.example.com/v1 CronTab"'
    ]
    assert answer.json["apiVersion"] == "stable.example.com/v1beta1"
    assert stored(world, "a")["apiVersion"] == "stable.example.com/v1"
    assert (await world.get(url(name="a")))["apiVersion"] == "stable.example.com/v1"
    (item,) = (await world.get(url("v1beta1")))["items"]
    assert item == {**(await world.get(url(name="a"))), "apiVersion": "stable.example.com/v1beta1"}
    watch = await world.watch(url("v1beta1"))
    assert (await watch.next())["object"] == item
    assert (await world.patch(url(name="a"), {"spec": {"image": "x"}})).status == 200
    changed = (await watch.next())["object"]
    assert (changed["apiVersion"], changed["spec"]["image"]) == ("stable.example.com/v1beta1", "x")
    managers = [entry["apiVersion"] for entry in changed["metadata"]["managedFields"]]
    assert managers == ["stable.example.com/v1", "stable.example.com/v1beta1"]
    assert (await world.get("/apis/stable.example.com"))["preferredVersion"]["version"] == "v1"


async def test_a_version_that_is_not_served_stays_readable_in_others(world):
    await define(world, definition(version("v1"), names=NAMES))
    await world.create(url(), crontab())
    await redefine(world, definition(version("v1", storage=False) | {"served": False}, version("v2"), names=NAMES))
    assert (await world.call("GET", url(name="a"))).status == 404
    assert (await world.get(url("v2", "a")))["apiVersion"] == "stable.example.com/v2"
    assert (await world.get(f"{DEFINITIONS}/{NAME}"))["status"]["storedVersions"] == ["v1", "v2"]
    assert stored(world, "a")["apiVersion"] == "stable.example.com/v1"
    # A write without changes stores the object in the new version, as migrations do.
    assert (await world.patch(url("v2", "a"), {})).status == 200
    assert stored(world, "a")["apiVersion"] == "stable.example.com/v2"
    dropped = definition(version("v2"), names=NAMES)["spec"]
    patch = [{"op": "replace", "path": "/spec", "value": dropped}]
    refused = await world.patch(f"{DEFINITIONS}/{NAME}", patch, "json-patch")
    assert "status.storedVersions[0]: Invalid value: " in refused.json["message"]
    migrated = {"status": {"storedVersions": ["v2"]}}
    assert (await world.patch(f"{DEFINITIONS}/{NAME}/status", migrated)).status == 200
    assert (await world.patch(f"{DEFINITIONS}/{NAME}", patch, "json-patch")).status == 200


# --- strategy Webhook


async def test_a_webhook_converts_what_is_read_and_written(world, webhook):
    created = await world.create(url("v2"), crontab(version="v2", host="h", port="81"))
    assert (created["host"], created["port"], created["apiVersion"]) == ("h", "81", "stable.example.com/v2")
    assert stored(world, "a")["hostPort"] == "h:81"
    assert (await world.get(url(name="a")))["hostPort"] == "h:81"
    patched = await world.patch(url("v2", "a"), {"port": "82"})
    assert (patched.json["port"], stored(world, "a")["hostPort"]) == ("82", "h:82")
    table = (await world.call("GET", url("v2"), headers={"accept": TABLE})).json
    assert table["rows"][0]["cells"] == ["a", "h"]
    deleted = await world.call("DELETE", url("v2", "a"))
    assert deleted.status == 200


async def test_defaults_and_pruning_are_those_of_each_version(world, webhook):
    await world.create(url(), crontab(hostPort="h"))
    webhook.answer = lambda answer: answer["response"]["convertedObjects"][0].update(surplus=1) or answer
    read = await world.get(url("v2", "a"))
    assert read["host"] == "h"
    assert "surplus" not in read


async def test_a_list_is_converted_in_one_call_and_kept(world, webhook):
    for name in ("a", "b", "c"):
        await world.create(url(), crontab(name, hostPort=f"{name}:80"))
    webhook.calls.clear()
    items = (await world.get(url("v2")))["items"]
    assert [one["host"] for one in items] == ["a", "b", "c"]
    assert webhook.calls == [["a", "b", "c"]]
    assert len((await world.get(f"{url('v2')}?limit=2"))["items"]) == 2
    await world.patch(url(name="b"), {"hostPort": "x:1"})
    assert [one["host"] for one in (await world.get(url("v2")))["items"]] == ["a", "x", "c"]
    assert webhook.calls == [["a", "b", "c"], ["b"]]


async def test_a_list_of_objects_that_are_stored_in_two_versions(world, webhook):
    await world.create(url(), crontab("a", hostPort="a:1"))
    await redefine(world, hosts(storage="v2"))
    await world.create(url("v2"), crontab("b", version="v2", host="b", port="2"))
    assert {stored(world, n)["apiVersion"] for n in "ab"} == {"stable.example.com/v1", "stable.example.com/v2"}
    assert [one["hostPort"] for one in (await world.get(url()))["items"]] == ["a:1", "b:2"]
    assert [one["port"] for one in (await world.get(url("v2")))["items"]] == ["1", "2"]


async def test_selectors_are_about_the_fields_of_the_requested_version(world, webhook):
    watches = {
        "host=h1": await world.watch(f"{url('v2')}?fieldSelector=host=h1"),
        "host=h1,port=80": await world.watch(f"{url('v2')}?fieldSelector=host=h1,port=80"),
        "hostPort=h1:80": await world.watch(f"{url('v1')}?fieldSelector=hostPort=h1:80"),
    }
    for name, host, port in (("a", "h1", "80"), ("b", "h1", "8080"), ("c", "h2", "80")):
        await world.create(url("v2"), crontab(name, version="v2", host=host, port=port))
    listed = (await world.get(f"{url('v2')}?fieldSelector=host=h1"))["items"]
    assert [one["metadata"]["name"] for one in listed] == ["a", "b"]
    listed = (await world.get(f"{url('v1')}?fieldSelector=hostPort=h1:8080"))["items"]
    assert [one["metadata"]["name"] for one in listed] == ["b"]
    assert await watches["host=h1"].names(2) == [("ADDED", "a"), ("ADDED", "b")]
    assert await watches["hostPort=h1:80"].names(1) == [("ADDED", "a")]
    assert (await world.call("DELETE", f"{url('v2')}?fieldSelector=host=h1,port=80")).status == 200
    await world.patch(url("v2", "b"), {"host": "h3"})
    assert await watches["host=h1"].names(2) == [("DELETED", "a"), ("DELETED", "b")]
    assert await watches["host=h1,port=80"].names(2) == [("ADDED", "a"), ("DELETED", "a")]
    assert await watches["hostPort=h1:80"].names(1) == [("DELETED", "a")]


async def test_many_watches_cost_one_call_for_a_change(world, webhook):
    watches = [await world.watch(f"{url('v2')}?resourceVersion={world.store.revision}") for _ in range(20)]
    webhook.calls.clear()
    webhook.gate = asyncio.Event()
    await world.create(url(), crontab("a", hostPort="h:1"))
    webhook.gate.set()
    for watch in watches:
        assert (await watch.next())["object"]["host"] == "h"
    assert webhook.calls == [["a"]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (CallFailed('Post "x": EOF'), 'failed: Post "x": EOF'),
        (
            lambda a: a | {"kind": "Foo"},
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=Conversion",
        ),
        (lambda a: {**a, "response": None}, "failed: no response provided"),
        (lambda a: {**a, "response": {**a["response"], "uid": "x"}}, "failed: expected response.uid="),
        (
            lambda a: {**a, "response": {**a["response"], "result": {"status": "Failed", "message": "no way"}}},
            "failed: no way",
        ),
        (lambda a: {**a, "response": {**a["response"], "result": {}}}, "failed: response.result.status was '', not"),
        (lambda a: {**a, "response": {**a["response"], "convertedObjects": []}}, "returned 0 objects, expected 1"),
        (
            lambda a: changed(a, apiVersion="x/v9"),
            "invalid groupVersion (expected stable.example.com/v2, received x/v9)",
        ),
        (lambda a: changed(a, kind="Foo"), "invalid kind (expected CronTab, received Foo)"),
        (lambda a: changed(a, metadata=None), "missing metadata in converted object"),
        (lambda a: changed(a, metadata={"name": "z"}), "must have the same name: a != z"),
        (lambda a: relabelled(a, {"a": 1}), "metadata.labels[a] must be a string"),
        (lambda a: relabelled(a, {"a b": "c"}), 'metadata.labels: Invalid value: "a b"'),
        (lambda a: relabelled(a, ["a"]), "invalid metadata.labels of type list in converted object"),
        (lambda a: {**a, "response": {**a["response"], "convertedObjects": ["x"]}}, "it is not an object"),
    ],
)
async def test_an_unusable_answer_fails_the_request_alone(world, webhook, answer, message):
    await world.create(url(), crontab(hostPort="h:1"))
    webhook.answer = answer
    refused = await world.call("GET", url("v2", "a"))
    assert refused.status == 500
    assert refused.json["message"].startswith("conversion webhook for stable.example.com/v1, Kind=CronTab ")
    assert message in refused.json["message"]
    assert (await world.call("GET", url("v2"))).status == 500
    assert (await world.call("POST", url("v2"), crontab("b", version="v2", host="h"))).status == 500
    assert (await world.get(url(name="a")))["hostPort"] == "h:1"
    assert len(world.store.list(NAME)) == 1
    webhook.answer = None
    assert (await world.get(url("v2", "a")))["host"] == "h"


def changed(answer: Any, **fields: Any) -> Any:
    answer["response"]["convertedObjects"][0].update(fields)
    return answer


def relabelled(answer: Any, labels: Any) -> Any:
    answer["response"]["convertedObjects"][0]["metadata"]["labels"] = labels
    return answer


async def test_a_webhook_may_change_labels_but_no_other_metadata(world, webhook):
    await world.create(url(), crontab(hostPort="h:1"))

    def change(answer: Any) -> Any:
        answer["response"]["convertedObjects"][0]["metadata"] |= {"labels": {"a": "b"}, "generation": 99}
        return answer

    webhook.answer = change
    read = await world.get(url("v2", "a"))
    assert read["metadata"]["labels"] == {"a": "b"}
    assert read["metadata"]["generation"] == 1


async def test_a_watch_reports_a_failed_conversion_and_ends(world, webhook):
    watch = await world.watch(f"{url('v2')}?resourceVersion={world.store.revision}")
    webhook.answer = CallFailed("no answer")
    await world.create(url(), crontab(hostPort="h:1"))
    event = await watch.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 500)
    assert await watch.next() is None


async def test_a_write_to_a_definition_that_has_just_changed_is_to_be_repeated(world, webhook):
    webhook.gate = asyncio.Event()
    writing = asyncio.create_task(world.call("POST", url("v2"), crontab(version="v2", host="h")))
    await webhook.called.wait()
    await redefine(world, definition(version("v2", schema=SCHEMA), version("v1", storage=False), names=NAMES))
    webhook.gate.set()
    answer = await writing
    assert (answer.status, answer.header("retry-after")) == (503, ["1"])
    assert world.store.list(NAME) == []
