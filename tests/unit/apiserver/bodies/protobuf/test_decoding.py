"""Bodies in Kubernetes' protobuf encoding, written out field by field as kubectl 1.32 sends them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import load_definitions
from bridgehead.apiserver.bodies.protobuf import (
    MAGIC,
    BadPacket,
    decode_envelope_untrusted,
    decode_message_untrusted,
    plain_scalars,
)
from bridgehead.apiserver.bodies.schema import Schema
from bridgehead.apiserver.shapes import StructShape, conform


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema(load_definitions(), plain_scalars)


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def field(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def test_a_deployment_created_by_kubectl_is_decoded(schema):
    labels = field(1, "app") + field(2, "web")
    metadata = b"".join((field(1, "web"), field(2, ""), field(7, 0), field(8, b""), field(11, labels)))
    selector = field(1, field(1, "app") + field(2, "web"))
    container = b"".join((field(1, "nginx"), field(2, "nginx:1"), field(5, ""), field(8, b""), field(16, 0)))
    spec = b"".join((field(1, 0), field(2, selector), field(3, field(2, field(2, container))), field(4, b"")))
    raw = field(1, metadata) + field(2, spec) + field(3, b"")
    body = MAGIC + field(1, field(1, "apps/v1") + field(2, "Deployment")) + field(2, raw) + field(3, "") + field(4, "")
    version, kind, message = decode_envelope_untrusted(body)
    assert (version, kind) == ("apps/v1", "Deployment")
    shape = schema.of_kind("apps", "v1", "Deployment")
    obj, unknown = conform(decode_message_untrusted(message, shape), shape)
    assert unknown == []
    # `replicas` is a pointer in Go, so its zero was meant; empty strings and false were not.
    assert obj == {
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "nginx", "image": "nginx:1", "resources": {}}]}},
            "strategy": {},
        },
        "status": {},
    }


@pytest.mark.parametrize(
    ("kind", "raw", "expected"),
    [
        pytest.param(
            "Service",
            field(2, field(1, field(3, 80) + field(4, field(1, 1) + field(2, 0) + field(3, "http")))),
            {"spec": {"ports": [{"port": 80, "targetPort": "http"}]}},
            id="named target port",
        ),
        pytest.param(
            "Service",
            field(2, field(1, field(3, 80) + field(4, field(1, 0) + field(2, 8080) + field(3, "")))),
            {"spec": {"ports": [{"port": 80, "targetPort": 8080}]}},
            id="numbered target port",
        ),
        pytest.param(
            "Secret", field(2, field(1, "k") + field(2, b"\x00\xff")), {"data": {"k": "AP8="}}, id="bytes in a map"
        ),
        pytest.param(
            "ConfigMap", field(2, field(1, "empty")), {"data": {"empty": ""}}, id="map entry without its value"
        ),
        pytest.param(
            "Pod",
            field(2, field(1, field(1, "v") + field(2, field(2, field(1, ""))))),
            {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
            id="embedded message",
        ),
        pytest.param(
            "Pod",
            field(2, field(4, -1) + field(14, field(4, varint(5) + varint(6)))),
            {"spec": {"terminationGracePeriodSeconds": -1, "securityContext": {"supplementalGroups": [5, 6]}}},
            id="negative and packed numbers",
        ),
        pytest.param(
            "Pod",
            field(2, field(2, field(1, "c") + field(8, field(1, field(1, "cpu") + field(2, field(1, "100m")))))),
            {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "100m"}}}]}},
            id="quantity",
        ),
        pytest.param(
            "Event",
            field(6, field(1, 1795232921) + field(2, 0)) + field(10, field(1, 1795232921) + field(2, 5000)),
            {"firstTimestamp": "2026-11-21T03:48:41Z", "eventTime": "2026-11-21T03:48:41.000005Z"},
            id="times",
        ),
        pytest.param("Pod", field(999, "later") + field(998, 7), {}, id="numbers of later versions"),
        pytest.param(
            "Pod",
            field(2, field(34, field(1, field(1, "debug") + field(14, "") + field(16, 0) + field(18, 0)))),
            {"spec": {"ephemeralContainers": [{"name": "debug"}]}},
            id="zeros of a message that is embedded",
        ),
    ],
)
def test_messages_are_decoded(schema, kind, raw, expected):
    shape = schema.of_kind("", "v1", kind)
    assert conform(decode_message_untrusted(raw, shape), shape) == (expected, [])


def test_a_kind_without_numbers_is_refused():
    with pytest.raises(BadPacket, match="the numbers of the fields of Widget are not known"):
        decode_message_untrusted(b"", StructShape("com.example.v1.Widget"))


@pytest.mark.parametrize(
    "body",
    [b"", b"{}", MAGIC + b"\x12", MAGIC + b"\x12\x05ab", MAGIC + b"\x80", MAGIC + b"\x10\x01"],
)
def test_broken_envelopes_are_refused(body):
    with pytest.raises(BadPacket):
        decode_envelope_untrusted(body)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(schema, raw):
    for group, kind in (("", "Pod"), ("", "Service"), ("apps", "Deployment"), ("", "Event")):
        try:
            decode_message_untrusted(raw, schema.of_kind(group, "v1", kind))
        except BadPacket:
            continue


def _managed(fields: bytes) -> bytes:
    entry = (
        field(1, "kubelet") + field(2, "Update") + field(3, "v1") + field(6, "FieldsV1") + field(7, field(1, fields))
    )
    return field(1, field(17, entry + field(8, "")))


def test_managed_fields_keep_their_sets(schema):
    """Go clients send back what they read, in protobuf."""
    shape = schema.of_kind("", "v1", "ConfigMap")
    obj, _ = conform(decode_message_untrusted(_managed(b'{"f:data":{"f:a":{}}}'), shape), shape)
    assert obj["metadata"]["managedFields"] == [
        {
            "manager": "kubelet",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:a": {}}},
        }
    ]
    with pytest.raises(BadPacket, match="is JSON in protobuf"):
        decode_message_untrusted(_managed(b"{"), shape)
