"""The API server: writes per second and their latency, large lists, a thousand watchers of one change, memory.

The server is a process of its own with TLS and a durable store; the load generator runs beside it on the same machine.
"""

from __future__ import annotations

import http.client
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from tests.integration.apiserver_process import ServerProcess, write_files

from benchmarks.api_load import encode_request, run_load, run_watchers
from benchmarks.progress import log

OBJECTS = 10_000
CONNECTIONS = 64
WATCHERS = 1_000
ENDPOINTS = 5_000
LISTS = 5
PODS = 1_000
PROTOBUF = "application/vnd.kubernetes.protobuf"

_NAMESPACE = "/api/v1/namespaces/default"
_SERVICES = f"{_NAMESPACE}/services"
_PODS = f"{_NAMESPACE}/pods"
_SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CUSTOM = "/apis/bench.example.com/v1/namespaces/default/widgets"

_encode = msgspec.json.encode

Rows = list[tuple[str, str]]


def run() -> Rows:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        server = ServerProcess(here, store=f"sqlite://{here / 'store.db'}")
        server.start()
        try:
            return _measure(server)
        finally:
            server.close()


def _measure(server: ServerProcess) -> Rows:
    rows: Rows = [("memory (PSS) of the server after its start", _memory(server))]
    rows.append(_writes(server, "Services", _create(_SERVICES, _service)))
    rows.append(_writes(server, "EndpointSlices of 10 endpoints", _create(_SLICES, _slice)))
    rows.append((f"memory (PSS) with {OBJECTS:,} Services and {OBJECTS:,} EndpointSlices", _memory(server)))
    for form in ("application/json", PROTOBUF):
        rows.append((f"list of {OBJECTS:,} Services, {form}", _list(server, _SERVICES, form)))
    rows.append((f"list of {OBJECTS:,} EndpointSlices", _list(server, _SLICES, "application/json")))
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
    _load(server, [_post(f"{_NAMESPACE}/serviceaccounts", account), *(_post(_PODS, _pod(n)) for n in range(PODS))])
    for pods in (PODS, 1):
        what = "patches of the status of 1 pod" if pods == 1 else f"patches of the status of {pods:,} pods"
        rows.append(_writes(server, what, [_patch_status(n, n % pods) for n in range(OBJECTS)]))
    _load(server, [_post(_CRDS, _definition())])
    _wait_served(server)
    rows.append(_writes(server, "custom resources with a schema", _create(_CUSTOM, _widget)))
    rows += _deliveries(server)
    return rows


def _writes(server: ServerProcess, what: str, requests: list[bytes]) -> tuple[str, str]:
    log(f"writing {len(requests):,} {what}")
    before = _processor_seconds(server)
    text = run_load(server.port, server.context("admin"), requests, connections=CONNECTIONS).text()
    each = (_processor_seconds(server) - before) / len(requests)
    return f"{len(requests):,} writes of {what}, {CONNECTIONS} connections", f"{text}, {1e6 * each:.0f} µs of processor"


def _processor_seconds(server: ServerProcess) -> float:
    fields = Path(f"/proc/{server.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _load(server: ServerProcess, requests: list[bytes]) -> None:
    load = run_load(server.port, server.context("admin"), requests, connections=1)
    if load.refused:
        raise RuntimeError(f"a request was refused: {load.refused}")


def _list(server: ServerProcess, path: str, form: str) -> str:
    """Return the median time of a whole list on an open connection, and its size."""
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server.context("admin"), timeout=60)
    times, size = [], 0
    for _ in range(LISTS + 1):
        began = time.perf_counter()
        connection.request("GET", path, headers={"accept": form})
        response = connection.getresponse()
        size = len(response.read())
        times.append(time.perf_counter() - began)
        if response.status != 200:
            return f"status {response.status}"
    connection.close()
    return f"{1000 * statistics.median(times[1:]):.0f} ms (median of {LISTS}), {size / 2**20:.1f} MiB"


def _memory(server: ServerProcess) -> str:
    lines = Path(f"/proc/{server.pid}/smaps_rollup").read_text().splitlines()
    return f"{next(int(line.split()[1]) for line in lines if line.startswith('Pss:')) / 1024:.0f} MiB"


