"""The objects that a replay writes for recorded ones. Only the fields below are taken from them.

Pods are objects with their recorded status, which no scheduler places: `stand_ins` has those that run.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any

Json = dict[str, Any]

MANAGER = "bridgehead-replay"
SELECTOR_ANNOTATION = "bridgehead/recorded-selector"
NODE_ANNOTATION = "bridgehead/recorded-node"

_MOST_CONTAINERS = 50
_IMAGE = "registry.k8s.io/pause:3.10"
_SERVICE_FIELDS = (
    "type",
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "sessionAffinity",
    "sessionAffinityConfig",
    "externalTrafficPolicy",
    "internalTrafficPolicy",
    "trafficDistribution",
    "externalIPs",
    "externalName",
    "loadBalancerIP",
    "loadBalancerClass",
    "loadBalancerSourceRanges",
    "healthCheckNodePort",
    "publishNotReadyAddresses",
    "allocateLoadBalancerNodePorts",
)
_SERVICE_ANNOTATIONS = ("service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints")
_PORT_FIELDS = ("name", "protocol", "port", "nodePort", "appProtocol", "targetPort")
_ENDPOINT_FIELDS = ("addresses", "conditions", "hostname", "zone", "hints")
_CONDITION_FIELDS = ("type", "status", "reason")
_NODE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


def node_body(recorded: str, labels: Mapping[str, str]) -> Json:
    kept = {key: labels.get(key) for key in _NODE_LABELS}
    return {"metadata": {"labels": kept, "annotations": {NODE_ANNOTATION: recorded}}}


def service_cidr_body(obj: Json, occupied: Iterable[Any]) -> Json | None:
    """Return a ServiceCIDR; None if it overlaps with `occupied` networks, or is invalid."""
    cidrs = []
    for text in as_list(as_map(obj.get("spec")).get("cidrs")):
        try:
            network = ipaddress.ip_network(text) if isinstance(text, str) else None
        except ValueError:
            return None
        if network is None or any(n.version == network.version and n.overlaps(network) for n in occupied):
            return None
        cidrs.append(text)
    return {"spec": {"cidrs": cidrs}} if cidrs else None


def service_body(obj: Json, *, has_selector: bool) -> Json:
    """Return a Service. `has_selector`: it keeps its selector, otherwise an annotation has it."""
    spec = as_map(obj.get("spec"))
    new = picked(spec, _SERVICE_FIELDS)
    new["ports"] = [picked(port, _PORT_FIELDS) for port in as_list(spec.get("ports")) if isinstance(port, dict)]
    annotations = picked(strings(as_map(obj.get("metadata")).get("annotations")), _SERVICE_ANNOTATIONS)
    if selector := strings(spec.get("selector")):
        if has_selector:
            new["selector"] = selector
        else:
            annotations[SELECTOR_ANNOTATION] = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return {"spec": new} | ({"metadata": {"annotations": annotations}} if annotations else {})


def slice_body(obj: Json, nodes: Mapping[str, str]) -> Json:
    """Return an EndpointSlice with the recorded addresses. `nodes`: recorded node -> node of the lab."""
    endpoints = []
    for endpoint in endpoints_of(obj):
        new = picked(endpoint, _ENDPOINT_FIELDS)
        node = endpoint.get("nodeName")
        if isinstance(node, str):
            new["nodeName"] = nodes.get(node, node)
        endpoints.append(new)
    ports = [picked(port, _PORT_FIELDS[:3]) for port in as_list(obj.get("ports")) if isinstance(port, dict)]
    return {"addressType": obj.get("addressType"), "endpoints": endpoints, "ports": ports}


def endpoints_of(obj: Json) -> list[Json]:
    """Return the endpoints of an EndpointSlice."""
    return [endpoint for endpoint in as_list(obj.get("endpoints")) if isinstance(endpoint, dict)]


def object_pod_body(obj: Json) -> Json:
    """Return a pod that never runs."""
    containers = [
        {"name": f"recorded-{number}", "image": _IMAGE, "ports": container_ports(container)}
        for number, container in enumerate(_containers(obj), 1)
    ]
    return {
        "spec": {
            "schedulerName": MANAGER,  # no scheduler has this name
            "automountServiceAccountToken": False,
            "containers": containers or [{"name": "recorded-1", "image": _IMAGE}],
        }
    }


def object_pod_status(obj: Json) -> Json:
    status = as_map(obj.get("status"))
    new = picked(status, ("phase", "podIP", "podIPs"))
    new["conditions"] = [picked(each, _CONDITION_FIELDS) for each in conditions_of(obj)]
    ready = {
        each.get("name")
        for each in as_list(status.get("containerStatuses"))
        if isinstance(each, dict) and each.get("ready") is True and isinstance(each.get("name"), str)
    }
    new["containerStatuses"] = [
        _container_status(number, isinstance(name := as_map(container).get("name"), str) and name in ready)
        for number, container in enumerate(_containers(obj), 1)
    ]
    return new


def _container_status(number: int, is_ready: bool) -> Json:
    status = {"name": f"recorded-{number}", "ready": is_ready, "restartCount": 0, "image": _IMAGE, "imageID": ""}
    return status | ({"state": {"running": {}}} if is_ready else {})  # kubectl counts containers that run


def _containers(pod: Json) -> list[Any]:
    return as_list(as_map(pod.get("spec")).get("containers"))[:_MOST_CONTAINERS]


def container_ports(container: Any) -> list[Json]:
    """Return the ports of a container, without host ports."""
    ports = as_list(as_map(container).get("ports"))
    return [picked(port, ("name", "containerPort", "protocol")) for port in ports if isinstance(port, dict)]


def pod_ports(pod: Json) -> list[Json]:
    """Return the ports of all containers of a pod."""
    return [port for container in _containers(pod) for port in container_ports(container)]


def conditions_of(obj: Json) -> list[Json]:
    return [each for each in as_list(as_map(obj.get("status")).get("conditions")) if isinstance(each, dict)]


def picked(value: Mapping[str, Any], fields: Iterable[str]) -> Json:
    return {field: value[field] for field in fields if value.get(field) is not None}


def as_map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def strings(value: Any) -> dict[str, str]:
    return {key: each for key, each in as_map(value).items() if isinstance(each, str)}
