"""The address of one ready endpoint of a Service.

The API server reaches pods directly, so that webhooks work where no service proxy runs.
Source: apiserver/pkg/util/proxy/proxy.go (ResolveEndpoint).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

import msgspec

from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Key, Store

from .config import ServiceReference
from .errors import CallFailed

_SLICES = "endpointslices.discovery.k8s.io"
_OWNER = "kubernetes.io/service-name"

_decode = msgspec.json.decode

Address = tuple[str, int]


def resolve(
    store: Store, service: ServiceReference, choose: Callable[[Sequence[Address]], Address] = random.choice
) -> Address:
    """Return the address and port of a ready endpoint. Raises `CallFailed`."""
    record = store.get(Key("services", service.namespace, service.name))
    if record is None:
        raise CallFailed(f'service "{service.name}" not found')
    spec: JsonObject = _decode(record.value).get("spec", {})
    if spec.get("type") == "ExternalName":
        raise CallFailed(f'unsupported service type "{spec["type"]}"')
    port = next((one for one in spec.get("ports", ()) if one.get("port") == service.port), None)
    if port is None:
        raise CallFailed(f'no service port {service.port} found for service "{service.name}"')
    found = list(_addresses(store, service, port.get("name", "")))
    if not found:
        raise CallFailed(f'no endpoints available for service "{service.name}"')
    return choose(found)


def _addresses(store: Store, service: ServiceReference, port: str) -> Iterator[Address]:
    """Yield the ready addresses of a named port, from the Endpoints if there are any, else from the slices."""
    record = store.get(Key("endpoints", service.namespace, service.name))
    if record is not None:
        yield from _of_endpoints(_decode(record.value), port)
        return
    for one in store.list(_SLICES, service.namespace):
        if one.facts.labels.get(_OWNER) == service.name:
            yield from _of_slice(_decode(one.value), port)


def _of_endpoints(endpoints: JsonObject, port: str) -> Iterator[Address]:
    for subset in endpoints.get("subsets", ()):
        number = _number(subset.get("ports", ()), port)
        if number is not None:
            yield from ((address["ip"], number) for address in subset.get("addresses", ()))


def _of_slice(slice_: JsonObject, port: str) -> Iterator[Address]:
    number = _number(slice_.get("ports", ()), port)
    if number is None:
        return
    for endpoint in slice_.get("endpoints", ()):
        if endpoint.get("conditions", {}).get("ready") is not False:
            yield from ((address, number) for address in endpoint.get("addresses", ())[:1])


def _number(ports: Sequence[JsonObject], name: str) -> int | None:
    return next((one["port"] for one in ports if one.get("name", "") == name and one.get("port")), None)
