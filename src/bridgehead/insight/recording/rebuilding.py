"""The objects that a replay creates for a recording: those from which proxies program their nodes.

The author of a recording may be unknown, so nothing of it runs. Services have no selector, and their EndpointSlices are
those that were recorded. Pods are objects with their recorded status, which no scheduler places; only names, labels,
ports and status are taken from them. Of Services and EndpointSlices, only the fields below are taken. Pods of
kube-system are left out, because the lab's own workloads there would adopt them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import msgspec

from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICE_CIDRS, SERVICES, Kind
from bridgehead.objects.meta import Object, ObjectKey

from .format import ObjectEntry, Recording

Json = dict[str, Any]
T = TypeVar("T", bound=Object)

MANAGER = "bridgehead-replay"
SELECTOR_ANNOTATION = "bridgehead/recorded-selector"
NODE_ANNOTATION = "bridgehead/recorded-node"
MOST_OBJECTS = 20_000  # of one moment: more make no lab

_SYSTEM = "kube-system"
_MOST_CONTAINERS = 50
_IMAGE = "registry.k8s.io/pause:3.10"
_SERVICE_NAME = "kubernetes.io/service-name"
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
_PORT_FIELDS = ("name", "protocol", "port", "nodePort", "appProtocol", "targetPort")
_ENDPOINT_FIELDS = ("addresses", "conditions", "hostname", "zone", "hints")
_CONDITION_FIELDS = ("type", "status", "reason")
_NODE_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")
_REPLAYED: dict[str, Kind[Any]] = {kind.name: kind for kind in (SERVICE_CIDRS, SERVICES, ENDPOINT_SLICES, PODS, NODES)}


class Action(NamedTuple):
    """A write of an object at a time of the recording. `body` None: its deletion. `status`: written on its own."""

    at: float
    kind: Kind[Any]
    namespace: str
    name: str
    body: Json | None = None
    status: Json | None = None


class Plan(NamedTuple):
    """`actions` in their order. `namespaces` are created before. `nodes`: recorded node -> node of the lab."""

    actions: tuple[Action, ...]
    namespaces: tuple[str, ...]
    nodes: Mapping[str, str]


class TooLarge(Exception):
    """The recording has more objects than a lab can have."""


def recorded_nodes(recording: Recording) -> tuple[str, ...]:
    """Return the names of all nodes, sorted."""
    return tuple(
        sorted({e.object["metadata"]["name"] for e in _object_entries(recording) if e.object["kind"] == "Node"})
    )


def plan_replay(
    recording: Recording, lab_nodes: Iterable[str], existing: Collection[ObjectKey], occupied: Iterable[str]
) -> Plan:
    """Return the writes that rebuild a recording. Raises TooLarge.

    Nodes that the lab lacks keep their names, as nodes elsewhere. Services that the lab has already (`existing`) stay
    as they are. ServiceCIDRs that overlap with `occupied` networks are left out.
    """
    nodes = dict(zip(recorded_nodes(recording), lab_nodes, strict=False))
    networks = [ipaddress.ip_network(text) for text in occupied]
    actions: list[Action] = []
    alive: set[tuple[str, ObjectKey]] = set()
    for entry in _object_entries(recording):
        action = _action(entry, nodes, existing, networks)
        if action is None:
            continue
        identity = (action.kind.plural, ObjectKey(action.namespace, action.name))
        alive.discard(identity) if action.body is None else alive.add(identity)
        if len(alive) > MOST_OBJECTS:
            raise TooLarge(f"more than {MOST_OBJECTS} objects")
        actions.append(action)
    namespaces = sorted({action.namespace for action in actions if action.namespace})
    return Plan(tuple(actions), tuple(namespaces), nodes)


def _object_entries(recording: Recording) -> Iterable[ObjectEntry]:
    return (entry for entry in recording.entries if isinstance(entry, ObjectEntry))


def _action(
    entry: ObjectEntry, nodes: Mapping[str, str], existing: Collection[ObjectKey], networks: Iterable[Any]
) -> Action | None:
    obj = entry.object
    kind = _REPLAYED.get(obj["kind"])
    if kind is None:
        return None
    metadata = obj["metadata"]
    namespace, name = metadata.get("namespace", ""), metadata["name"]
    labels = _strings(metadata.get("labels"))
    service = name if kind is SERVICES else labels.get(_SERVICE_NAME, "")
    if kind in (SERVICES, ENDPOINT_SLICES) and ObjectKey(namespace, service) in existing:
        return None
    if kind is PODS and namespace == _SYSTEM:
        return None
    if kind is NODES:
        if name not in nodes or entry.change == "deleted":
            return None
        return Action(entry.at, kind, "", nodes[name], _node(name, labels))
    if entry.change == "deleted":
        return Action(entry.at, kind, namespace, name)
    if kind is SERVICE_CIDRS:
        body, status = _service_cidr(_map(obj.get("spec")), networks), None
    elif kind is SERVICES:
        body, status = _service(obj), _picked(_map(obj.get("status")), ("loadBalancer",)) or None
    elif kind is PODS:
        body, status = _pod(_map(obj.get("spec"))), _pod_status(obj)
    else:
        body, status = _slice(obj, nodes), None
        labels[MANAGED_BY_LABEL] = MANAGER  # the controllers then leave it alone
    if body is None:
        return None
    new = body.setdefault("metadata", {})
    new.update({"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {}))
    return Action(entry.at, kind, namespace, name, body, status)


def _node(recorded: str, labels: Mapping[str, str]) -> Json:
    kept = {key: labels.get(key) for key in _NODE_LABELS}
    return {"metadata": {"labels": kept, "annotations": {NODE_ANNOTATION: recorded}}}


def _service_cidr(spec: Json, occupied: Iterable[Any]) -> Json | None:
    cidrs = []
    for text in _list(spec.get("cidrs")):
        try:
            network = ipaddress.ip_network(text) if isinstance(text, str) else None
        except ValueError:
            return None
        if network is None or any(n.version == network.version and n.overlaps(network) for n in occupied):
            return None
        cidrs.append(text)
    return {"spec": {"cidrs": cidrs}} if cidrs else None


def _service(obj: Json) -> Json:
    spec = _map(obj.get("spec"))
    new = _picked(spec, _SERVICE_FIELDS)
    new["ports"] = [_picked(port, _PORT_FIELDS) for port in _list(spec.get("ports")) if isinstance(port, dict)]
    body: Json = {"spec": new}
    if selector := _strings(spec.get("selector")):
        text = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
        body["metadata"] = {"annotations": {SELECTOR_ANNOTATION: text}}
    return body


def _slice(obj: Json, nodes: Mapping[str, str]) -> Json:
    endpoints = []
    for endpoint in _list(obj.get("endpoints")):
        if isinstance(endpoint, dict):
            new = _picked(endpoint, _ENDPOINT_FIELDS)
            node = endpoint.get("nodeName")
            if isinstance(node, str):
                new["nodeName"] = nodes.get(node, node)
            endpoints.append(new)
    ports = [_picked(port, _PORT_FIELDS[:3]) for port in _list(obj.get("ports")) if isinstance(port, dict)]
    return {"addressType": obj.get("addressType"), "endpoints": endpoints, "ports": ports}


def _pod(spec: Json) -> Json:
    containers = []
    for number, container in enumerate(_list(spec.get("containers"))[:_MOST_CONTAINERS], 1):
        ports = [
            _picked(port, ("name", "containerPort", "protocol"))
            for port in _list(_map(container).get("ports"))
            if isinstance(port, dict)
        ]
        containers.append({"name": f"recorded-{number}", "image": _IMAGE, "ports": ports})
    return {
        "spec": {
            "schedulerName": MANAGER,  # no scheduler has this name: the pod never runs
            "automountServiceAccountToken": False,
            "containers": containers or [{"name": "recorded-1", "image": _IMAGE}],
        }
    }


def _pod_status(obj: Json) -> Json:
    status = _map(obj.get("status"))
    new = _picked(status, ("phase", "podIP", "podIPs"))
    conditions = [each for each in _list(status.get("conditions")) if isinstance(each, dict)]
    new["conditions"] = [_picked(each, _CONDITION_FIELDS) for each in conditions]
    ready = {
        each.get("name")
        for each in _list(status.get("containerStatuses"))
        if isinstance(each, dict) and each.get("ready") is True and isinstance(each.get("name"), str)
    }
    containers = _list(_map(obj.get("spec")).get("containers"))[:_MOST_CONTAINERS]
    new["containerStatuses"] = [
        _container_status(number, isinstance(name := _map(container).get("name"), str) and name in ready)
        for number, container in enumerate(containers, 1)
    ]
    return new


def _container_status(number: int, is_ready: bool) -> Json:
    status = {"name": f"recorded-{number}", "ready": is_ready, "restartCount": 0, "image": _IMAGE, "imageID": ""}
    return status | ({"state": {"running": {}}} if is_ready else {})  # kubectl counts containers that run


class State(NamedTuple):
    """Services that have Frontends, and their EndpointSlices, with the lab's node names."""

    services: dict[ObjectKey, Service]
    slices: dict[ObjectKey, EndpointSlice]


def final_state(plan: Plan) -> State:
    """Return the objects that the whole plan leaves. Invalid ones are left out: no lab takes them."""
    state = State({}, {})
    for action in plan.actions:
        key = ObjectKey(action.namespace, action.name)
        if action.kind is SERVICES:
            _put(state.services, key, action, Service)
        elif action.kind is ENDPOINT_SLICES:
            _put(state.slices, key, action, EndpointSlice)
    return state


def _put(objects: dict[ObjectKey, T], key: ObjectKey, action: Action, type: type[T]) -> None:
    objects.pop(key, None)
    if action.body is not None:
        try:
            objects[key] = msgspec.convert(
                {**action.body, **({"status": action.status} if action.status else {})}, type
            )
        except (msgspec.ValidationError, RecursionError):
            return


def _picked(value: Json, fields: Iterable[str]) -> Json:
    return {field: value[field] for field in fields if value.get(field) is not None}


def _map(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: Any) -> dict[str, str]:
    return {key: each for key, each in _map(value).items() if isinstance(each, str)}
