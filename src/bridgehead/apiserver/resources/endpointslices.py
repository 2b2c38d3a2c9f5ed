"""EndpointSlice (discovery.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/discovery/validation`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain, check_label_value

from .shared.address_rules import (
    IPV4,
    IPV6,
    check_endpoint_ip,
    family_of,
    is_ordinary_ipv4,
    warn_of_ip,
)
from .shared.columns import AGE, NAME, UNSET, shorten, text_column
from .shared.port_rules import validate_endpoint_port


def _ports_cell(endpoint_slice: JsonObject, now: float) -> str:
    ports = endpoint_slice.get("ports", ())
    return shorten([str(port.get("port", port.get("name", "*"))) for port in ports], empty=UNSET)


def _endpoints_cell(endpoint_slice: JsonObject, now: float) -> str:
    endpoints = endpoint_slice.get("endpoints", ())
    return shorten([str(a) for endpoint in endpoints for a in endpoint.get("addresses", ())], empty=UNSET)


_ADDRESS_TYPES = ("FQDN", IPV4, IPV6)
_MAX_ENDPOINTS, _MAX_ADDRESSES, _MAX_PORTS, _MAX_HINTS = 1000, 100, 20000, 8
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
# Controllers that write addresses in canonical form only.
_CONTROLLERS = ("endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io")


class EndpointSliceStrategy(Strategy):
    def default(self, obj: JsonObject) -> None:
        for port in obj.get("ports", ()):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")
        for endpoint in obj.get("endpoints", ()):
            endpoint.setdefault("conditions", {})

    def prepare_create(self, obj: JsonObject) -> None:
        _drop_topology(obj)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        _drop_topology(obj)

    def warnings(self, obj: JsonObject) -> list[str]:
        warnings = _warn_of_addresses(obj)
        if obj.get("addressType") == "FQDN":
            warnings.insert(0, "spec.addressType: FQDN endpoints are deprecated")
        return warnings

    def update_warnings(self, obj: JsonObject, old: JsonObject) -> list[str]:
        return _warn_of_addresses(obj)

    def validate(self, obj: Field) -> None:
        address_type, endpoints, ports = obj.at("addressType", ""), obj.at("endpoints"), obj.at("ports")
        if address_type.must_be_set():
            address_type.must_be_one_of(_ADDRESS_TYPES)
        if not endpoints.must_have_at_most(_MAX_ENDPOINTS):
            return
        check = partial(_check_address, address_type.value)
        endpoints.must_all_obey(_validate_endpoint, check)
        if ports.must_have_at_most(_MAX_PORTS):
            _validate_ports(ports)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("addressType").must_not_change(old.get("addressType"))


def _drop_topology(obj: JsonObject) -> None:
    """Drop the topology of endpoints, which was written with v1beta1 only."""
    for endpoint in obj.get("endpoints", ()):
        endpoint.pop("deprecatedTopology", None)


def _warn_of_addresses(obj: JsonObject) -> list[str]:
    labels = obj.get("metadata", {}).get("labels", {})
    # An IPv4 address that is valid is canonical.
    if obj.get("addressType") != IPV6 or labels.get(_MANAGED_BY) in _CONTROLLERS:
        return []
    return [
        warning
        for index, endpoint in enumerate(obj.get("endpoints", ()))
        for number, address in enumerate(endpoint.get("addresses", ()))
        for warning in warn_of_ip(f"endpoints[{index}].addresses[{number}]", address)
    ]


def _validate_endpoint(endpoint: Field, check_address: Callable[[str], Sequence[str]]) -> None:
    addresses = endpoint.at("addresses")
    if addresses.must_be_set("must contain at least 1 address"):
        addresses.must_have_at_most(_MAX_ADDRESSES)
    seen: set[str] = set()
    for address in addresses.each():
        address.must_pass(check_address)
        address.must_not_repeat(seen)
    endpoint.at("nodeName").must_pass(check_dns1123_subdomain)
    # A slice has up to a thousand endpoints: no fields are made for what most of them lack.
    if "hostname" in endpoint.value:
        endpoint.at("hostname").must_pass(check_dns1123_label)
    if "hints" in endpoint.value:
        for hints in endpoint.at("hints").those_set("forZones", "forNodes"):
            _validate_hints(hints)


def _check_address(address_type: str, address: str) -> Sequence[str]:
    if address_type == IPV4 and is_ordinary_ipv4(address):
        return ()
    if address_type == "FQDN":
        reasons = check_dns1123_subdomain(address)
        if not reasons and "." not in address:
            reasons = ["should be a domain with at least two segments separated by dots"]
        return reasons
    if address_type not in (IPV4, IPV6):
        return []
    family = family_of(address)
    if family != address_type and family in (IPV4, IPV6):
        return [f"must be an {address_type} address"]
    return check_endpoint_ip(address)


def _validate_hints(hints: Field) -> None:
    if not hints.must_have_at_most(_MAX_HINTS):
        return
    seen: set[str] = set()
    for hint in hints.each():
        name = hint.at("name", "")
        name.must_not_repeat(seen)
        name.must_pass(check_label_value)


def _validate_ports(ports: Field) -> None:
    names: set[str] = set()
    for port in ports.each():
        port.at("name", "").must_not_repeat(names)
        validate_endpoint_port(port, needs_name=False)


RESOURCE = Resource(
    group="discovery.k8s.io",
    version="v1",
    kind="EndpointSlice",
    plural="endpointslices",
    singular="endpointslice",
    namespaced=True,
    strategy=EndpointSliceStrategy(),
    columns=(
        NAME,
        text_column("AddressType", "addressType"),
        Column("Ports", _ports_cell),
        Column("Endpoints", _endpoints_cell),
        AGE,
    ),
    has_generation=True,
    counted_metadata=("labels",),
    check_name=check_dns1123_subdomain,
)
