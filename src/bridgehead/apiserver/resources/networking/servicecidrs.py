"""ServiceCIDR (networking.k8s.io/v1): its entry in the table and its rules.

`registry.service_cidrs` allocates from these ranges and drains them.
Pure: no I/O, no clock, no randomness. Source: Kubernetes `ValidateServiceCIDR`, `ValidateServiceCIDRUpdate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_network

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resource import CLIENT_METADATA, Column, JsonObject, Resource, StatusStrategy
from bridgehead.apiserver.resources.shared import field
from bridgehead.apiserver.resources.shared.addresses import check_canonical_cidr, is_cidr, warn_of_cidr
from bridgehead.apiserver.resources.shared.columns import AGE, NAME, at
from bridgehead.objects.names import check_dns1123_subdomain

_PATH = "spec.cidrs"


class ServiceCIDRStrategy(StatusStrategy):
    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})
        obj.setdefault("status", {})

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def validate_create(self, obj: JsonObject) -> list[FieldError]:
        return _validate_cidrs(obj.get("spec", {}))

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        cidrs, before = at(obj, "spec", "cidrs") or [], at(old, "spec", "cidrs") or []
        if len(cidrs) == len(before):
            return [
                field.invalid(f"{_PATH}[{index}]", cidr, field.IMMUTABLE)
                for index, cidr in enumerate(cidrs)
                if cidr != before[index]
            ]
        if len(before) != 1 or len(cidrs) != 2:
            return [field.invalid(_PATH, cidrs, field.IMMUTABLE)]
        # A second family may be added later.
        errors = [] if cidrs[0] == before[0] else [field.invalid(f"{_PATH}[0]", cidrs[0], field.IMMUTABLE)]
        return [*errors, *_validate_cidrs(obj["spec"])]

    def warnings(self, obj: JsonObject) -> list[str]:
        cidrs: Sequence[str] = at(obj, "spec", "cidrs") or ()
        texts = ((index, cidr) for index, cidr in enumerate(cidrs) if is_cidr(cidr))
        return [warning for index, cidr in texts for warning in warn_of_cidr(f"{_PATH}[{index}]", cidr)]


def _validate_cidrs(spec: JsonObject) -> list[FieldError]:
    cidrs = spec.get("cidrs", [])
    if not cidrs:
        return [field.required(_PATH, "at least one CIDR required")]
    if len(cidrs) > 2:
        return [field.invalid(_PATH, spec, "may only hold up to 2 values")]
    errors = []
    for index, cidr in enumerate(cidrs):
        errors.extend(field.invalid_for(f"{_PATH}[{index}]", cidr, check_canonical_cidr(cidr)))
    versions = [ip_network(cidr, strict=False).version for cidr in cidrs if is_cidr(cidr)]
    if len(versions) == 2 and versions[0] == versions[1]:
        detail = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"
        errors.append(field.invalid(_PATH, cidrs, detail))
    return errors


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
