"""Endpoints (core/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateEndpoints`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain

from .shared.address_rules import check_endpoint_ip, warn_of_ip
from .shared.columns import AGE, NAME, NONE, shorten
from .shared.port_rules import validate_endpoint_port


def _endpoints_cell(endpoints: JsonObject, now: float) -> str:
    subsets = endpoints.get("subsets", ())
    if not subsets:
        return NONE
    shown: list[str] = []
    for subset in subsets:
        addresses = [str(address.get("ip", "")) for address in subset.get("addresses", ())]
        if ports := subset.get("ports", ()):
            shown.extend(join_host_port(address, port.get("port", 0)) for port in ports for address in addresses)
        else:
            shown.extend(addresses)  # a headless Service without ports
    return shorten(shown, empty="")


_MANAGED_BY = "endpoints.kubernetes.io/managed-by"
_CONTROLLER = "endpoint-controller"  # writes addresses in canonical form only


class EndpointsStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        for subset in obj.get("subsets", ()):
            for port in subset.get("ports", ()):
                port["protocol"] = port.get("protocol") or "TCP"

    def validate(self, obj: Field) -> None:
        obj.at("subsets").must_all_obey(_validate_subset)

    def warnings(self, obj: JsonObject) -> list[str]:
        if obj.get("metadata", {}).get("labels", {}).get(_MANAGED_BY) == _CONTROLLER:
            return []
        return [
            warning
            for index, subset in enumerate(obj.get("subsets", ()))
            for name in ("addresses", "notReadyAddresses")
            for number, address in enumerate(subset.get(name, ()))
            for warning in warn_of_ip(f"subsets[{index}].{name}[{number}].ip", address.get("ip", ""))
        ]


def _validate_subset(subset: Field) -> None:
    ready, not_ready, ports = subset.at("addresses"), subset.at("notReadyAddresses"), subset.at("ports", ())
    if not ready and not not_ready:
        subset.required("must specify `addresses` or `notReadyAddresses`")
    for address in (*ready.each(), *not_ready.each()):
        _validate_address(address)
    for port in ports.each():
        validate_endpoint_port(port, needs_name=len(ports.value) > 1)
        port.at("port").must_exist()


def _validate_address(address: Field) -> None:
    address.at("ip", "").must_pass(check_endpoint_ip)
    address.if_set("hostname").must_pass(check_dns1123_label)
    address.at("nodeName").must_pass(check_dns1123_subdomain)


RESOURCE = Resource(
    group="",
    version="v1",
    kind="Endpoints",
    plural="endpoints",
    singular="endpoints",
    namespaced=True,
    short_names=("ep",),
    warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    strategy=EndpointsStrategy(),
    columns=(NAME, Column("Endpoints", _endpoints_cell), AGE),
    is_created_by_update=True,
    check_name=check_dns1123_subdomain,
)
