"""The source from which a connection is made: the one that the user names, or a suitable one.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import msgspec

from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.objects.core import Pod
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.address_texts import canonical_address

from .target import Origin, OriginKind


class NoOrigin(Exception):
    """The origin does not exist, or cannot connect. The text is one line."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """`node`: whose rules connections from here meet; "" for outside. `addresses`: of the origin, by family.

    `is_node`: connections meet the rules on their way out of the node itself, as those of pods in its network do.
    `namespace`: that in which names are resolved. `note`: why this origin, if the user named none.
    """

    origin: Origin
    node: str
    namespace: str
    addresses: dict[int, str]
    is_node: bool = False
    pod: Pod | None = None
    note: str = ""


def choose_source(origin: Origin | None, namespace: str, state: ClusterState) -> Source:
    """Return the source for an origin; for None, a pod in the namespace, or a node. Raises NoOrigin."""
    if origin is None:
        return _default(namespace, state)
    if origin.kind is OriginKind.OUTSIDE:
        return Source(origin=origin, node="", namespace=namespace, addresses={})
    if origin.kind is OriginKind.NODE:
        return _node(origin.name, namespace, state)
    return _pod(ObjectKey(origin.namespace or namespace, origin.name), state)


def _default(namespace: str, state: ClusterState) -> Source:
    pods = [pod for pod in state.pods_in(namespace) if _can_connect(pod) and not pod.spec.host_network]
    note = "no --from was given"
    if pods:
        first = min(pods, key=lambda pod: (not pod.is_ready, pod.metadata.name))
        return msgspec.structs.replace(_pod(first.key, state), note=note)
    names = sorted(node.metadata.name for node in state.nodes.values() if node.is_ready)
    if names:
        return msgspec.structs.replace(
            _node(names[0], namespace, state), note=f"{note}, and no pod of {namespace} runs"
        )
    raise NoOrigin(f"no pod of namespace {namespace} runs, and no node is ready; name an origin by --from")


def _node(name: str, namespace: str, state: ClusterState) -> Source:
    node = state.nodes.get(name)
    if node is None:
        raise NoOrigin(f"there is no node {name}" if state.has_seen("nodes") else "nodes could not be read")
    texts = [canonical_address(one.address) for one in node.status.addresses if one.type == "InternalIP"]
    origin = Origin(OriginKind.NODE, name)
    return Source(origin=origin, node=name, namespace=namespace, addresses=_by_family(texts), is_node=True)


def _pod(key: ObjectKey, state: ClusterState) -> Source:
    pod = state.pods.get(key)
    if pod is None:
        raise NoOrigin(f"there is no pod {key}" if state.has_seen("pods") else "pods could not be read")
    if not _can_connect(pod):
        raise NoOrigin(f"pod {key} does not run: its phase is {pod.status.phase or 'unknown'}")
    return Source(
        origin=Origin(OriginKind.POD, key.name, key.namespace),
        node=pod.spec.node_name,
        namespace=key.namespace,
        addresses=_by_family([canonical_address(ip.ip) for ip in pod.status.pod_ips]),
        is_node=pod.spec.host_network,
        pod=pod,
    )


def _can_connect(pod: Pod) -> bool:
    return pod.status.phase == "Running" and bool(pod.status.pod_ips)


def _by_family(addresses: list[str | None]) -> dict[int, str]:
    found: dict[int, str] = {}
    for address in addresses:
        if address is not None:
            found.setdefault(6 if ":" in address else 4, address)
    return found