def _wait_served(server: ServerProcess) -> None:
    deadline = time.monotonic() + 10
    while True:
        load = run_load(server.port, server.context("admin"), [encode_request("GET", _CUSTOM)], connections=1)
        if not load.refused:
            return
        if time.monotonic() > deadline:
            raise RuntimeError("the definition is not served after 10 s")
        time.sleep(0.01)


def _deliveries(server: ServerProcess) -> Rows:
    """One endpoint of 5,000 changes: as Endpoints, whose object has them all, and as EndpointSlices."""
    rows: Rows = []
    whole = "/api/v1/namespaces/default/endpoints"
    objects: list[tuple[str, str, Callable[[str], dict[str, object]]]] = [
        ("one Endpoints object", whole, lambda mark: _endpoints(ENDPOINTS, mark)),
        ("EndpointSlices of 100", _SLICES, lambda mark: _big_slice(0, mark)),
    ]
    for index in range(ENDPOINTS // 100):
        _load(server, [_post(_SLICES, _big_slice(index, "first"))])
    _load(server, [_post(whole, _endpoints(ENDPOINTS, "first"))])
    for what, path, make in objects:
        log(f"{WATCHERS:,} watchers of {what}")
        # From the current revision: initial events would be 1 GiB, whose end would be measured with the change.
        selector = f"?watch=1&labelSelector=bench%3Dbig&resourceVersion={_revision(server, path)}"
        write = encode_request("PUT", f"{path}/{make('')['metadata']['name']}", _encode(make("changed")))  # type: ignore[index]
        context = server.context("admin")
        delivery = run_watchers(
            server.port, context, path + selector, watchers=WATCHERS, write=write, marker=b'"mark":"changed"'
        )
        text = f"{delivery.received / 2**20:,.1f} MiB, {delivery.seconds:.2f} s to the last"
        rows.append((f"{WATCHERS:,} watchers, one of {ENDPOINTS:,} endpoints changes, {what}", text))
    return rows


def _revision(server: ServerProcess, path: str) -> str:
    """Return the resourceVersion of a list now."""
    version: str = msgspec.json.decode(server.read(f"{path}?limit=1", user="admin"))["metadata"]["resourceVersion"]
    return version


def _create(path: str, make: Callable[[int], dict[str, object]]) -> list[bytes]:
    return [_post(path, make(number)) for number in range(OBJECTS)]


def _post(path: str, obj: dict[str, object]) -> bytes:
    return encode_request("POST", path, _encode(obj))


def _service(number: int) -> dict[str, object]:
    name = f"service-{number}"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]},
    }


def _slice(number: int) -> dict[str, object]:
    return _endpoint_slice(f"slice-{number}", {"kubernetes.io/service-name": f"service-{number}"}, range(10), "")


def _big_slice(index: int, mark: str) -> dict[str, object]:
    labels = {"bench": "big", "kubernetes.io/service-name": "big"}
    return _endpoint_slice(f"big-{index}", labels, range(100 * index, 100 * index + 100), mark)


def _endpoint_slice(name: str, labels: dict[str, str], numbers: range, mark: str) -> dict[str, object]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
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


def _endpoints(count: int, mark: str) -> dict[str, object]:
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


def _pod(number: int) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"pod-{number}", "namespace": "default"},
        "spec": {"automountServiceAccountToken": False, "containers": [{"name": "a", "image": "nginx"}]},
    }


def _patch_status(number: int, pod: int) -> bytes:
    body = _encode({"status": {"message": f"change {number}"}})
    path = f"{_PODS}/pod-{pod}/status"
    return encode_request("PATCH", path, body, content_type="application/merge-patch+json")


def _definition() -> dict[str, object]:
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


def _widget(number: int) -> dict[str, object]:
    return {
        "apiVersion": "bench.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": f"widget-{number}"},
        "spec": {"size": number % 1000, "parts": ["a", "b", "c"]},
    }


if __name__ == "__main__":
    for name, value in run():
        print(f"{name:<75} {value}")
