# ruff: noqa: E501
"""Answers to bodies and options that few clients send, with Kubernetes' texts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resources.workloads.workload_strategy import WorkloadStrategy
from tests.unit.apiserver.world import World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
UNRECOGNIZED = "the object provided is unrecognized (must be of type ConfigMap): "
NO_KIND = "couldn't get version/kind; json parse error: "
GO_STRUCT = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
SCHEME = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27"
JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


@pytest.mark.parametrize(
    ("content_type", "body", "code", "message"),
    [
        (JSON, b"", 400, f"{UNRECOGNIZED}{NO_KIND}unexpected end of JSON input (<empty>)"),
        (JSON, b"a: b", 400, f"{UNRECOGNIZED}{NO_KIND}invalid character 'a' looking for beginning of value (613a2062)"),
        (JSON, b"[]", 400, f"{UNRECOGNIZED}{NO_KIND}json: cannot unmarshal array into Go value of type {GO_STRUCT} (5b5d)"),
        (JSON, b'{"kind":5}', 400, f'{UNRECOGNIZED}{NO_KIND}json: cannot unmarshal number into Go struct field .kind of type string ({{"kind":5}})'),
        (JSON, b'{"apiVersion":"a/b/c"}', 400, f'{UNRECOGNIZED}unexpected GroupVersion string: a/b/c ({{"apiVersion":"a/b/c"}})'),
        (JSON, b"null", 422, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
        (YAML, b"", 422, 'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'),
        (YAML, b"x: [", 400, f"{UNRECOGNIZED}yaml: line 1: did not find expected node content (783a205b)"),
        (YAML, b'{a: "\xff"}', 400, f'{UNRECOGNIZED}yaml: invalid leading UTF-8 octet ({{a: "\ufffd"}})'),
        (PROTOBUF, b"", 400, f"{UNRECOGNIZED}empty data (<empty>)"),
        (PROTOBUF, b"{}", 400, f"{UNRECOGNIZED}provided data does not appear to be a protobuf message, expected prefix [107 56 115 0] ({{}})"),
    ],
)  # fmt: skip
async def test_unreadable_bodies(world, content_type, body, code, message):
    answer = await world.call("POST", CONFIG_MAPS, body, headers={"content-type": content_type})
    assert (answer.status, answer.json["message"]) == (code, message)


MERGES = "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 13))


@pytest.mark.parametrize(
    ("method", "url", "content_type"),
    [
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", YAML),
        ("POST", CONFIG_MAPS, YAML),
        ("PUT", f"{CONFIG_MAPS}/one", YAML),
        ("DELETE", f"{CONFIG_MAPS}/one", YAML),
        ("DELETE", CONFIG_MAPS, YAML),
        ("PATCH", f"{CONFIG_MAPS}/one?fieldManager=a", "application/apply-patch+yaml"),
    ],
)
async def test_merge_keys_are_counted_before_they_are_expanded(world, method, url, content_type):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "one"}})
    answer = await world.call(method, url, MERGES.encode(), headers={"content-type": content_type})
    assert answer.status == 400
    assert "yaml: document contains excessive aliasing" in answer.json["message"]


async def test_only_the_first_document_of_yaml_counts(world):
    body = b"metadata: {name: a}\n---\nmetadata: {name: b}\n"
    answer = await world.call("POST", CONFIG_MAPS, body, headers={"content-type": YAML})
    assert (answer.status, answer.json["metadata"]["name"]) == (201, "a")


@pytest.mark.parametrize(
    "url", [f"{CONFIG_MAPS}/a", "/api/v1/namespaces/default", "/api/v1/namespaces/default/finalize"]
)
async def test_an_update_needs_the_name(world, url):
    name = "a" if url.endswith("/a") else "default"
    answer = await world.call("PUT", url, {"metadata": {}})
    why = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
    assert (answer.status, answer.json["message"]) == (400, why)


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (b"{", 400, f"{NO_KIND}unexpected end of JSON input"),
        (b'{"kind":"ConfigMap"}', 400, f'no kind "ConfigMap" is registered for version "meta.k8s.io/v1" in scheme "{SCHEME}"'),
        (b'{"gracePeriodSeconds":"x"}', 400, "json: cannot unmarshal string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"),
        (b'{"dryRun":["None"]}', 422, 'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["None"]: supported values: "All"'),
        (b'{"propagationPolicy":""}', 422, 'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "": supported values: "Foreground", "Background", "Orphan", "nil"'),
    ],
)  # fmt: skip
async def test_malformed_options_of_a_delete(world, body, code, message):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    answer = await world.call("DELETE", f"{CONFIG_MAPS}/a", body)
    assert (answer.status, answer.json["message"]) == (code, message)


async def test_a_delete_with_a_body_does_not_read_its_query(world):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    answer = await world.call("DELETE", f"{CONFIG_MAPS}/a?dryRun=All&gracePeriodSeconds=x", {})
    assert answer.status == 200
    assert (await world.call("GET", f"{CONFIG_MAPS}/a")).status == 404


@pytest.mark.parametrize("precondition", ["uid=x", "resourceVersion=1"])
async def test_the_query_of_a_delete_has_preconditions(world, precondition):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a?{precondition}")).status == 409


@pytest.mark.parametrize(
    ("method", "url", "code", "message"),
    [
        ("POST", f"{CONFIG_MAPS}?dryRun=", 422, 'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All"'),
        ("PUT", f"{CONFIG_MAPS}/a?dryRun=x", 422, 'UpdateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["x"]: supported values: "All"'),
        ("DELETE", f"{CONFIG_MAPS}/a?dryRun=", 422, 'DeleteOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: [""]: supported values: "All"'),
        ("GET", f"{CONFIG_MAPS}?limit=", 400, 'strconv.ParseInt: parsing "": invalid syntax'),
    ],
)  # fmt: skip
async def test_empty_and_unknown_options(world, method, url, code, message):
    body = {"metadata": {"name": "not valid"}} if method in ("POST", "PUT") else None
    answer = await world.call(method, url, body)
    assert (answer.status, answer.json["message"]) == (code, message)


NAMES = '"metadata.name", "metadata.namespace"'


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (CONFIG_MAPS, f'"nope" is not a known field selector: only {NAMES}'),
        ("/api/v1/persistentvolumes", f'"nope" is not a known field selector: only {NAMES}'),
        ("/api/v1/pods", "field label not supported: nope"),
        ("/apis/batch/v1/jobs", 'field label "nope" not supported for batchv1.Job'),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: nope",
        ),
    ],
)
async def test_unknown_fields_of_selectors(world, url, message):
    answer = await world.call("GET", f"{url}?fieldSelector=nope%3Dx")
    assert (answer.status, answer.json["message"]) == (400, message)


@pytest.mark.parametrize(("selector", "count"), [("metadata.namespace%3Dx", 0), ("metadata.namespace!%3Dx", 1)])
async def test_objects_without_a_namespace_are_selected_by_it(world, selector, count):
    url = "/apis/node.k8s.io/v1/runtimeclasses"
    await world.create(url, {"metadata": {"name": "a"}, "handler": "b"})
    assert len((await world.get(f"{url}?fieldSelector={selector}"))["items"]) == count


@pytest.mark.parametrize(
    ("accept", "media_types"),
    [
        ("application/yaml, application/json;q=0.5", f"{JSON};stream=watch, {PROTOBUF};stream=watch"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", f"{JSON}, {YAML}, {PROTOBUF}"),
    ],
)
async def test_media_types_that_no_watch_has(world, accept, media_types):
    answer = await world.call("GET", f"{CONFIG_MAPS}?watch=1", headers={"accept": accept})
    assert answer.status == 406
    assert f"only the following media types are accepted: {media_types}" in " ".join(answer.body.decode().split())


@pytest.mark.parametrize("form", ["Table", "PartialObjectMetadata"])
async def test_the_status_of_a_delete_has_no_other_form(world, form):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    accept = f"application/json;as={form};v=v1;g=meta.k8s.io"
    answer = await world.call("DELETE", f"{CONFIG_MAPS}/a", headers={"accept": accept})
    assert (answer.status, answer.json["kind"]) == (200, "Status")


@pytest.mark.parametrize("text", [b"\xff", rb"\ud800"])
async def test_what_is_not_unicode_is_replaced(world, text):
    body = b'{"metadata":{"name":"a"},"data":{"k":"%s"}}' % text
    answer = await world.call("POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    assert (answer.status, answer.json["data"]) == (201, {"k": "\ufffd"})
    patched = await world.call(
        "PATCH",
        f"{CONFIG_MAPS}/a",
        b'{"data":{"k":"x%s"}}' % text,
        headers={"content-type": "application/merge-patch+json"},
    )
    assert (patched.status, patched.json["data"]) == (200, {"k": "x\ufffd"})


async def test_a_status_is_stored_although_the_spec_breaks_a_newer_rule(world, monkeypatch):
    url = "/apis/apps/v1/namespaces/default/deployments"
    pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "b"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
    await world.create(url, {"metadata": {"name": "a"}, "spec": spec})

    def demand_newer(strategy: WorkloadStrategy, obj: Field) -> None:
        obj.at("spec").at("newer").required()

    monkeypatch.setattr(WorkloadStrategy, "validate", demand_newer)
    assert (await world.patch(f"{url}/a", {"spec": {"replicas": 2}})).status == 422
    assert (await world.patch(f"{url}/a/status", {"status": {"replicas": 1}})).status == 200


async def test_the_generation_of_a_kind_that_does_not_count_it(world):
    assert (await world.create(CONFIG_MAPS, {"metadata": {"name": "a", "generation": 7}}))["metadata"][
        "generation"
    ] == 7
    answer = await world.call("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a", "generation": 9}})
    assert answer.json["metadata"]["generation"] == 7


async def test_an_update_of_a_missing_object_with_a_uid_is_a_conflict(world):
    answer = await world.call("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a", "uid": "u"}})
    assert answer.status == 409
    assert "Precondition failed: UID in precondition: u, UID in object meta: " in answer.json["message"]


@pytest.mark.parametrize(
    ("kind", "body", "code", "message"),
    [
        ("strategic-merge-patch", b"null", 200, ""),
        ("json-patch", b"null", 200, ""),
        ("merge-patch", b"null", 400, "Invalid JSON Patch"),
        ("merge-patch", b"{", 400, "error decoding patch: unexpected end of JSON input"),
        ("strategic-merge-patch", {"metadata": {"$patch": "foo", "z": "1"}}, 500, "unknown patch type: foo in map: map[$patch:foo z:1]"),
        ("strategic-merge-patch", {"data": {"$patch": "foo", "z": "1"}}, 200, ""),
        ("strategic-merge-patch", {"metadata": {"ownerReferences": [{"$patch": "delete", "uid": "x"}]}}, 200, ""),
        ("strategic-merge-patch", {"metadata": {"finalizers": ["a.b/c"], "$setElementOrder/finalizers": "x"}}, 500, "expected a []interface {}, but received a string"),
        ("merge-patch", {"metadata": {"uid": "x"}}, 422, 'ConfigMap "a" is invalid: metadata.uid: Invalid value: "x": field is immutable'),
        ("merge-patch", {"metadata": {"name": None}}, 400, "the name of the object (a based on URL) was undeterminable: name must be provided"),
        ("json-patch", [{"op": "remove", "path": "/nope"}], 422, "the server rejected our request due to an error in our request"),
    ],
)  # fmt: skip
async def test_unusual_patches(world, kind, body, code, message):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    answer = await world.patch(f"{CONFIG_MAPS}/a", body, kind)
    assert (answer.status, answer.json.get("message", "")) == (code, message)


async def test_too_many_operations(world):
    await world.create(CONFIG_MAPS, {"metadata": {"name": "a"}})
    answer = await world.patch(
        f"{CONFIG_MAPS}/a", [{"op": "add", "path": "/data/z", "value": "1"}] * 10_001, "json-patch"
    )
    why = "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    assert (answer.status, answer.json["message"]) == (413, why)


async def test_the_deletion_of_a_namespace(world):
    url = "/api/v1/namespaces/a"
    await world.create("/api/v1/namespaces", {"metadata": {"name": "a"}})
    wrong = await world.call("PUT", f"{url}/status", {"metadata": {"name": "a"}, "status": {"phase": "Terminating"}})
    why = "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty"
    assert (wrong.status, wrong.json["message"]) == (422, f'Namespace "a" is invalid: {why}')
    empty = await world.call("PUT", f"{url}/status", {"metadata": {"name": "a"}})
    assert empty.json["status"] == {"phase": "Active"}
    deleted = (await world.call("DELETE", url)).json
    assert "deletionTimestamp" in deleted["metadata"]
    assert "deletionGracePeriodSeconds" not in deleted["metadata"]
