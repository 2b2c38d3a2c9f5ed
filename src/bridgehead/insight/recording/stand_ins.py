"""Pods of a replay that run: stand-ins for the recorded pods that had an address.

A stand-in runs on the node of the lab that stands for the recorded one, and answers connections to the recorded
container ports, and to the ports of the recorded endpoints, with its pod's name. Of a recorded pod it has the name,
labels, port names, hostname and readiness; never its images, commands, volumes, privileges or networks of the host. It
is ready while the recorded pod is, by a readiness gate, and terminates as long as that did.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from bridgehead.insight.facts.system_object_names import SYSTEM
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey

from .format import ObjectEntry
from .replayed_objects import (
    Json,
    as_list,
    as_map,
    conditions_of,
    endpoints_of,
    picked,
    pod_ports,
    strings,
)

READY_GATE = "bridgehead/recorded-ready"
ADDRESSES_ANNOTATION = "bridgehead/recorded-addresses"

_IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.53"
_SERVED = {"TCP": "SERVE_PORT_", "UDP": "SERVE_UDP_PORT_"}  # variables of agnhost's porter
_MOST_PORTS = 50
# A terminating pod waits for its recorded deletion, or the end of the lab.
_TERMINATING_SECONDS = 3600

Numbered = tuple[int, ObjectEntry]  # an entry, and its place in the recording
Port = tuple[str, int]  # protocol, number


class Life(NamedTuple):
    """A recorded pod until its deletion or its end. `addresses`: its first ones."""

    key: ObjectKey
    entries: list[Numbered]

    @property
    def addresses(self) -> tuple[str, ...]:
        return next(filter(None, (_addresses(entry.object) for _, entry in self.entries if not _is_end(entry))), ())

    @property
    def node(self) -> str:
        """The name of the recorded node; "": none."""
        names = (as_map(entry.object.get("spec")).get("nodeName") for _, entry in self.entries)
        return next((name for name in names if isinstance(name, str)), "")


class StandIn(NamedTuple):
    """`node`: of the lab. `is_host_network`: the recorded pod had the addresses of its node."""

    life: Life
    node: str
    is_host_network: bool


class Step(NamedTuple):
    """A write for a stand-in. `body` None: its deletion, with `grace` seconds for its end."""

    number: int
    at: float
    body: Json | None = None
    status: Json | None = None
    grace: int = 0


class Chosen(NamedTuple):
    """`left_out`: the number of pods with an address that are only objects."""

    stand_ins: tuple[StandIn, ...]
    left_out: int


def choose_stand_ins(entries: Iterable[Numbered], nodes: Mapping[str, str], most: int) -> Chosen:
    """Choose the pods that run: in the order of their creation, at most `most` at a time, on the lab's `nodes`."""
    stand_ins: list[StandIn] = []
    ends: dict[ObjectKey, int] = {}  # of the pods that run; the last number if they do not end
    left_out = 0
    for life in _lives(entries):
        begin, (end, last) = life.entries[0][0], life.entries[-1]
        if not life.addresses:
            continue
        ends = {key: number for key, number in ends.items() if number > begin}
        # In kube-system, the lab's own workloads would adopt the pods.
        if life.node not in nodes or life.key.namespace == SYSTEM or len(ends) >= most:
            left_out += life.key.namespace != SYSTEM
            continue
        ends[life.key] = end if _is_end(last) else 1 << 62
        is_host_network = as_map(life.entries[0][1].object.get("spec")).get("hostNetwork") is True
        stand_ins.append(StandIn(life, nodes[life.node], is_host_network))
    return Chosen(tuple(stand_ins), left_out)


def _lives(entries: Iterable[Numbered]) -> list[Life]:
    """Return the lives of all pods. Entries after a pod's end count as a part of its life."""
    current: dict[ObjectKey, Life] = {}
    lives: list[Life] = []
    for number, entry in entries:
        metadata = entry.object["metadata"]
        key = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        life = current.get(key)
        if life is None:
            life = current[key] = Life(key, [])
            lives.append(life)
        life.entries.append((number, entry))
        if entry.change == "deleted":
            del current[key]
    return lives


def _is_end(entry: ObjectEntry) -> bool:
    return entry.change == "deleted" or as_map(entry.object.get("status")).get("phase") in ("Succeeded", "Failed")


def _is_terminating(entry: ObjectEntry) -> bool:
    return as_map(entry.object.get("metadata")).get("deletionTimestamp") is not None


def _addresses(pod: Json) -> tuple[str, ...]:
    status = as_map(pod.get("status"))
    found = [as_map(each).get("ip") for each in as_list(status.get("podIPs"))] or [status.get("podIP")]
    return tuple(text for text in found if isinstance(text, str) and _version(text))


def _version(address: str) -> int:
    """Return 4 or 6; 0 if the text is no address."""
    try:
        return ipaddress.ip_address(address).version
    except ValueError:
        return 0


