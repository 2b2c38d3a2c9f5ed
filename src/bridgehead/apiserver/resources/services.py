"""Service (core/v1): its entry in the table."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.apiserver.resource import Column, JsonObject, Resource
from bridgehead.objects.names import check_dns1035_label

from .columns import AGE, NAME, NONE, UNKNOWN, at, format_labels, selectable, text_column


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


def service_resource(service_cidrs: Sequence[str], node_port_range: tuple[int, int]) -> Resource:
    """The entry of Service for a cluster with these ranges."""
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
        selectable={
            "spec.clusterIP": selectable("spec", "clusterIP"),
            "spec.type": selectable("spec", "type"),
        },
        check_name=check_dns1035_label,
    )
