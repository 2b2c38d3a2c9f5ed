"""Compile the host ports of this node's pods to Frontends.

A `hostPort` of a container is an address of the node that leads to one pod. It is a Frontend like a node port, with one
more for 127.0.0.1, where node ports do not answer; with a `hostIP`, it is one like an external IP. Every proxy mode
therefore programs it without further rules. Elsewhere, the CNI plug-in `portmap` does this, whose behaviour is the
model: connections from 127.0.0.1 and of a pod to itself are masqueraded, all others keep the client's address.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.objects.core import ContainerPort, Pod
from bridgehead.objects.meta import ObjectKey

from .address_texts import Family, canonical_address, family_of, is_loopback
from .frontends import (
    ANY_LOCAL,
    Backend,
    Frontend,
    FrontendKey,
    NodeFacts,
    Problem,
    Publication,
    Reason,
    ServiceFrontends,
    SourceNat,
    quote,
)

_PREFIX = "pod/"  # a Service's name has no slash
_ENDED = ("Succeeded", "Failed")
# The addresses of a host port without `hostIP`. The kernel accepts no answer to ::1 from another interface.
_EVERYWHERE: dict[Family, tuple[str, ...]] = {4: (ANY_LOCAL[4], "127.0.0.1"), 6: (ANY_LOCAL[6],)}


def pod_key(pod: ObjectKey) -> ObjectKey:
    """Return the key of a pod's Frontends among those of Services."""
    return ObjectKey(pod.namespace, f"{_PREFIX}{pod.name}")


def pod_of(key: ObjectKey) -> ObjectKey | None:
    """Return the pod of a key that `pod_key` made; None for the key of a Service."""
    name = key.name.removeprefix(_PREFIX)
    return ObjectKey(key.namespace, name) if name != key.name else None


def has_host_ports(pod: Pod) -> bool:
    """Whether the pod asks for ports of its node other than by using the node's network."""
    return not pod.spec.host_network and any(True for _ in _host_ports(pod))


def compile_host_ports(pod: Pod, node: NodeFacts) -> ServiceFrontends:
    """Return the Frontends of a pod of this node: none before it has an address and after its containers ended."""
    meta = pod.metadata
    key = pod_key(pod.key)
    age = (meta.creation_timestamp or "~", meta.namespace, meta.name)
    addresses = [canonical_address(entry.ip) for entry in pod.status.pod_ips] or [canonical_address(pod.status.pod_ip)]
    problems: list[Problem] = []
    frontends: dict[FrontendKey, Frontend] = {}
    if pod.status.phase not in _ENDED and not pod.spec.host_network:
        for port in _host_ports(pod):
            for address in addresses:
                if address is None or family_of(address) not in node.families:
                    continue
                for host in _host_addresses(port, family_of(address), problems):
                    frontend = _compile(pod, port, host, address, node)
                    frontends.setdefault(frontend.key, frontend)
    return ServiceFrontends(
        service=key, age=age, frontends=tuple(frontends.values()), problems=tuple(sorted(set(problems), key=str))
    )


def _host_ports(pod: Pod) -> Iterator[ContainerPort]:
    """Yield the ports with a host port of containers that run beside each other: no init containers but sidecars."""
    sidecars = [container for container in pod.spec.init_containers if container.is_sidecar]
    for container in (*sidecars, *pod.spec.containers):
        yield from (port for port in container.ports if port.host_port)


def _host_addresses(port: ContainerPort, family: Family, problems: list[Problem]) -> tuple[str, ...]:
    """Return the node's addresses of one family on which the port is published."""
    if port.protocol not in ("TCP", "UDP", "SCTP"):
        problems.append(Problem(Reason.BAD_PROTOCOL, f"hostPort {port.host_port}: {quote(port.protocol)}"))
        return ()
    host = canonical_address(port.host_ip) if port.host_ip else ANY_LOCAL[family]
    if host is None:
        problems.append(Problem(Reason.BAD_ADDRESS, f"hostIP of hostPort {port.host_port}: {quote(port.host_ip)}"))
        return ()
    if family_of(host) != family:
        return ()
    return _EVERYWHERE[family] if host == ANY_LOCAL[family] else (host,)


def _compile(pod: Pod, port: ContainerPort, host: str, pod_address: str, node: NodeFacts) -> Frontend:
    """Return the Frontend at the node's address `host` that leads to one of the pod's addresses."""
    is_any = host == ANY_LOCAL[family_of(host)]
    number = str(port.host_port) if is_any else f"{host}-{port.host_port}"
    return Frontend(
        key=FrontendKey(host, port.protocol.lower(), port.host_port),
        owner=f"{pod.metadata.namespace}/{_PREFIX}{pod.metadata.name}:{number}",
        backends=(Backend(pod_address, port.container_port, node.name, node.zone, is_local=True),),
        # An answer to 127.0.0.1 would stay in the pod.
        source_nat=SourceNat.ALWAYS if is_loopback(host) else SourceNat.HAIRPIN,
        published_as=Publication.NODE_PORT if is_any else Publication.EXTERNAL_IP,
    )
