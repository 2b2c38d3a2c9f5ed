"""Answers in protobuf: what a Go client gets that asks for `application/vnd.kubernetes.protobuf,application/json`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.bodies.protobuf import (
    decode_envelope_untrusted,
    decode_message_untrusted,
    plain_scalars,
)
from bridgehead.apiserver.bodies.protobuf.decoding import split_untrusted
from bridgehead.apiserver.bodies.protobuf.objects import ProtobufObjects
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.errors import expired
from bridgehead.apiserver.handlers import rendered_forms
from bridgehead.apiserver.handlers.protobuf_messages import Messages, ProtobufEvents
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.shapes import conform
from tests.unit.apiserver.customresources.definitions import DEFINITIONS, NAME, crontab, define, definition, url
from tests.unit.apiserver.world import Answer, World, open_world

PROTOBUF = "application/vnd.kubernetes.protobuf"
ACCEPT = {"accept": f"{PROTOBUF},application/json"}
PARTIAL = f"{PROTOBUF};as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
PARTIAL_LIST = f"{PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
SERVICES = "/api/v1/namespaces/default/services"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
WEB = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80, "targetPort": "http"}], "selector": {"app": "web"}}}
SCHEMA = Schema(LazyDefinitions(), plain_scalars)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


def decoded(body: bytes) -> Any:
    """Return the object in a body; the items of a PartialObjectMetadataList as its `items`."""
    api_version, kind, raw = decode_envelope_untrusted(body)
    types = {"apiVersion": api_version, "kind": kind}
    group, _, version = api_version.rpartition("/")
    if group == "meta.k8s.io" and kind == "PartialObjectMetadata":
        return types | decode_message_untrusted(raw, SCHEMA.of_kind("", "v1", "Namespace"))
    if group == "meta.k8s.io":
        return types | decode_message_untrusted(raw, SCHEMA.of_kind("", "v1", "NamespaceList"))
    return types | decode_message_untrusted(raw, SCHEMA.of_kind(group, version, kind))


def event(frame: bytes | None) -> tuple[str, Any]:
    assert frame is not None
    parts: dict[int, Any] = dict(split_untrusted(memoryview(frame)))
    embedded: dict[int, Any] = dict(split_untrusted(memoryview(parts[2])))
    return parts[1].decode(), decoded(embedded[1])


def is_protobuf(answer: Answer) -> bool:
    return answer.header("content-type") == [PROTOBUF] and answer.body.startswith(b"k8s\0")


async def test_an_object_is_what_it_is_in_json(world):
    made = await world.create(SERVICES, WEB)
    answer = await world.call("GET", f"{SERVICES}/web", headers=ACCEPT)
    assert is_protobuf(answer)
    assert conform(decoded(answer.body), SCHEMA.of_kind("", "v1", "Service"))[0] == made


async def test_writes_answer_in_protobuf(world):
    created = await world.call("POST", SERVICES, WEB, headers={**ACCEPT, "content-type": "application/json"})
    assert (created.status, decoded(created.body)["metadata"]["name"]) == (201, "web")
    deleted = await world.call("DELETE", f"{CONFIG_MAPS}/none", headers=ACCEPT)
    assert (deleted.status, decoded(deleted.body)["reason"]) == (404, "NotFound")
    gone = await world.call("DELETE", f"{SERVICES}/web", headers=ACCEPT)
    assert decoded(gone.body)["kind"] == "Service"


async def test_lists_have_their_metadata_and_items(world):
    for name in "abc":
        await world.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {"k": name}})
    answer = await world.call("GET", f"{CONFIG_MAPS}?limit=2", headers=ACCEPT)
    page = decoded(answer.body)
    assert (page["kind"], page["apiVersion"]) == ("ConfigMapList", "v1")
    assert [item["data"] for item in page["items"]] == [{"k": "a"}, {"k": "b"}]
    assert page["metadata"]["remainingItemCount"] == 1
    rest = await world.call("GET", f"{CONFIG_MAPS}?continue={page['metadata']['continue']}", headers=ACCEPT)
    assert [item["metadata"]["name"] for item in decoded(rest.body)["items"]] == ["c"]


async def test_a_long_list_is_whole(world):
    for number in range(120):
        await world.create(CONFIG_MAPS, {"metadata": {"name": f"c{number:03}"}, "data": {"k": "v" * 3000}})
    answer = await world.call("GET", CONFIG_MAPS, headers=ACCEPT)
    assert is_protobuf(answer)
    assert [item["metadata"]["name"] for item in decoded(answer.body)["items"]] == [f"c{n:03}" for n in range(120)]


async def test_metadata_alone(world):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"k": "v"}})
    one = decoded((await world.call("GET", f"{CONFIG_MAPS}/a", headers={"accept": PARTIAL})).body)
    assert (one["kind"], one["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert (one["metadata"]["labels"], one.keys()) == ({"app": "web"}, {"kind", "apiVersion", "metadata"})
    some = decoded((await world.call("GET", CONFIG_MAPS, headers={"accept": PARTIAL_LIST})).body)
    assert [item.keys() for item in some["items"]] == [{"metadata"}]


@pytest.mark.parametrize("partial", [False, True])
async def test_a_watch_has_frames(world, partial):
    headers = {"accept": PARTIAL} if partial else ACCEPT
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    watch = await world.watch(f"{CONFIG_MAPS}{query}", headers=headers)
    assert watch.answer.header("content-type") == [f"{PROTOBUF};stream=watch"]
    kind, obj = event(await watch.next_frame())
    assert (kind, obj["metadata"]["name"], obj.get("data")) == ("ADDED", "a", None if partial else {"k": "v"})
    kind, obj = event(await watch.next_frame())
    assert (kind, obj["kind"]) == ("BOOKMARK", "PartialObjectMetadata" if partial else "ConfigMap")
    assert obj["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    await world.patch(f"{CONFIG_MAPS}/a", {"data": {"k": "new"}})
    await world.call("DELETE", f"{CONFIG_MAPS}/a")
    kinds = [event(await watch.next_frame())[0] for _ in range(2)]
    assert kinds == ["MODIFIED", "DELETED"]
    await watch.leave()


async def test_objects_that_leave_a_selection_are_sent_as_they_were(world):
    """Other watches get the new state of the same revision, which is not to be confused with it."""
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a", "labels": {"on": "yes"}}})
    since = f"resourceVersion={world.store.revision}"
    every = await world.watch(f"{CONFIG_MAPS}?{since}", headers=ACCEPT)
    some = await world.watch(f"{CONFIG_MAPS}?{since}&labelSelector=on%3Dyes", headers=ACCEPT)
    await world.patch(f"{CONFIG_MAPS}/a", {"metadata": {"labels": {"on": "no"}}})
    kind, obj = event(await every.next_frame())
    assert (kind, obj["metadata"]["labels"]) == ("MODIFIED", {"on": "no"})
    kind, obj = event(await some.next_frame())
    assert (kind, obj["metadata"]["labels"]) == ("DELETED", {"on": "yes"})
    await every.leave()
    await some.leave()


async def test_a_watch_that_cannot_begin_ends_with_a_status(world):
    query = "resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    watch = await world.watch(f"{CONFIG_MAPS}?{query}", headers=ACCEPT)
    kind, status = event(await watch.next_frame())
    assert (kind, status["code"], status["reason"]) == ("ERROR", 504, "Timeout")
    assert await watch.next_frame() is None
    await watch.end()


def test_an_error_in_a_watch_is_a_status():
    """The other events may be of any kind."""
    resource = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))[0]
    shape = SCHEMA.of_kind("", "v1", "Namespace")
    form = ProtobufEvents(Messages(resource, shape, ProtobufObjects(SCHEMA), rendered_forms.Rendered()))
    raw = form.status(expired("list again"))
    frame = form.start("ERROR", len(raw)) + raw + form.end
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    kind, status = event(frame[4:])
    assert (kind, status["kind"], status["message"], status["code"]) == ("ERROR", "Status", "list again", 410)


async def test_tables_are_json_only(world):
    table = "as=Table;g=meta.k8s.io;v=v1"
    alone = await world.call("GET", CONFIG_MAPS, headers={"accept": f"{PROTOBUF};{table}"})
    assert alone.status == 406
    both = {"accept": f"{PROTOBUF};{table},application/json;{table},application/json"}
    assert (await world.call("GET", CONFIG_MAPS, headers=both)).json["kind"] == "Table"


async def test_custom_resources_are_json_and_their_definitions_are_not(world):
    await define(world, definition())
    await world.create(url(), crontab())
    path = f"{DEFINITIONS}/{NAME}"
    in_json, in_protobuf = await world.get(path), await world.call("GET", path, headers=ACCEPT)
    assert is_protobuf(in_protobuf)
    shape = SCHEMA.of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert conform(decoded(in_protobuf.body), shape)[0] == in_json
    answer = await world.call("GET", url(name="a"), headers=ACCEPT)
    assert (answer.header("content-type"), answer.json["kind"]) == (["application/json"], "CronTab")
    assert (await world.call("GET", url(), headers={"accept": PROTOBUF})).status == 406
    partial = decoded((await world.call("GET", url(name="a"), headers={"accept": PARTIAL})).body)
    assert (partial["kind"], partial["metadata"]["name"]) == ("PartialObjectMetadata", "a")
    watch = await world.watch(url(), headers={"accept": PARTIAL})
    kind, obj = event(await watch.next_frame())
    assert (kind, obj["kind"], obj["metadata"]["name"]) == ("ADDED", "PartialObjectMetadata", "a")
    await watch.leave()


async def test_a_definition_can_be_created_in_protobuf(world):
    shape = SCHEMA.of_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    crd = conform(definition(), shape)[0]
    body = ProtobufObjects(SCHEMA).body(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"} | crd
    )
    answer = await world.call("POST", DEFINITIONS, body, headers={"content-type": PROTOBUF})
    assert answer.status == 201
    assert answer.json["spec"]["versions"] == definition()["spec"]["versions"]


async def test_metadata_of_one_object_are_no_form_of_a_list(world):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    for form, path, why in (
        ("PartialObjectMetadata", CONFIG_MAPS, "is a list (*core.ConfigMapList)"),
        ("PartialObjectMetadataList", f"{CONFIG_MAPS}/a", "is not a list (*core.ConfigMap)"),
        ("PartialObjectMetadataList", f"{CONFIG_MAPS}?watch=true", "is not a list (*core.ConfigMap)"),
    ):
        headers = {"accept": f"application/json;as={form};g=meta.k8s.io;v=v1"}
        answer = await world.call("GET", path, headers=headers)
        expected = f"you requested {form}, but the requested object {why}"
        assert (answer.status, answer.json["message"]) == (406, expected)


async def test_watches_are_not_in_yaml(world):
    answer = await world.call("GET", f"{CONFIG_MAPS}?watch=true", headers={"accept": "application/yaml"})
    assert answer.status == 406
    assert b"application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch" in b" ".join(
        answer.body.split()
    )


async def test_a_refusal_is_in_the_form_that_the_client_asks_for(world):
    missing = await world.call("GET", f"{CONFIG_MAPS}/none", headers={"accept": "application/yaml"})
    assert missing.header("content-type") == ["application/yaml"]
    assert b"reason: NotFound" in missing.body
    answer = await world.call("GET", f"{CONFIG_MAPS}/none", headers={"accept": "text/html"})
    assert answer.json["code"] == 406


async def test_reviews_and_subresources_answer_in_protobuf(world):
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    headers = {**ACCEPT, "content-type": "application/json"}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    answer = await world.call("POST", path, review, headers=headers)
    assert decoded(answer.body)["status"] == {"allowed": True}
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }
    await world.create("/apis/apps/v1/namespaces/default/deployments", deployment)
    scale = await world.call("GET", "/apis/apps/v1/namespaces/default/deployments/d/scale", headers=ACCEPT)
    assert decoded(scale.body)["spec"] == {"replicas": 2}


async def test_reviews_have_no_other_forms(world):
    """The conformance test is "should return a 406 for a backend which does not implement metadata"."""
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io", "content-type": "application/json"}
    answer = await world.call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, headers=headers)
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")


async def test_both_groups_of_events(world):
    core = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "reason": "R", "message": "m"}
    await world.create("/api/v1/namespaces/default/events", core)
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    watch = await world.watch(path, headers=ACCEPT)
    kind, obj = event(await watch.next_frame())
    assert (kind, obj["apiVersion"], obj["note"]) == ("ADDED", "events.k8s.io/v1", "m")
    await watch.leave()
    page = decoded((await world.call("GET", path, headers=ACCEPT)).body)
    assert (page["kind"], page["items"][0]["note"]) == ("EventList", "m")


def test_rendered_objects_are_shared_within_bounds():
    kept, calls = rendered_forms.Rendered(max_bytes=10), []

    def make() -> bytes:
        calls.append(1)
        return b"12345"

    for revision in (1, 1, 2, 3, 1):
        kept.get("form", revision, make)
    assert len(calls) == 4, "revision 1 was made again after 2 and 3 had taken its room"
    assert kept.get("other", 3, lambda: b"x" * 11) == b"x" * 11
    kept.get("form", 3, make)
    assert len(calls) == 4
