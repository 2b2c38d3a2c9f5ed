"""Causes in a Service's target ports: nobody has them, or no program listens there.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterator, Sequence
from enum import Enum, auto

from bridgehead.controllers.endpoints.endpoint_pods import families_of, resolve_port
from bridgehead.insight.facts.network_state import Listening, Section
from bridgehead.insight.findings import Finding, Severity
from bridgehead.objects.core import ContainerPort, Pod, ServicePort

from .near_names import nearest
from .subjects import Facts, ServiceView, names_of


def check_ports(view: ServiceView, facts: Facts) -> Iterator[Finding]:
    """Yield the problems of each port's targetPort."""
    pods = view.live_pods
    if view.is_external_name or not view.sees_pods or not pods:
        return
    swapped = _swapped(view, pods)
    for index, port in enumerate(view.spec.ports):
        if found := _named(view, index, port, pods):
            yield found
            continue
        if port.name not in swapped:
            yield from _numbered(view, facts, index, port)
    if swapped:
        one, other = swapped.values()
        yield view.finding(
            "TargetPortsSwapped",
            f"The ports {one.name} and {other.name} lead to each other's container ports: {one.name} to "
            f"{one.target_port} and {other.name} to {other.target_port}.",
            fix=_patch_ports(view, {one.name: other.target_port, other.name: one.target_port}),
            evidence=[_describe_declared(pods)],
            severity=Severity.DEGRADED,
        )


def _named(view: ServiceView, index: int, port: ServicePort, pods: Sequence[Pod]) -> Finding | None:
    name = port.target_port
    if not isinstance(name, str) or not name:
        return None
    lacking = [pod for pod in pods if resolve_port(pod, port) is None]
    if not lacking:
        return None
    which = _describe(port)
    if len(lacking) < len(pods):
        return view.finding(
            "TargetPortOnSomePods",
            f"{len(lacking)} of {len(pods)} pods have no container port {name}, to which {which} leads: they get no "
            "connections.",
            fix=f"give the container port the name {name} in the pod template, then wait for the rollout",
            evidence=[f"without it: {names_of(pod.metadata.name for pod in lacking)}", _describe_declared(lacking)],
            severity=Severity.DEGRADED,
        )
    declared = [each for pod in pods for each in _container_ports(pod)]
    other = next((each for each in declared if each.name == name), None)
    if other is not None:
        return view.finding(
            "TargetPortWrongProtocol",
            f"{which} is {port.protocol}, but the container port {name} is {other.protocol}.",
            fix=_patch_port(view, index, "protocol", other.protocol),
            evidence=[_describe_declared(pods)],
        )
    names = sorted({each.name for each in declared if each.name and each.protocol == port.protocol})
    meant: str | int | None = nearest(name, names)
    numbers = sorted({each.container_port for each in declared if each.protocol == port.protocol})
    if meant is None and len(numbers) == 1:
        meant = names[0] if names else numbers[0]
    return view.finding(
        "TargetPortNameMissing",
        f"{which} leads to the container port {name}, which no pod has"
        + (f"; its pods have {meant}." if meant is not None else "."),
        fix=_patch_port(view, index, "targetPort", meant)
        if meant is not None
        else f"give a container port the name {name} in the pod template, or set targetPort to the number of the port",
        evidence=[_describe_declared(pods)],
    )


# --- Programs that listen ---------------------------------------------------------------------------------


class _Reach(Enum):
    """The way in which a pod takes connections to a port."""

    LISTENS = auto()
    LOOPBACK = auto()  # only from the pod itself
    OTHER_PROTOCOL = auto()
    OTHER_FAMILY = auto()  # at addresses of the other family only
    NOTHING = auto()


