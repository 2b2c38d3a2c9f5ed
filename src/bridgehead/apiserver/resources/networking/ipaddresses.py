"""IPAddress (networking.k8s.io/v1): its entry in the table and its rules.

The object of a Service's address is written with the Service (`services.cluster_ip_ranges`). Other users of an address
create one themselves, which keeps Services from getting it.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateIPAddress`, `ValidateIPAddressUpdate`.
"""

from __future__ import annotations

from bridgehead.apiserver.field import Field
from bridgehead.apiserver.resource import Column, JsonObject, Resource, Strategy
from bridgehead.apiserver.resources.shared.address_rules import check_ip, parse_ip
from bridgehead.apiserver.resources.shared.columns import NAME, NONE, at
from bridgehead.objects.names import check_dns1123_subdomain, check_path_segment


class IPAddressStrategy(Strategy):
    def claims(self, obj: JsonObject) -> frozenset[str]:
        # A Service holds its address itself, also when this object is missing for a moment.
        parent = at(obj, "spec", "parentRef") or {}
        if parent.get("resource") == "services" and not parent.get("group"):
            return frozenset()
        name = at(obj, "metadata", "name") or ""
        return frozenset({f"clusterip/{parse_ip(name) or name}"})

    def validate_create(self, obj: Field) -> None:
        parent = obj.at("spec").at("parentRef")
        if not parent.must_exist():
            return
        parent.if_set("group").must_pass(check_dns1123_subdomain)
        for name in ("resource", "name"):
            parent.at(name).must_be_set_and_pass(check_path_segment)
        parent.if_set("namespace").must_pass(check_path_segment)

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        obj.at("spec").at("parentRef").must_not_change(at(old, "spec", "parentRef"))


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
