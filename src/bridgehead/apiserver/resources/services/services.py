"""Service (core/v1): its entry in the table, its columns, and the order in which its rules are applied."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from bridgehead.apiserver.field import Field, FieldError
from bridgehead.apiserver.resource import Column, Companion, JsonObject, Resource, Strategy, copied
from bridgehead.apiserver.resources.shared.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    at,
    format_labels,
    selectable,
    text_column,
)
from bridgehead.objects.names import check_dns1123_label

from .cluster_ip_ranges import ServiceRanges, address_companions
from .service_allocation import PortRange, addresses_of, allocate_addresses, allocate_ports, claims_of
from .service_defaults import drop_for_type, keep_allocated, link_cluster_ips, set_defaults
from .service_families import complete_families, set_families
from .service_ingress import validate_load_balancer_ip, validate_status_addresses
from .service_source_ranges import validate_new_source_ranges
from .service_types import needs_cluster_ip
from .service_validation import validate_cluster_ips, validate_service, validate_service_update
from .service_warnings import warn_of_service


def _external_ip_cell(service: JsonObject, now: float) -> str:
    spec = service.get("spec", {})
    external = [str(address) for address in spec.get("externalIPs", ())]
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(external) or NONE
        case "LoadBalancer":
            ingress = at(service, "status", "loadBalancer", "ingress") or ()
            given = sorted({str(one.get("ip") or one.get("hostname") or "") for one in ingress} - {""})
            return ",".join(given + external) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
    return UNKNOWN


def _ports_cell(service: JsonObject, now: float) -> str:
    def piece(port: JsonObject) -> str:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port', 0)}{node_port}/{port.get('protocol', 'TCP')}"

    return ",".join(piece(port) for port in at(service, "spec", "ports") or ()) or NONE


_COLUMNS = (
    NAME,
    text_column("Type", "spec", "type"),
    text_column("Cluster-IP", "spec", "clusterIP", empty=NONE),
    Column("External-IP", _external_ip_cell),
    Column("Port(s)", _ports_cell),
    AGE,
    Column("Selector", lambda service, now: format_labels(at(service, "spec", "selector")), priority=1),
)


class ServiceStrategy(Strategy):
    """The hooks of Service."""

    def __init__(self, ranges: ServiceRanges, ports: PortRange, random: Random) -> None:
        self.ranges = ranges
        self._ports = ports
        self._random = random

    def default(self, obj: JsonObject) -> None:
        set_defaults(obj)

    def default_on_read(self, obj: JsonObject) -> None:
        spec = obj["spec"]
        link_cluster_ips(spec, None)
        complete_families(spec, self.ranges.families[0])
        if not needs_cluster_ip(spec):
            spec.pop("internalTrafficPolicy", None)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"loadBalancer": {}}
        link_cluster_ips(obj["spec"], None)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = copied(old.get("spec", {}))
            return
        obj["status"] = old.get("status", {"loadBalancer": {}})
        spec, old_spec = obj["spec"], old.get("spec", {})
        keep_allocated(spec, old_spec)
        link_cluster_ips(spec, old_spec)
        drop_for_type(spec, old_spec)
        if spec.get("type") != "LoadBalancer":
            # The load balancer controller releases these addresses later; the Service has lost them now.
            obj["status"] = {**obj["status"], "loadBalancer": {}}

    def allocate(self, obj: JsonObject, old: JsonObject | None, is_claimed: Callable[[str], bool]) -> list[FieldError]:
        spec = Field(obj).at("spec")
        old_spec = None if old is None else old.get("spec", {})
        held = frozenset() if old_spec is None else claims_of(old_spec)

        def is_foreign(claim: str) -> bool:
            return claim not in held and is_claimed(claim)

        validate_cluster_ips(spec, old_spec)
        if not spec.errors:
            set_families(spec, old_spec, self.ranges.families)
        if not spec.errors:
            allocate_addresses(spec, old_spec, self.ranges, is_foreign, self._random)
        if not spec.errors:
            allocate_ports(spec, old_spec, self._ports, is_claimed, self._random)
        return spec.errors

    def claims(self, obj: JsonObject) -> frozenset[str]:
        return claims_of(obj.get("spec", {}))

    def companions(self, obj: JsonObject) -> Sequence[Companion]:
        return address_companions(obj, addresses_of(obj.get("spec", {})))

    def validate(self, obj: Field) -> None:
        validate_service(obj)

    def validate_create(self, obj: Field) -> None:
        validate_load_balancer_ip(obj.at("spec"), {})
        validate_status_addresses(obj, {}, self.ranges.all)
        validate_new_source_ranges(obj, {})

    def validate_update(self, obj: Field, old: JsonObject, subresource: str) -> None:
        spec, old_spec = obj.at("spec", {}), old.get("spec", {})
        validate_service_update(spec, old_spec)
        validate_load_balancer_ip(spec, old_spec)
        validate_status_addresses(obj, old, self.ranges.all)
        validate_new_source_ranges(obj, old)

    def warnings(self, obj: JsonObject) -> list[str]:
        return warn_of_service(obj)


def service_resource(
    service_cidrs: Sequence[str], node_port_range: tuple[int, int], random: Random | None = None
) -> Resource:
    """Return the entry of Service for a cluster with these ranges. Raises ValueError for malformed ranges."""
    strategy = ServiceStrategy(ServiceRanges(service_cidrs), PortRange(*node_port_range), random or Random())
    return Resource(
        group="",
        version="v1",
        kind="Service",
        plural="services",
        singular="service",
        namespaced=True,
        short_names=("svc",),
        categories=("all",),
        subresources=("status", "proxy"),
        columns=_COLUMNS,
        strategy=strategy,
        selectable={
            "spec.clusterIP": selectable("spec", "clusterIP"),
            "spec.type": selectable("spec", "type"),
        },
        returns_deleted=True,
        is_created_by_update=True,
        check_name=check_dns1123_label,
    )
