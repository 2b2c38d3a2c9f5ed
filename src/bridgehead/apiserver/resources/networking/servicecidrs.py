"""ServiceCIDR (networking.k8s.io/v1): its entry in the table and its rules.

`registry.service_cidrs` allocates from these ranges and drains them.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateServiceCIDR`, `ValidateServiceCIDRUpdate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from bridgehead.apiserver.field import IMMUTABLE, Field
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared.address_rules import check_canonical_cidr, is_cidr, warn_of_cidr
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.objects.names import check_dns1123_subdomain


class ServiceCIDRStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        obj.setdefault("status", {})

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate_create(self, obj: Field) -> None:
        _validate_cidrs(obj.at("spec"))

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        cidrs, before = obj.at("spec").at("cidrs", []), at(old, "spec", "cidrs") or []
        grows = len(before) == 1 and len(cidrs.value) == 2  # a second family may be added later
        if not grows and len(cidrs.value) != len(before):
            cidrs.invalid(IMMUTABLE)
            return
        for cidr, old_cidr in zip(cidrs.each(), before, strict=False):
            cidr.must_not_change(old_cidr)
        if grows:
            _validate_cidrs(obj.at("spec"))

    def warnings(self, obj: JsonObject) -> list[str]:
        cidrs: Sequence[str] = at(obj, "spec", "cidrs") or ()
        texts = ((index, cidr) for index, cidr in enumerate(cidrs) if is_cidr(cidr))
        return [warning for index, cidr in texts for warning in warn_of_cidr(f"spec.cidrs[{index}]", cidr)]


def _validate_cidrs(spec: Field) -> None:
    cidrs = spec.at("cidrs", [])
    if not cidrs.must_be_set("at least one CIDR required"):
        return
    if len(cidrs.value) > 2:
        cidrs.showing(spec.value).invalid("may only hold up to 2 values")
        return
    cidrs.must_all_pass(check_canonical_cidr)
    versions = [ip_network(cidr, strict=False).version for cidr in cidrs.value if is_cidr(cidr)]
    if len(versions) == 2 and versions[0] == versions[1]:
        cidrs.invalid("may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64")


RESOURCE = Resource(
    group="networking.k8s.io",
    version="v1",
    kind="ServiceCIDR",
    plural="servicecidrs",
    singular="servicecidr",
    namespaced=False,
    subresources=("status",),
    strategy=ServiceCIDRStrategy(),
    columns=(
        NAME,
        Column("CIDRs", lambda one, now: ",".join(map(str, at(one, "spec", "cidrs") or ()))),
        AGE,
    ),
    check_name=check_dns1123_subdomain,
    kept_by_status=CLIENT_METADATA,
)
