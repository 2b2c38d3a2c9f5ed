"""EndpointSlice (discovery.k8s.io/v1): its entry in the table, its defaults and its rules.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `pkg/apis/discovery/validation`.
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import (
    IPV4,
    IPV6,
    check_endpoint_ip,
    family_of,
    is_ordinary_ipv4,
    warn_of_ip,
)
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, UNSET, shorten, text_column
from bridgehead.apiserver.resources.shared.ports import validate_endpoint_port
from bridgehead.objects.names import check_dns1123_label, check_dns1123_subdomain, check_label_value


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

    def validate(self, obj: JsonObject) -> list[FieldError]:
        type_ = obj.get("addressType", "")
        errors = field.one_of("addressType", type_, _ADDRESS_TYPES) if type_ else [field.required("addressType")]
        endpoints = obj.get("endpoints", ())
        if len(endpoints) > _MAX_ENDPOINTS:
            return [*errors, field.too_many("endpoints", len(endpoints), _MAX_ENDPOINTS)]
        for index, endpoint in enumerate(endpoints):
            errors.extend(_validate_endpoint(f"endpoints[{index}]", endpoint, type_))
        return [*errors, *_validate_ports(obj.get("ports", ()))]

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        if obj.get("addressType") == old.get("addressType"):
            return []
        return [field.invalid("addressType", obj.get("addressType"), field.IMMUTABLE)]


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


def _validate_endpoint(path: str, endpoint: JsonObject, address_type: str) -> list[FieldError]:
    addresses = endpoint.get("addresses", ())
    errors = []
    if not addresses:
        errors.append(field.required(f"{path}.addresses", "must contain at least 1 address"))
    elif len(addresses) > _MAX_ADDRESSES:
        errors.append(field.too_many(f"{path}.addresses", len(addresses), _MAX_ADDRESSES))
    for index, address in enumerate(addresses):
        if reasons := _check_address(address, address_type):
            errors.extend(field.invalid_for(f"{path}.addresses[{index}]", address, reasons))
        if index and address in addresses[:index]:
            errors.append(field.duplicate(f"{path}.addresses[{index}]", address))
    if (node := endpoint.get("nodeName")) is not None and (reasons := check_dns1123_subdomain(node)):
        errors.extend(field.invalid_for(f"{path}.nodeName", node, reasons))
    if (hostname := endpoint.get("hostname")) is not None:
        errors.extend(field.invalid_for(f"{path}.hostname", hostname, check_dns1123_label(hostname)))
    if hints := endpoint.get("hints"):
        errors.extend(_validate_hints(f"{path}.hints", hints))
    return errors


def _check_address(address: str, address_type: str) -> Sequence[str]:
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


def _validate_hints(path: str, hints: JsonObject) -> list[FieldError]:
    errors = []
    for kind in ("forZones", "forNodes"):
        wanted = hints.get(kind, ())
        if len(wanted) > _MAX_HINTS:
            errors.append(field.too_many(f"{path}.{kind}", len(wanted), _MAX_HINTS))
            continue
        seen: set[str] = set()
        for index, hint in enumerate(wanted):
            item, name = f"{path}.{kind}[{index}].name", hint.get("name", "")
            if name in seen:
                errors.append(field.duplicate(item, name))
            seen.add(name)
            errors.extend(field.invalid_for(item, name, check_label_value(name)))
    return errors


def _validate_ports(ports: Sequence[JsonObject]) -> list[FieldError]:
    if len(ports) > _MAX_PORTS:
        return [field.too_many("ports", len(ports), _MAX_PORTS)]
    errors = []
    names: set[str] = set()
    for index, port in enumerate(ports):
        path, name = f"ports[{index}]", port.get("name", "")
        if name in names:
            errors.append(field.duplicate(f"{path}.name", name))
        names.add(name)
        errors.extend(field.errors_below(path, validate_endpoint_port, port, needs_name=False))
    return errors


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
