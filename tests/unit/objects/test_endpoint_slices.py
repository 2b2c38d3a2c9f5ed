"""The meaning of an EndpointSlice's fields, absent ones included."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.objects.endpoint_slices import Endpoint, EndpointSlice, SlicePort, index_by_service
from bridgehead.objects.meta import ObjectKey


def decode(text: str) -> Endpoint:
    return msgspec.json.decode(text, type=Endpoint)


@pytest.mark.parametrize(
    ("conditions", "ready", "serving", "terminating", "draining"),
    [
        ("{}", True, True, False, False),
        ('{"ready": null, "serving": null, "terminating": null}', True, True, False, False),
        ('{"ready": true, "serving": true, "terminating": false}', True, True, False, False),
        ('{"ready": false}', False, True, False, False),
        ('{"ready": false, "serving": false}', False, False, False, False),
        ('{"ready": false, "terminating": true}', False, True, True, True),
        ('{"ready": false, "serving": true, "terminating": true}', False, True, True, True),
        ('{"ready": false, "serving": false, "terminating": true}', False, False, True, False),
    ],
)
def test_conditions_have_defaults(
    conditions: str, ready: bool, serving: bool, terminating: bool, draining: bool
) -> None:
    found = decode(f'{{"addresses": ["10.0.0.1"], "conditions": {conditions}}}').conditions
    assert (found.is_ready, found.is_serving, found.is_terminating, found.is_draining) == (
        ready,
        serving,
        terminating,
        draining,
    )


def test_an_endpoint_without_conditions_is_ready() -> None:
    assert decode('{"addresses": ["10.0.0.1"]}').conditions.is_ready


def test_the_first_address_is_used() -> None:
    assert decode('{"addresses": ["10.0.0.1", "10.0.0.2"]}').first_address == "10.0.0.1"
    assert decode('{"addresses": []}').first_address is None


def test_hints_and_pod_are_read() -> None:
    endpoint = decode(
        '{"hints": {"forZones": [{"name": "a"}, {"name": "b"}], "forNodes": [{"name": "n"}]},'
        ' "targetRef": {"kind": "Pod", "uid": "u"}}'
    )
    assert (endpoint.hinted_zones, endpoint.hinted_nodes, endpoint.pod_uid) == (("a", "b"), ("n",), "u")
    bare = decode("{}")
    assert (bare.hinted_zones, bare.hinted_nodes, bare.pod_uid) == ((), (), "")


def test_a_port_has_default_name_and_protocol() -> None:
    assert SlicePort(port=80).key == ("", "TCP")
    assert SlicePort(name="dns", protocol="UDP", port=53).key == ("dns", "UDP")


def test_the_service_is_read_from_the_label() -> None:
    text = '{"metadata": {"name": "web-1", "namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}}}'
    slice_ = msgspec.json.decode(text, type=EndpointSlice)
    assert slice_.service_key == ObjectKey("shop", "web")
    assert index_by_service(slice_) == ("shop/web",)
    assert EndpointSlice().service_key is None
    assert index_by_service(EndpointSlice()) == ()
