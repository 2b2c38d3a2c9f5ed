"""Service (core/v1): its entry in the table, its columns, and the order in which its rules are applied.

The rules themselves are in `service_transitions`, `service_families`, `service_allocation`, `service_ingress` and
`service_validation`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from random import Random

from bridgehead.apiserver.resource import Column, FieldError, JsonObject, Resource, Strategy
from bridgehead.objects.names import check_dns1035_label

from .columns import AGE, NAME, NONE, UNKNOWN, at, format_labels, selectable, text_column
from .service_allocation import AddressRange, PortRange, allocate_addresses, allocate_ports, claims_of
from .service_families import set_families
from .service_ingress import check_load_balancer_ip, check_status_addresses
from .service_transitions import drop_for_type, keep_allocated, link_cluster_ips, set_defaults
from .service_validation import validate_cluster_ips, validate_service, validate_service_update
from .warnings import warn_of_service


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
    """See the module's docstring. `ranges` are one or two, of different families, the default one first."""

    def __init__(self, ranges: Sequence[AddressRange], ports: PortRange, random: Random) -> None:
        self._ranges = {one.family: one for one in ranges}
        if len(self._ranges) != len(ranges) or not ranges:
            raise ValueError("Services need one address range, or two of different families")
        self._ports = ports
        self._random = random

    def default(self, obj: JsonObject) -> None:
        set_defaults(obj)

    def prepare_create(self, obj: JsonObject) -> None:
        obj["status"] = {"loadBalancer": {}}
        link_cluster_ips(obj["spec"], None)

    def prepare_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> None:
        if subresource == "status":
            obj["spec"] = copy.deepcopy(old.get("spec", {}))
            return
        obj["status"] = old.get("status", {"loadBalancer": {}})
        spec, old_spec = obj["spec"], old.get("spec", {})
        keep_allocated(spec, old_spec)
        link_cluster_ips(spec, old_spec)
        drop_for_type(spec, old_spec)
        if spec.get("type") != "LoadBalancer":
            # Its addresses are given back a little later, but they are no longer this Service's.
            obj["status"] = {**obj["status"], "loadBalancer": {}}

    def allocate(self, obj: JsonObject, old: JsonObject | None, is_claimed: Callable[[str], bool]) -> list[FieldError]:
        spec = obj["spec"]
        old_spec = None if old is None else old.get("spec", {})
        held = frozenset() if old_spec is None else claims_of(old_spec)

        def is_foreign(claim: str) -> bool:
            return claim not in held and is_claimed(claim)

        errors = []
        if not validate_cluster_ips(spec, old_spec):  # which `validate` reports
            errors = set_families(spec, old_spec, tuple(self._ranges)) or allocate_addresses(
                spec, old_spec, self._ranges, is_foreign, self._random
            )
        errors += check_load_balancer_ip(spec, old_spec)
        errors += check_status_addresses(obj, old, self._ranges.values())
        return errors + allocate_ports(spec, self._ports, is_foreign, self._random)

    def claims(self, obj: JsonObject) -> frozenset[str]:
        return claims_of(obj.get("spec", {}))

    def validate(self, obj: JsonObject) -> list[FieldError]:
        return validate_service(obj)

    def validate_update(self, obj: JsonObject, old: JsonObject, subresource: str) -> list[FieldError]:
        return validate_service_update(obj.get("spec", {}), old.get("spec", {}))

    def warnings(self, obj: JsonObject) -> list[str]:
        return warn_of_service(obj)


def service_resource(
    service_cidrs: Sequence[str], node_port_range: tuple[int, int], random: Random | None = None
) -> Resource:
    """The entry of Service for a cluster with these ranges. Raises ValueError when they are none."""
    strategy = ServiceStrategy(
        [AddressRange(cidr) for cidr in service_cidrs], PortRange(*node_port_range), random or Random()
    )
    return Resource(
        group="",
        version="v1",
        kind="Service",
        plural="services",
        singular="service",
        namespaced=True,
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        columns=_COLUMNS,
        strategy=strategy,
        selectable={
            "spec.clusterIP": selectable("spec", "clusterIP"),
            "spec.type": selectable("spec", "type"),
        },
        check_name=check_dns1035_label,
    )
