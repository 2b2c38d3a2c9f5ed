# ruff: noqa: E501
"""Answers to bodies and options that few clients send, with Kubernetes' texts."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

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
