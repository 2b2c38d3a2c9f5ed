"""Endpoints (core/v1): its entry in the table."""

from __future__ import annotations

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1123_subdomain

from .columns import AGE, NAME, NONE, shorten


def _join_host_port(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _endpoints_cell(endpoints: JsonObject, now: float) -> str:
    subsets = endpoints.get("subsets", ())
    if not subsets:
        return NONE
    shown: list[str] = []
    for subset in subsets:
        addresses = [str(address.get("ip", "")) for address in subset.get("addresses", ())]
        if ports := subset.get("ports", ()):
            shown.extend(_join_host_port(address, port.get("port", 0)) for port in ports for address in addresses)
        else:
            shown.extend(addresses)  # a headless Service without ports
    return shorten(shown, empty="")


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Endpoints",
    plural="endpoints",
    singular="endpoints",
    namespaced=True,
    short_names=("ep",),
    columns=(NAME, Column("Endpoints", _endpoints_cell), AGE),
    check_name=check_dns1123_subdomain,
)
