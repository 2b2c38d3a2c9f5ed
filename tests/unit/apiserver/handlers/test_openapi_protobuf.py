"""The OpenAPI document of version 2 in protobuf, read back by the numbers of gnostic's OpenAPIv2.proto."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from bridgehead.apiserver.handlers.openapi_protobuf import encode_document
from tests.unit.apiserver.world import World, open_world

PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


def split(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of each field."""
    at = 0

    def varint() -> int:
        nonlocal at
        number = shift = 0
        while True:
            byte = message[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number

    while at < len(message):
        tag = varint()
        if tag & 7 == 0:
            yield tag >> 3, varint()
        else:
            assert tag & 7 == 2
            size = varint()
            assert at + size <= len(message)
            yield tag >> 3, message[at : at + size]
            at += size


def find(message: bytes, *path: int) -> list[Any]:
    """All values at the end of a path of field numbers."""
    values = [message]
    for number in path:
        values = [value for outer in values for found, value in split(outer) if found == number]
    return values


def entries(message: bytes, *path: int) -> dict[str, bytes]:
    """A map: messages of a name and a value."""
    return {find(entry, 1)[0].decode(): b"".join(find(entry, 2)) for entry in find(message, *path)}


def extensions(message: bytes, number: int) -> dict[str, object]:
    return {name: json.loads(find(value, 2)[0]) for name, value in entries(message, number).items()}


async def test_the_protobuf_document_equals_the_json_document(world):
    plain = await world.get("/openapi/v2")
    answer = await world.call("GET", "/openapi/v2", headers={"accept": PROTOBUF})
    assert answer.header("content-type") == [PROTOBUF.replace("@", ".")]
    document = answer.body
    assert find(document, 1) == [b"2.0"]
    assert find(document, 2, 1) == [b"Kubernetes"]
    schemas = entries(document, 9, 1)
    assert schemas.keys() == plain["definitions"].keys()
    for name, schema in schemas.items():
        expected = plain["definitions"][name]
        assert b"".join(find(schema, 4)).decode() == expected.get("description", "")
        assert entries(schema, 25, 1).keys() == expected.get("properties", {}).keys()
    assert entries(document, 8, 2).keys() == plain["paths"].keys()


async def test_the_document_has_what_kubectl_explain_apply_and_dry_run_need(world):
    document = (await world.call("GET", "/openapi/v2", headers={"accept": PROTOBUF})).body
    schemas = entries(document, 9, 1)
    service = schemas["io.k8s.api.core.v1.Service"]
    gvk = {"group": "", "version": "v1", "kind": "Service"}
    assert extensions(service, 31)["x-kubernetes-group-version-kind"] == [gvk]
    assert find(entries(service, 25, 1)["spec"], 1) == [b"#/definitions/io.k8s.api.core.v1.ServiceSpec"]
    ports = entries(schemas["io.k8s.api.core.v1.ServiceSpec"], 25, 1)["ports"]
    assert find(ports, 22, 1) == [b"array"]
    assert find(ports, 23, 1, 1) == [b"#/definitions/io.k8s.api.core.v1.ServicePort"]
    assert extensions(ports, 31)["x-kubernetes-patch-merge-key"] == "port"
    assert find(schemas["io.k8s.api.core.v1.ServicePort"], 19) == [b"port"]
    selector = entries(schemas["io.k8s.api.core.v1.ServiceSpec"], 25, 1)["selector"]
    assert find(selector, 21, 1, 22, 1) == [b"string"]
    (patch,) = find(entries(document, 8, 2)["/api/v1/namespaces/{namespace}/services/{name}"], 8)
    assert extensions(patch, 13)["x-kubernetes-group-version-kind"] == gvk
    assert b"dryRun" in find(patch, 8, 1, 2, 3, 4)


async def test_the_document_is_compressed_for_clients_that_accept_gzip(world):
    headers = {"accept": PROTOBUF, "accept-encoding": "gzip"}
    answer = await world.call("GET", "/openapi/v2", headers=headers)
    assert answer.header("content-encoding") == ["gzip"]
    plain = await world.call("GET", "/openapi/v2", headers={"accept": PROTOBUF})
    assert len(answer.body) < len(plain.body) / 3


def test_a_field_without_a_number_is_an_error():
    with pytest.raises(KeyError):
        encode_document({"swagger": "2.0", "definitions": {"a": {"oneOf": []}}})
