"""Bodies in Kubernetes' protobuf encoding."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.protobuf import MAGIC, MalformedProtobuf, decode_protobuf_untrusted

# Bodies are written out field by field, as `kubectl create deployment` and others (1.32) send them.


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


def message(*fields: bytes) -> bytes:
    return b"".join(fields)


def envelope(api_version: str, kind: str, raw: bytes, *more: bytes) -> bytes:
    return MAGIC + field(1, message(field(1, api_version), field(2, kind))) + field(2, raw) + message(*more)


def test_deployment_as_kubectl_creates_it():
    labels = message(field(1, "app"), field(2, "web"))
    metadata = message(field(1, "web"), field(2, ""), field(7, 0), field(8, b""), field(11, labels))
    container = message(field(1, "nginx"), field(2, "nginx"), field(5, ""), field(16, 0))
    template = message(field(1, message(field(1, ""), field(11, labels))), field(2, field(2, container)))
    spec = message(field(1, 0), field(2, field(1, labels)), field(3, template), field(4, field(1, "")), field(7, 0))
    body = envelope("apps/v1", "Deployment", message(field(1, metadata), field(2, spec), field(3, b"")))
    assert decode_protobuf_untrusted(body) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "nginx", "image": "nginx"}]},
            },
            "strategy": {},
        },
        "status": {},
    }


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (message(field(1, 0), field(2, 8080), field(3, "")), {"targetPort": 8080}),
        (message(field(1, 1), field(2, 0), field(3, "web")), {"targetPort": "web"}),
        (message(field(1, 0), field(2, 0), field(3, "")), {}),
    ],
)
def test_target_ports(target, expected):
    port = message(field(1, ""), field(2, "TCP"), field(3, 80), field(4, target), field(5, 0))
    body = envelope("v1", "Service", field(2, message(field(1, port), field(13, 0), field(4, "ClusterIP"))))
    spec = decode_protobuf_untrusted(body)["spec"]
    assert spec == {"ports": [{"protocol": "TCP", "port": 80, **expected}], "type": "ClusterIP"}


def test_inline_fields_maps_bytes_and_times():
    selector = message(field(1, field(1, "config")), field(2, "key"), field(3, 0))
    variable = message(field(1, "A"), field(3, field(3, selector)))
    probe = message(field(1, field(2, message(field(1, "/"), field(2, field(2, 80))))), field(3, 5))
    limits = field(1, message(field(1, "cpu"), field(2, field(1, "100m"))))
    container = message(field(7, variable), field(10, probe), field(8, limits))
    volume = message(field(1, "v"), field(2, field(2, b"")))
    pod = message(
        field(1, message(field(8, message(field(1, 1_795_228_522), field(2, 5))))),
        field(2, message(field(1, volume), field(2, container), field(5, -1))),
    )
    assert decode_protobuf_untrusted(envelope("v1", "Pod", pod)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"creationTimestamp": "2026-11-21T02:35:22Z"},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "env": [
                        {
                            "name": "A",
                            "valueFrom": {"configMapKeyRef": {"name": "config", "key": "key", "optional": False}},
                        }
                    ],
                    "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "timeoutSeconds": 5},
                    "resources": {"limits": {"cpu": "100m"}},
                }
            ],
            "activeDeadlineSeconds": -1,
        },
    }
    secret = field(2, message(field(1, "k"), field(2, b"\x00\xff")))
    assert decode_protobuf_untrusted(envelope("v1", "Secret", secret))["data"] == {"k": "AP8="}


def test_delete_options_have_the_version_of_what_is_deleted():
    options = message(field(1, 0), field(4, "Background"))
    assert decode_protobuf_untrusted(envelope("apps/v1", "DeleteOptions", options)) == {
        "apiVersion": "apps/v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_unknown_fields_are_skipped():
    namespace = message(field(1, field(1, "x")), field(999, "new"), field(998, 7), varint(997 << 3 | 1) + b"8" * 8)
    assert decode_protobuf_untrusted(envelope("v1", "Namespace", namespace))["metadata"] == {"name": "x"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "magic number"),
        (MAGIC, "no kind"),
        (envelope("v1", "Nonsense", b""), 'no kind "Nonsense"'),
        (envelope("v1", "Pod", b"", field(3, "gzip")), "encoding 'gzip'"),
        (envelope("v1", "Pod", b"\x0a\xff"), "number that does not end"),
        (envelope("v1", "Pod", b"\x0a\x05ab"), "ends in the middle"),
        (envelope("v1", "Pod", b"\x0b"), "wire type 3"),
        (envelope("v1", "Pod", field(1, 7)), "a number stands where an object"),
        (envelope("v1", "Service", field(2, field(13, "x"))), "an object stands where a number"),
        (envelope("v1", "Pod", field(1, field(1, b"\xff"))), "not UTF-8"),
        (envelope("v1", "Pod", field(1, field(8, field(1, 1 << 60)))), "time is out of range"),
    ],
)
def test_malformed_bodies(body, why):
    with pytest.raises(MalformedProtobuf, match=why):
        decode_protobuf_untrusted(body)


@given(st.binary(max_size=200), st.sampled_from(["Pod", "Service", "Deployment", "Event"]))
def test_random_bodies_never_break_it(raw, kind):
    for body in (raw, MAGIC + raw, envelope("apps/v1" if kind == "Deployment" else "v1", kind, raw)):
        try:
            decode_protobuf_untrusted(body)
        except MalformedProtobuf:
            continue
