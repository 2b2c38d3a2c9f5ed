"""EndpointSlice (discovery.k8s.io/v1): its entry in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, UNSET, shorten, text_column


def _ports_cell(endpoint_slice: JsonObject, now: float) -> str:
    ports = endpoint_slice.get("ports", ())
    return shorten([str(port.get("port", port.get("name", "*"))) for port in ports], empty=UNSET)


def _endpoints_cell(endpoint_slice: JsonObject, now: float) -> str:
    endpoints = endpoint_slice.get("endpoints", ())
    return shorten([str(a) for endpoint in endpoints for a in endpoint.get("addresses", ())], empty=UNSET)


RESOURCE = Resource(
    group="discovery.k8s.io",
    version="v1",
    kind="EndpointSlice",
    plural="endpointslices",
    singular="endpointslice",
    namespaced=True,
    columns=(
        NAME,
        text_column("AddressType", "addressType"),
        Column("Ports", _ports_cell),
        Column("Endpoints", _endpoints_cell),
        AGE,
    ),
    check_name=check_dns1123_subdomain,
)
