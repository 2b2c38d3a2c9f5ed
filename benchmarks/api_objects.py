"""Objects and requests of the benchmark of API servers."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from benchmarks.api_load import encode_request

NAMESPACE = "/api/v1/namespaces/default"
SERVICES = f"{NAMESPACE}/services"
PODS = f"{NAMESPACE}/pods"
ENDPOINTS = f"{NAMESPACE}/endpoints"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/bench.example.com/v1/namespaces/default/widgets"

_encode = msgspec.json.encode


def slices(version: str) -> str:
    """Return the path of EndpointSlices in a version of their group."""
    return f"/apis/discovery.k8s.io/{version}/namespaces/default/endpointslices"


def creates(path: str, make: Callable[[int], dict[str, object]], count: int) -> list[bytes]:
    return [create(path, make(number)) for number in range(count)]


def create(path: str, obj: dict[str, object]) -> bytes:
    return encode_request("POST", path, _encode(obj))


def replace(path: str, name: str, obj: dict[str, object]) -> bytes:
    return encode_request("PUT", f"{path}/{name}", _encode(obj))


def patch_status(number: int, pod: int) -> bytes:
    body = _encode({"status": {"message": f"change {number}"}})
    return encode_request("PATCH", f"{PODS}/pod-{pod}/status", body, content_type="application/merge-patch+json")


def service(number: int) -> dict[str, object]:
    name = f"service-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }


def small_slice(version: str, number: int) -> dict[str, object]:
    """An EndpointSlice of ten endpoints."""
    labels = {"kubernetes.io/service-name": f"service-{number}"}
    return _endpoint_slice(version, f"slice-{number}", labels, range(10), "")


def big_slice(version: str, index: int, mark: str) -> dict[str, object]:
    """An EndpointSlice of a large Service, with a hundred endpoints."""
    labels = {"bench": "big", "kubernetes.io/service-name": "big"}
    return _endpoint_slice(version, f"big-{index}", labels, range(100 * index, 100 * index + 100), mark)


def _endpoint_slice(version: str, name: str, labels: dict[str, str], numbers: range, mark: str) -> dict[str, object]:
    return {
        "apiVersion": f"discovery.k8s.io/{version}",
        "kind": "EndpointSlice",
        "metadata": {"name": name, "labels": labels, "annotations": {"mark": mark}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [_address(number)],
                "conditions": {"ready": True, "serving": True, "terminating": False},
                "nodeName": f"node-{number % 100}",
                "targetRef": {"kind": "Pod", "namespace": "default", "name": f"pod-{number}"},
            }
            for number in numbers
        ],
    }


def big_endpoints(count: int, mark: str) -> dict[str, object]:
    """The Endpoints of a large Service."""
    addresses = [
        {
            "ip": _address(number),
            "nodeName": f"node-{number % 100}",
            "targetRef": {"kind": "Pod", "namespace": "default", "name": f"pod-{number}"},
        }
        for number in range(count)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": {"name": "big", "labels": {"bench": "big"}, "annotations": {"mark": mark}},
        "subsets": [{"addresses": addresses, "ports": [{"name": "http", "port": 8080}]}],
    }


def _address(number: int) -> str:
    return f"10.{1 + number // 65536}.{number // 256 % 256}.{number % 256}"


def account() -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}


def pod(number: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "nginx"}]},
    }


def definition() -> dict[str, object]:
    """The CustomResourceDefinition of the widgets."""
    spec = {
        "type": "object",
        "properties": {
            "size": {"type": "integer", "minimum": 0, "maximum": 1000},
            "color": {"type": "string", "enum": ["red", "green"], "default": "green"},
            "parts": {"type": "array", "items": {"type": "string", "maxLength": 64}},
        },
        "required": ["size"],
    }
    schema = {"type": "object", "properties": {"spec": spec}}
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.bench.example.com"},
        "spec": {"group": "bench.example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


def widget(number: int) -> dict[str, object]:
    return {
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": f"widget-{number}"},
        "spec": {"size": number % 1000, "parts": ["a", "b", "c"]},
    }
