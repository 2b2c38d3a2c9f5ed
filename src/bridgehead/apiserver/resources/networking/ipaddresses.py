"""IPAddress (networking.k8s.io/v1): its entry in the table and its rules.

The object of a Service's address is written with the Service (`services.service_ranges`). Other users of an address
create one themselves, which keeps Services from getting it.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateIPAddress`, `ValidateIPAddressUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_ip, parse_ip
from bridgehead.apiserver.resources.shared.columns import NAME, NONE, at
from bridgehead.objects.names import check_dns1123_subdomain, check_path_segment

_PATH = "spec.parentRef"


class IPAddressStrategy(Strategy):
    def claims(self, obj: JsonObject) -> frozenset[str]:
        # A Service holds its address itself, also when this object is missing for a moment.
        parent = at(obj, "spec", "parentRef") or {}
        if parent.get("resource") == "services" and not parent.get("group"):
            return frozenset()
        name = at(obj, "metadata", "name") or ""
        return frozenset({f"clusterip/{parse_ip(name) or name}"})

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_parent(obj.get("spec", {}).get("parentRef"))

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        parent = at(obj, "spec", "parentRef")
        if parent == at(old, "spec", "parentRef"):
            return []
        return [field.invalid(_PATH, parent, field.IMMUTABLE)]


def _validate_parent(parent: JsonObject | None) -> list[FieldError]:
    if parent is None:
        return [field.required(_PATH)]
    errors = []
    if group := parent.get("group"):
        errors.extend(field.invalid_for(f"{_PATH}.group", group, check_dns1123_subdomain(group)))
    for name in ("resource", "name", "namespace"):
        if value := parent.get(name):
            errors.extend(field.invalid_for(f"{_PATH}.{name}", value, check_path_segment(value)))
        elif name != "namespace":
            errors.append(field.required(f"{_PATH}.{name}"))
    return errors


def _check_address(name: str) -> list[str]:
    reasons = check_ip(name)
    canonical = str(parse_ip(name))
    return reasons if reasons or canonical == name else [f'must be in canonical form ("{canonical}")']


def _parent_cell(address: JsonObject, now: float) -> str:
    parent = at(address, "spec", "parentRef")
    if parent is None:
        return NONE
    group = f".{parent['group']}" if parent.get("group") else ""
    resource = f"{parent.get('resource', '')}{group}".lower()
    return "/".join(part for part in (resource, parent.get("namespace", ""), str(parent.get("name", ""))) if part)


RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="IPAddress",
    plural="ipaddresses",
    singular="ipaddress",
    namespaced=False,
    short_names=("ip",),
    strategy=IPAddressStrategy(),
    columns=(NAME, Column("ParentRef", _parent_cell)),
    check_name=_check_address,
)
