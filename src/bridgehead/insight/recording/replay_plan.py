"""The writes by which a replay rebuilds a recording.

The author of a recording may be unknown, so nothing of it runs: `stand_ins` has what runs instead of its pods. A
Service keeps its selector, and the lab's controllers write its EndpointSlices, if all its recorded endpoints have a
stand-in. Otherwise it has no selector, and its EndpointSlices are those that were recorded, as are those of other
controllers. Workloads are not rebuilt, because their controllers would make pods.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec

from bridgehead.controllers.endpoints import slice_endpoints
from bridgehead.insight.facts.system_object_names import SYSTEM
from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import MANAGED_BY_LABEL, SERVICE_NAME_LABEL, EndpointSlice
from bridgehead.objects.kinds import ENDPOINT_SLICES, NODES, PODS, SERVICE_CIDRS, SERVICES, Kind
from bridgehead.objects.meta import Object, ObjectKey

from .format import ObjectEntry, Recording
from .replayed_objects import (
    MANAGER,
    Json,
    as_map,
    endpoints_of,
    node_body,
    object_pod_body,
    object_pod_status,
    picked,
    service_body,
    service_cidr_body,
    slice_body,
    strings,
)
from .stand_ins import Holders, Numbered, StandIn, choose_stand_ins, is_recorded_ready, steps_of

T = TypeVar("T", bound=Object)

MOST_OBJECTS = 20_000  # of one moment: more make no lab


class NetworkPolicy(Object, frozen=True, kw_only=True):
    """Only its metadata is read."""


class Ingress(Object, frozen=True, kw_only=True):
    """Only its metadata is read."""


_NETWORK_POLICIES = Kind(NetworkPolicy, "networking.k8s.io", "v1", "networkpolicies")
_INGRESSES = Kind(Ingress, "networking.k8s.io", "v1", "ingresses")
_REPLAYED: dict[str, Kind[Any]] = {
    kind.name: kind for kind in (SERVICE_CIDRS, SERVICES, ENDPOINT_SLICES, PODS, NODES, _NETWORK_POLICIES, _INGRESSES)
}


class Action(NamedTuple):
    """A write of an object at a time of the recording. `body` None: its deletion; a pod then has `grace` seconds left.

    `status`: written on its own, by a patch of type `patch`. `pods`: for each endpoint of a slice the stand-in whose
    addresses replace the recorded ones; None: these stay.
    """

    at: float
    kind: Kind[Any]
    namespace: str
    name: str
    body: Json | None = None
    status: Json | None = None
    patch: Literal["merge", "strategic"] = "merge"
    grace: int = 0
    pods: tuple[ObjectKey | None, ...] = ()


class State(NamedTuple):
    """Services that have Frontends, and their EndpointSlices, with the lab's node names."""

    services: dict[ObjectKey, Service]
    slices: dict[ObjectKey, EndpointSlice]


class Plan(NamedTuple):
    """`actions` in their order. `namespaces` are created before. `nodes`: recorded node -> node of the lab.

    `final`: the Services and EndpointSlices at the end, with the recorded addresses. `pods`: the stand-ins at the end,
    and whether each one was ready. `objects_only`: the number of recorded pods with an address that do not run.
    """

    actions: tuple[Action, ...]
    namespaces: tuple[str, ...]
    nodes: Mapping[str, str]
    final: State
    pods: Mapping[ObjectKey, bool]
    objects_only: int


class TooLarge(Exception):
    """The recording has more objects than a lab can have."""


def recorded_nodes(recording: Recording) -> tuple[str, ...]:
    """Return the names of all nodes, sorted."""
    return tuple(sorted({e.object["metadata"]["name"] for _, e in _entries(recording) if e.object["kind"] == "Node"}))


def plan_replay(
    recording: Recording,
    lab_nodes: Iterable[str],
    existing: Collection[ObjectKey],
    occupied: Iterable[str],
    most_pods: int,
) -> Plan:
    """Return the writes that rebuild a recording, with at most `most_pods` pods that run. Raises TooLarge.

    Nodes that the lab lacks keep their names, as nodes elsewhere. Services that the lab has already (`existing`) stay
    as they are. ServiceCIDRs that overlap with `occupied` networks are left out.
    """
    nodes = dict(zip(recorded_nodes(recording), lab_nodes, strict=False))
    by_kind: dict[str, list[Numbered]] = {}
    for number, entry in _entries(recording):
        by_kind.setdefault(entry.object["kind"], []).append((number, entry))
    chosen = choose_stand_ins(by_kind.get("Pod", ()), nodes, most_pods)
    holders = Holders(chosen.stand_ins)
    slices = {number: entry.object for number, entry in by_kind.get("EndpointSlice", ())}
    selecting = _selecting((entry.object for _, entry in by_kind.get("Service", ())), slices.values(), holders)
    made_by_lab = {number for number, obj in slices.items() if _is_controllers(obj) and _service_of(obj) in selecting}
    rebuilder = _Rebuilder(nodes, existing, [ipaddress.ip_network(text) for text in occupied], holders, selecting)
    running = {number for each in chosen.stand_ins for number, _ in each.life.entries}
    recorded = [
        (number, action)
        for number, entry in _entries(recording)
        if number not in running and (action := rebuilder.action(entry)) is not None
    ]
    final = _final_state(action for _, action in recorded)
    numbered = [(number, action) for number, action in recorded if number not in made_by_lab]
    served = holders.served_ports(slices.values())
    pods: dict[ObjectKey, bool] = {}
    for stand_in in chosen.stand_ins:
        steps = _stand_in_actions(stand_in, served.get(stand_in.life.key, ()))
        numbered += steps
        last = steps[-1][1]
        pods.pop(stand_in.life.key, None)
        if last.body is not None:
            pods[stand_in.life.key] = is_recorded_ready(last.status)
    numbered.sort(key=lambda each: each[0])
    actions = tuple(action for _, action in numbered)
    _check_size(actions)
    namespaces = tuple(sorted({action.namespace for action in actions if action.namespace}))
    return Plan(actions, namespaces, nodes, final, pods, chosen.left_out)