class Holders:
    """The stand-ins by which recorded endpoints are served."""

    def __init__(self, stand_ins: Iterable[StandIn]) -> None:
        self._keys = {each.life.key for each in stand_ins}
        # Pods in the network of a node share its address: only an endpoint that names its pod leads to one of these.
        self._by_address = {
            address: each.life.key for each in stand_ins if not each.is_host_network for address in each.life.addresses
        }

    def holder(self, endpoint: Json, namespace: str) -> ObjectKey | None:
        """Return the pod of an endpoint; None if none runs for it."""
        reference = as_map(endpoint.get("targetRef"))
        name = reference.get("name")
        if reference.get("kind") == "Pod" and isinstance(name, str):
            key = ObjectKey(namespace, name)
            return key if key in self._keys else None
        addresses = [each for each in as_list(endpoint.get("addresses")) if isinstance(each, str)]
        return next((self._by_address[each] for each in addresses if each in self._by_address), None)

    def served_ports(self, slices: Iterable[Json]) -> dict[ObjectKey, set[Port]]:
        """Return the ports of all endpoints by their pods."""
        ports: dict[ObjectKey, set[Port]] = {}
        for obj in slices:
            served = set(filter(None, (_port(each, "port") for each in as_list(obj.get("ports")))))
            for endpoint in endpoints_of(obj):
                if (key := self.holder(endpoint, obj["metadata"].get("namespace", ""))) is not None:
                    ports.setdefault(key, set()).update(served)
        return ports


def _port(port: object, field: str) -> Port | None:
    value = as_map(port)
    number, protocol = value.get(field), value.get("protocol", "TCP")
    if not isinstance(number, int) or not 0 < number < 65536 or protocol not in _SERVED:
        return None
    return str(protocol), number


def steps_of(stand_in: StandIn, served: Iterable[Port]) -> Iterator[Step]:
    """Yield the writes for a stand-in. `served`: ports of its endpoints, beside those of its containers."""
    entries = stand_in.life.entries
    first = entries[0][1].object
    spec = _spec(stand_in, first, served, terminates=any(_is_terminating(entry) for _, entry in entries))
    is_terminating = False
    for number, entry in entries:
        if _is_end(entry):
            yield Step(number, entry.at)
            return
        metadata = {
            "name": stand_in.life.key.name,
            "namespace": stand_in.life.key.namespace,
            "labels": strings(entry.object["metadata"].get("labels")),
            "annotations": {ADDRESSES_ANNOTATION: ",".join(stand_in.life.addresses)},
        }
        yield Step(number, entry.at, {"metadata": metadata, "spec": spec}, {"conditions": [_gate(entry.object)]})
        if not is_terminating and _is_terminating(entry):
            is_terminating = True
            yield Step(number, entry.at, grace=_TERMINATING_SECONDS)


def _spec(stand_in: StandIn, recorded: Json, served: Iterable[Port], *, terminates: bool) -> Json:
    declared: dict[str, Json] = {}  # by name, or by number and protocol
    for port in pod_ports(recorded):
        if isinstance(name := port.get("name", f"{port.get('containerPort')}/{port.get('protocol')}"), str):
            declared.setdefault(name, port)
    numbers = {*filter(None, (_port(each, "containerPort") for each in declared.values())), *served}
    container: Json = {
        "name": "stand-in",
        "image": _IMAGE,
        "args": ["porter"],
        "env": [
            {"name": f"{_SERVED[protocol]}{number}", "value": stand_in.life.key.name}
            for protocol, number in sorted(numbers)[:_MOST_PORTS]
        ],
        "ports": list(declared.values())[:_MOST_PORTS],
    }
    spec: Json = {
        "nodeName": stand_in.node,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}],
        "readinessGates": [{"conditionType": READY_GATE}],
        "containers": [container],
        **picked(strings(recorded.get("spec")), ("hostname", "subdomain")),
    }
    if terminates:
        container["lifecycle"] = {"preStop": {"sleep": {"seconds": _TERMINATING_SECONDS}}}
    spec["terminationGracePeriodSeconds"] = _TERMINATING_SECONDS if terminates else 1
    return spec


def _gate(pod: Json) -> Json:
    ready = next((each for each in conditions_of(pod) if each.get("type") == "Ready"), {})
    status = "True" if ready.get("status") == "True" else "False"
    return {"type": READY_GATE, "status": status, **picked(strings(ready), ("reason",))}


def is_recorded_ready(status: Json | None) -> bool:
    """Return whether the recorded pod was ready, by the status of a `Step`."""
    return any(each.get("status") == "True" for each in (status or {}).get("conditions", ()))


def recorded_addresses(pods: Iterable[Pod]) -> dict[str, str]:
    """Return the recorded address for each address of a stand-in in the lab."""
    return {
        each.ip: recorded
        for pod in pods
        for each in pod.status.pod_ips
        for recorded in pod.metadata.annotations.get(ADDRESSES_ANNOTATION, "").split(",")
        if _version(each.ip) == _version(recorded)
    }
