"""The servers behind a Service: the addresses of its ready endpoints, by its EndpointSlices.

The API server reaches pods directly, so that webhooks and aggregated APIs work where no service proxy runs.
Source: apiserver/pkg/util/proxy/proxy.go (ResolveEndpoint).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.storage import Key, Store

from .resource import JsonObject

SLICES = "endpointslices.discovery.k8s.io"
SERVICE_LABEL = "kubernetes.io/service-name"

_decode = msgspec.json.decode

Address = tuple[str, int]


class NoEndpoint(Exception):
    """A Service has no endpoint for a port. The text is that of Kubernetes."""


class ServiceEndpoints(NamedTuple):
    """A Service, None if there is none, and its EndpointSlices."""

    name: str
    service: JsonObject | None
    slices: Sequence[JsonObject]

    def port(self, number: int) -> JsonObject | None:
        """Return the port of this number."""
        ports = () if self.service is None else self.service["spec"].get("ports", ())
        return next((port for port in ports if port["port"] == number), None)

    def addresses(self, number: int) -> list[Address]:
        """Return the addresses and ports that are ready behind a port; of both families, those of the Service's first.

        Raises `NoEndpoint`.
        """
        if self.service is None:
            raise NoEndpoint(f'service "{self.name}" not found')
        if self.service["spec"].get("type") == "ExternalName":
            raise NoEndpoint('unsupported service type "ExternalName"')
        port = self.port(number)
        if port is None:
            raise NoEndpoint(f'no service port {number} found for service "{self.name}"')
        name, slices = port.get("name", ""), self.slices
        found = list(_ready_addresses(filter(self._is_preferred, slices), name)) or list(_ready_addresses(slices, name))
        if not found:
            raise NoEndpoint(f'no endpoints available for service "{self.name}"')
        return found

    def by_preference(self) -> list[JsonObject]:
        """Return the slices, those of the Service's first address family first."""
        return sorted(self.slices, key=self._is_preferred, reverse=True)

    def _is_preferred(self, one: JsonObject) -> bool:
        families = () if self.service is None else self.service["spec"].get("ipFamilies") or ()
        return one.get("addressType") == next(iter(families), "")


def read_endpoints(store: Store, namespace: str, name: str) -> ServiceEndpoints:
    """Read a Service and its EndpointSlices."""
    record = store.get(Key("services", namespace, name))
    owned = (one for one in store.list(SLICES, namespace) if one.facts.labels.get(SERVICE_LABEL) == name)
    return ServiceEndpoints(
        name, None if record is None else _decode(record.value), [_decode(one.value) for one in owned]
    )


def slice_port(one: JsonObject, name: str) -> int:
    """Return the number of a slice's port with this name, 0 if it has none."""
    ports = one.get("ports") or ()
    return next((port["port"] for port in ports if port.get("name", "") == name and port.get("port")), 0)


def ready_endpoints(one: JsonObject) -> list[JsonObject]:
    """Return the endpoints of a slice but those that are not ready."""
    return [e for e in one.get("endpoints") or () if (e.get("conditions") or {}).get("ready") is not False]


def _ready_addresses(slices: Iterable[JsonObject], port_name: str) -> Iterator[Address]:
    for one in slices:
        number = slice_port(one, port_name)
        for endpoint in ready_endpoints(one) if number else ():
            yield from ((address, number) for address in endpoint["addresses"][:1])