def _entries(recording: Recording) -> Iterable[Numbered]:
    return ((number, each) for number, each in enumerate(recording.entries) if isinstance(each, ObjectEntry))


def _selecting(services: Iterable[Json], slices: Iterable[Json], holders: Holders) -> set[ObjectKey]:
    """Return the Services whose endpoints the lab's controllers find: those of pods that run."""
    has_selector: dict[ObjectKey, bool] = {}
    for obj in services:
        key = ObjectKey(obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        has_selector[key] = has_selector.get(key, True) and bool(strings(as_map(obj.get("spec")).get("selector")))
    selecting = {key for key, each in has_selector.items() if each}
    for obj in slices:
        namespace = obj["metadata"].get("namespace", "")
        # A pod that terminates may have ended before the recording began.
        staying = (each for each in endpoints_of(obj) if as_map(each.get("conditions")).get("terminating") is not True)
        if _is_controllers(obj) and not all(holders.holder(each, namespace) for each in staying):
            selecting.discard(_service_of(obj))
    return selecting


def _service_of(slice_: Json) -> ObjectKey:
    return ObjectKey(slice_["metadata"].get("namespace", ""), _labels(slice_).get(SERVICE_NAME_LABEL, ""))


def _labels(obj: Json) -> dict[str, str]:
    return strings(as_map(obj.get("metadata")).get("labels"))


def _is_controllers(obj: Json) -> bool:
    return _labels(obj).get(MANAGED_BY_LABEL) == slice_endpoints.MANAGER


def _check_size(actions: Iterable[Action]) -> None:
    alive: set[tuple[str, ObjectKey]] = set()
    for action in actions:
        identity = (action.kind.plural, ObjectKey(action.namespace, action.name))
        alive.discard(identity) if action.body is None else alive.add(identity)
        if len(alive) > MOST_OBJECTS:
            raise TooLarge(f"more than {MOST_OBJECTS} objects")


def _stand_in_actions(stand_in: StandIn, served: Iterable[tuple[str, int]]) -> list[tuple[int, Action]]:
    namespace, name = stand_in.life.key
    return [
        (step.number, Action(step.at, PODS, namespace, name, step.body, step.status, "strategic", step.grace))
        for step in steps_of(stand_in, served)
    ]


class _Rebuilder:
    """The writes for all entries but those of stand-ins. `selecting`: the Services that keep their selectors."""

    def __init__(
        self,
        nodes: Mapping[str, str],
        existing: Collection[ObjectKey],
        occupied: Sequence[Any],
        holders: Holders,
        selecting: Collection[ObjectKey],
    ) -> None:
        self._nodes = nodes
        self._existing = existing
        self._occupied = occupied
        self._holders = holders
        self._selecting = selecting

    def action(self, entry: ObjectEntry) -> Action | None:
        obj = entry.object
        kind = _REPLAYED.get(obj["kind"])
        if kind is None:
            return None
        metadata = obj["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        labels = strings(metadata.get("labels"))
        service = ObjectKey(namespace, name if kind is SERVICES else labels.get(SERVICE_NAME_LABEL, ""))
        if kind in (SERVICES, ENDPOINT_SLICES) and service in self._existing:
            return None
        if namespace == SYSTEM and kind not in (SERVICES, ENDPOINT_SLICES):
            return None
        if kind is NODES:
            if name not in self._nodes or entry.change == "deleted":
                return None
            return Action(entry.at, kind, "", self._nodes[name], node_body(name, labels))
        if kind is SERVICE_CIDRS:
            name = f"recorded-{name}"  # the lab's own is `kubernetes`
        if entry.change == "deleted":
            return Action(entry.at, kind, namespace, name)
        body, status = self._body(kind, obj, service)
        if body is None:
            return None
        pods: tuple[ObjectKey | None, ...] = ()
        if kind is ENDPOINT_SLICES:
            pods = tuple(self._holders.holder(each, namespace) for each in endpoints_of(obj))
            # The controllers leave slices of other managers alone.
            labels[MANAGED_BY_LABEL] = MANAGER
        new = body.setdefault("metadata", {})
        new.update({"name": name, "labels": labels} | ({"namespace": namespace} if namespace else {}))
        return Action(entry.at, kind, namespace, name, body, status, pods=pods)

    def _body(self, kind: Kind[Any], obj: Json, service: ObjectKey) -> tuple[Json | None, Json | None]:
        """Return the object without its metadata, and its status."""
        if kind is SERVICE_CIDRS:
            return service_cidr_body(obj, self._occupied), None
        if kind is SERVICES:
            status = picked(as_map(obj.get("status")), ("loadBalancer",)) or None
            return service_body(obj, has_selector=service in self._selecting), status
        if kind is PODS:
            return object_pod_body(obj), object_pod_status(obj)
        if kind is ENDPOINT_SLICES:
            return slice_body(obj, self._nodes), None
        return {"spec": as_map(obj.get("spec"))}, None


def _final_state(actions: Iterable[Action]) -> State:
    """Return the objects that all actions leave. Invalid ones are left out: no lab takes them."""
    state = State({}, {})
    for action in actions:
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
