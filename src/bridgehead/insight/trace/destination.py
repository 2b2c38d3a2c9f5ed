"""The address and port to which a program connects, for a target as the user wrote it.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey

from .name_resolution import DnsAnswer
from .target import OriginKind, Target, TargetKind


class NoDestination(Exception):
    """There is no address or port to connect to. The text is a clause with the reason, on one line."""


class PortMissing(NoDestination):
    """The target needs a port, which the user did not name."""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """`service`: the one that the target names, or whose address it is; None without one. `note`: on the choice of the
    address or port; "" if the user left none.
    """

    address: str
    port: int
    service: ObjectKey | None = None
    note: str = ""


def name_to_resolve(target: Target, namespace: str) -> str:
    """Return the name for which a program in `namespace` asks the DNS; "" if it needs none."""
    if target.kind is TargetKind.NAME:
        return target.name
    if target.kind is TargetKind.SERVICE:
        own = target.namespace or namespace
        return target.name if own == namespace else f"{target.name}.{own}"
    return ""


def namespaces_of(target: Target, namespace: str, domain: str) -> set[str]:
    """Return the namespaces whose objects the trace needs, beside the origin's."""
    if target.kind is TargetKind.ADDRESS:
        return {""}  # anybody's
    if target.kind is not TargetKind.NAME:
        return {target.namespace or namespace}
    labels = target.name.rstrip(".").removesuffix(f".{domain}").removesuffix(".svc").removesuffix(".pod").split(".")
    return {namespace if len(labels) == 1 else labels[-1]}


def find_destination(
    target: Target, origin: OriginKind, namespace: str, protocol: str, state: ClusterState, answers: Sequence[DnsAnswer]
) -> Destination:
    """Return the destination. `answers`: those to `name_to_resolve`, the last one decides. Raises NoDestination."""
    if target.kind is TargetKind.POD:
        return _pod(target, namespace, protocol, state)
    if target.kind is TargetKind.SERVICE:
        key = ObjectKey(target.namespace or namespace, target.name)
        if key not in state.services:
            raise NoDestination(_no_service(key, state))
        if origin is not OriginKind.POD and state.services[key].spec.type != "ExternalName":
            return _service_from_node(target, state.services[key], origin, protocol, state)
    if target.kind is TargetKind.ADDRESS:
        found = _service_at(target.name, state)
        return Destination(
            address=target.name,
            port=_port(target, found, protocol, state, is_node_port=_is_node(target.name, state)),
            service=found.key if found is not None else None,
        )
    last = answers[-1] if answers else None
    if last is None or not last.addresses:
        raise NoDestination(_no_address(target, answers, namespace, origin, state))
    service = _service_named(last.name, state) or _service_at(last.addresses[0], state)
    note = f"the first of {len(last.addresses)} addresses" if len(last.addresses) > 1 else ""
    return Destination(
        address=last.addresses[0],
        port=_port(target, service, protocol, state),
        service=service.key if service is not None else None,
        note=note,
    )


def _pod(target: Target, namespace: str, protocol: str, state: ClusterState) -> Destination:
    key = ObjectKey(target.namespace or namespace, target.name)
    pod = state.pods.get(key)
    if pod is None:
        raise NoDestination(f"there is no pod {key}")
    if not pod.status.pod_ip:
        raise NoDestination(f"pod {key} has no address yet")
    ports = [p for c in pod.spec.containers for p in c.ports if p.protocol == protocol.upper()]
    if target.port.isdigit():
        return Destination(address=pod.status.pod_ip, port=int(target.port))
    named = [p for p in ports if not target.port or p.name == target.port]
    if len(named) != 1 and (target.port or len({p.container_port for p in ports}) != 1):
        listed = ", ".join(str(p.container_port) for p in ports) or "none"
        raise PortMissing(f"name a port of pod {key}; its {protocol} ports: {listed}")
    return Destination(address=pod.status.pod_ip, port=named[0].container_port, note="the pod's containerPort")