def _numbered(view: ServiceView, facts: Facts, index: int, port: ServicePort) -> Iterator[Finding]:
    looked_at = [(pod, found) for pod in view.ready_pods if (found := _listeners(pod, facts)) is not None]
    if not looked_at:
        yield from _undeclared(view, index, port)
        return
    results = []
    for pod, listeners in looked_at:
        number = resolve_port(pod, port)
        if number is not None:
            results.append(
                (pod, number, _listens(listeners, port.protocol, number, families_of(view.service)), listeners)
            )
    failing = [result for result in results if result[2] is not _Reach.LISTENS]
    if not failing:
        return
    severity = Severity.BROKEN if len(failing) == len(view.ready_pods) else Severity.DEGRADED
    pod, number, reach, listeners = failing[0]
    which, name = _describe(port), pod.metadata.name
    evidence = [
        f"in pod {name}: {_describe_listeners(listeners)}",
        *(f"pod {each[0].metadata.name}, too" for each in failing[1:5]),
    ]
    match reach:
        case _Reach.LOOPBACK:
            yield view.finding(
                "ListensOnLoopbackOnly",
                f"The program behind {which} listens on the loopback address only, so that no other pod reaches port "
                f"{number} of pod {name}.",
                fix="let the program listen on 0.0.0.0 (or ::), with its option for the bind address",
                evidence=evidence,
                severity=severity,
            )
        case _Reach.OTHER_PROTOCOL:
            protocol = next(each.protocol for each in listeners if each.port == number).upper()
            yield view.finding(
                "ListensOnOtherProtocol",
                f"{which} is {port.protocol}, but the program in pod {name} takes {protocol} on port {number}.",
                fix=_patch_port(view, index, "protocol", protocol),
                evidence=evidence,
                severity=severity,
            )
        case _Reach.OTHER_FAMILY:
            yield view.finding(
                "ListensOnOtherFamily",
                f"The program in pod {name} listens on port {number} in one address family only; the Service has "
                f"{' and '.join(families_of(view.service))}.",
                fix="let the program listen on ::, which takes connections of both families",
                evidence=evidence,
                severity=severity if len(families_of(view.service)) == 1 else Severity.DEGRADED,
            )
        case _:
            meant = _meant(view, port, listeners)
            yield view.finding(
                "NothingListens",
                f"{which} leads to port {number}, on which nothing listens in pod {name}"
                + (f"; its program listens on {meant}." if meant else "."),
                fix=_patch_port(view, index, "targetPort", meant) if meant else view.kubectl("logs", name),
                evidence=evidence,
                severity=severity,
            )


def _listeners(pod: Pod, facts: Facts) -> Sequence[Listening] | None:
    """Return the listeners of a pod; None if they could not be read."""
    state = facts.pod_listeners.get(pod.key)
    if state is None or Section.LISTENERS in state.unseen:
        return None
    if pod.spec.runtime_class_name and not state.listeners:
        return None  # a sandbox with a kernel of its own (gVisor, Kata), whose sockets cannot be seen from outside
    return state.listeners


def _listens(listeners: Sequence[Listening], protocol: str, number: int, families: Sequence[str]) -> _Reach:
    here = [each for each in listeners if each.port == number]
    same = [each for each in here if each.protocol == protocol.lower()]
    if not same:
        return _Reach.OTHER_PROTOCOL if here and not all(map(_is_loopback, here)) else _Reach.NOTHING
    reachable = [each for each in same if not _is_loopback(each)]
    if not reachable:
        return _Reach.LOOPBACK
    # A socket on :: takes both families unless it is for IPv6 only, which cannot be seen here.
    has_both = any(each.address == "::" for each in reachable)
    found = {"IPv6" if ":" in each.address else "IPv4" for each in reachable}
    return _Reach.LISTENS if has_both or found >= set(families) else _Reach.OTHER_FAMILY


def _is_loopback(listening: Listening) -> bool:
    try:
        address = ipaddress.ip_address(listening.address.partition("%")[0])
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _meant(view: ServiceView, port: ServicePort, listeners: Sequence[Listening]) -> int | None:
    """Return the only port on which programs listen for this protocol, and to which no other port leads."""
    used = {each.target_port or each.port for each in view.spec.ports if each is not port}
    found = {
        each.port
        for each in listeners
        if each.protocol == port.protocol.lower() and not _is_loopback(each) and each.port not in used
    }
    return min(found) if len(found) == 1 else None


# --- Container ports, if no one could look at programs --------------------------------------------------------


def _undeclared(view: ServiceView, index: int, port: ServicePort) -> Iterator[Finding]:
    """Yield a suspicion: no container declares the number, and no port leads to the number that they declare.

    Container ports are for information only, and webhooks for example often lack theirs.
    """
    if not isinstance(port.target_port, int):
        return
    number = port.target_port or port.port
    pods = view.live_pods
    declared = [list(_container_ports(pod)) for pod in pods]
    if not all(declared) or any(number in _probed_ports(pod) for pod in pods):
        return
    flat = [each for ports in declared for each in ports]
    at_number = {each.protocol for each in flat if each.container_port == number}
    if port.protocol in at_number:
        return
    if at_number:
        yield view.finding(
            "TargetPortWrongProtocol",
            f"{_describe(port)} is {port.protocol}, but the container port {number} is {min(at_number)}.",
            fix=_patch_port(view, index, "protocol", min(at_number)),
            evidence=[_describe_declared(pods)],
            severity=Severity.NOTICE,
        )
        return
    targets = {each.target_port or each.port for each in view.spec.ports}
    unused = {
        each.container_port
        for each in flat
        if each.protocol == port.protocol and not targets & {each.container_port, each.name}
    }
    if not unused:
        return
    meant = min(unused) if len(unused) == 1 else None
    yield view.finding(
        "TargetPortNotDeclared",
        f"{_describe(port)} leads to port {number}, which no container declares; the pods declare "
        f"{names_of(map(str, sorted(unused)))}.",
        fix=_patch_port(view, index, "targetPort", meant) if meant else view.kubectl("edit", "service", view.key.name),
        evidence=[_describe_declared(pods), "programs in the pods were not looked at"],
        severity=Severity.NOTICE,
    )


def _swapped(view: ServiceView, pods: Sequence[Pod]) -> dict[str, ServicePort]:
    """Return two ports, by name, each of which leads to the container port that has the other's name."""
    declared = {each.name: each.container_port for pod in pods for each in _container_ports(pod) if each.name}
    named = {port.name: port for port in view.spec.ports if port.name in declared}
    for name, port in named.items():
        for other in named.values():
            leads_to_other = port.target_port in (declared[other.name], other.name)
            leads_back = other.target_port in (declared[name], name)
            if other is not port and leads_to_other and leads_back and declared[name] != declared[other.name]:
                return {name: port, other.name: other}
    return {}


def _container_ports(pod: Pod) -> Iterator[ContainerPort]:
    for container in (*pod.spec.containers, *(each for each in pod.spec.init_containers if each.is_sidecar)):
        yield from container.ports


def _probed_ports(pod: Pod) -> set[int | str]:
    found: set[int | str] = set()
    for container in pod.spec.containers:
        for probe in (container.readiness_probe, container.liveness_probe, container.startup_probe):
            action = (probe.http_get or probe.tcp_socket or probe.grpc) if probe is not None else None
            if action is not None:
                found.add(action.port)
    return found


def _describe(port: ServicePort) -> str:
    return f"Port {port.port} ({port.name})" if port.name else f"Port {port.port}"


def _describe_declared(pods: Sequence[Pod]) -> str:
    ports = sorted({(each.container_port, each.protocol, each.name) for pod in pods for each in _container_ports(pod)})
    texts = (f"{number}/{protocol}{f' ({name})' if name else ''}" for number, protocol, name in ports)
    return f"container ports: {names_of(texts) or 'none declared'}"


def _describe_listeners(listeners: Sequence[Listening]) -> str:
    texts = sorted(
        {
            f"{each.protocol} {'[' + each.address + ']' if ':' in each.address else each.address}:{each.port}"
            + (f" ({each.program})" if each.program else "")
            for each in listeners
        }
    )
    return f"listening: {names_of(texts, 8) or 'nothing'}"


def _patch_port(view: ServiceView, index: int, field: str, value: object) -> str:
    operation = {
        "op": "replace" if field != "targetPort" else "add",
        "path": f"/spec/ports/{index}/{field}",
        "value": value,
    }
    return _json_patch(view, [operation])


def _patch_ports(view: ServiceView, targets: dict[str, int | str]) -> str:
    operations: list[dict[str, object]] = [
        {"op": "add", "path": f"/spec/ports/{index}/targetPort", "value": targets[port.name]}
        for index, port in enumerate(view.spec.ports)
        if port.name in targets
    ]
    return _json_patch(view, operations)


def _json_patch(view: ServiceView, operations: list[dict[str, object]]) -> str:
    text = json.dumps([{**each} for each in operations], separators=(",", ":"))
    return view.kubectl("patch", "service", view.key.name, "--type", "json", "-p", text)