def _service_from_node(
    target: Target, service: Service, origin: OriginKind, protocol: str, state: ClusterState
) -> Destination:
    """Return an address that needs no name: of a node, the cluster IP; from outside, what is published there."""
    spec = service.spec
    port = _port(target, service, protocol, state)
    if origin is OriginKind.OUTSIDE:
        ingress = [entry.ip for entry in service.status.load_balancer.ingress if entry.ip]
        if published := [*ingress, *spec.external_ips]:
            note = "its load balancer's address" if ingress else "its external IP"
            return Destination(address=published[0], port=port, service=service.key, note=note)
        number = next((p.node_port for p in spec.ports if p.port == port and p.protocol == protocol.upper()), 0)
        address = next(
            (a.address for n in state.nodes.values() for a in n.status.addresses if a.type == "InternalIP"), ""
        )
        if number and address:
            return Destination(address=address, port=number, service=service.key, note="a node port at the first node")
    if spec.cluster_ip in ("", "None"):
        address = next((a for s in state.slices_of(service.key) for e in s.endpoints for a in e.addresses), "")
        if not address:
            raise NoDestination(f"Service {service.key} is headless and has no endpoint")
        return Destination(address=address, port=_target_port(service, port, state), service=service.key)
    note = (
        "its cluster IP, which has no route from outside as a rule"
        if origin is OriginKind.OUTSIDE
        else "its cluster IP"
    )
    return Destination(address=spec.cluster_ip, port=port, service=service.key, note=note)


def _port(
    target: Target, service: Service | None, protocol: str, state: ClusterState, *, is_node_port: bool = False
) -> int:
    if target.port.isdigit():
        return int(target.port)
    if service is None or is_node_port:
        raise PortMissing("name the port: TARGET:PORT")
    ports = [p for p in service.spec.ports if p.protocol == protocol.upper()]
    matching = [p for p in ports if not target.port or p.name == target.port]
    if len(matching) != 1:
        listed = ", ".join(f"{p.port} ({p.name})" if p.name else str(p.port) for p in ports) or "none"
        raise PortMissing(f"name a port of Service {service.key}; its {protocol} ports: {listed}")
    is_headless = service.spec.cluster_ip == "None"
    return _target_port(service, matching[0].port, state) if is_headless else matching[0].port


def _target_port(service: Service, port: int, state: ClusterState) -> int:
    """Return the port of a headless Service's endpoints: nobody translates the Service's own."""
    name = next((p.name for p in service.spec.ports if p.port == port), "")
    for slice_ in state.slices_of(service.key):
        for each in slice_.ports or ():
            if each.key[0] == name and each.port:
                return each.port
    return port


def _is_node(address: str, state: ClusterState) -> bool:
    return address in state.nodes_by_address


def _service_at(address: str, state: ClusterState) -> Service | None:
    for service in state.services.values():
        spec = service.spec
        own = {spec.cluster_ip, *spec.cluster_ips, *spec.external_ips}
        if address in own or any(entry.ip == address for entry in service.status.load_balancer.ingress):
            return service
    return None


def _service_named(name: str, state: ClusterState) -> Service | None:
    labels = name.removesuffix(f".svc.{state.domain}").split(".")
    return state.services.get(ObjectKey(labels[-1], labels[-2])) if len(labels) >= 2 else None


def _no_service(key: ObjectKey, state: ClusterState) -> str:
    if not state.has_seen("services"):
        return f"Services could not be read, so that nothing is known of {key}"
    elsewhere = sorted(other.namespace for other in state.services if other.name == key.name)
    if elsewhere:
        return f"there is no Service {key}; namespace {elsewhere[0]} has one of that name"
    return f"there is no Service {key}"


def _no_address(
    target: Target, answers: Sequence[DnsAnswer], namespace: str, origin: OriginKind, state: ClusterState
) -> str:
    alias = next((answer for answer in answers if answer.aliases), None)
    if alias is not None:
        return f"{alias.name} is an alias of {alias.aliases[-1]}, which has no address: {alias.rcode}"
    if not answers:
        return f"{target.name} is no name that can be asked for"
    last = answers[-1]
    because = f"{last.name}: {last.rcode}"
    labels = target.name.rstrip(".").split(".")
    key = ObjectKey(labels[1] if len(labels) > 1 else namespace, labels[0])
    service = state.services.get(key)
    if service is None:
        return f"{because}; {_no_service(key, state)}" if len(labels) <= 2 else because
    if service.spec.cluster_ip == "None":
        return f"{because}; Service {key} is headless and has no ready endpoint"
    if origin is not OriginKind.POD:
        return f"{because}; only pods have a search list, so write {key.name}.{key.namespace}.svc.{state.domain}"
    return because
