"""Derive NodeFacts and Settings from the configuration and the Node object, for `cluster_objects.py`.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from bridgehead.objects.core import Node

from .address_texts import EVERYWHERE, Family, canonical_address, canonical_cidr, family_of
from .config import ProxyConfig
from .frontends import NodeFacts
from .mode import Settings

TO_BE_DELETED_TAINT = "ToBeDeletedByClusterAutoscaler"


def is_eligible(node: Node | None) -> bool:
    """Return whether load balancers may use the node: not while it is being removed, as in kube-proxy (KEP-3836)."""
    if node is None:
        return True
    is_deleted = node.metadata.deletion_timestamp is not None
    return not is_deleted and not any(taint.key == TO_BE_DELETED_TAINT for taint in node.spec.taints)


def plan_node(
    config: ProxyConfig,
    name: str,
    node: Node | None,
    service_cidrs: tuple[str, ...],
    kernel_families: tuple[Family, ...] = (4, 6),
) -> tuple[NodeFacts, Settings]:
    """Return the input of Frontends and of rules. `node`: this node's object; None: not observed yet.

    A family that the kernel lacks is left out, even if the cluster uses it: the kernel would refuse all rules.
    """
    pod_cidrs = _pod_cidrs(node)
    cluster_cidrs = {"ClusterCIDR": config.cluster_cidrs, "NodeCIDR": pod_cidrs}.get(config.detect_local_mode, ())
    addresses = _addresses(config, node)
    known = {family_of(text) for text in (*addresses, *pod_cidrs, *cluster_cidrs, *service_cidrs)}
    families = tuple(sorted(known.intersection(kernel_families))) or (4,)
    facts = NodeFacts(
        name=name,
        addresses=addresses,
        zone=node.zone if node is not None else "",
        families=families,
        cluster_cidrs=cluster_cidrs,
        knows_pods=bool(config.pod_interface),
        masquerade_all=config.masquerade_all,
    )
    settings = Settings(
        families,
        cluster_cidrs,
        service_cidrs,
        _node_port_cidrs(config.node_port_addresses, addresses, families),
        localhost_node_ports=config.localhost_node_ports,
        pod_interface=config.pod_interface,
        masquerade_mark=1 << config.masquerade_bit,
        own_pod_cidrs=pod_cidrs,
    )
    return facts, settings


def _node_port_cidrs(
    wanted: tuple[str, ...], addresses: tuple[str, ...], families: tuple[Family, ...]
) -> tuple[str, ...] | None:
    """Return the ranges of both families; None: all addresses of both.

    A family without a range, or without a primary address, answers on every address: kube-proxy's rule.
    """
    if wanted == ("primary",):
        wanted = tuple(f"{address}/{128 if ':' in address else 32}" for address in addresses)
    found: list[str] = []
    for family in families:
        ranges = [cidr for cidr in wanted if family_of(cidr) == family]
        everywhere = EVERYWHERE[family]
        found += ranges if ranges and everywhere not in ranges else [everywhere]
    return None if set(found) <= set(EVERYWHERE.values()) else tuple(found)


def _addresses(config: ProxyConfig, node: Node | None) -> tuple[str, ...]:
    """Return the node's primary addresses, one of each family. The configured one precedes those of its Node.

    Internal addresses precede external ones, as in kube-proxy.
    """
    published = node.status.addresses if node is not None else ()
    texts = [
        config.bind_address,
        *(a.address for kind in ("InternalIP", "ExternalIP") for a in published if a.type == kind),
    ]
    primary: dict[Family, str] = {}
    for address in filter(None, map(canonical_address, texts)):
        primary.setdefault(family_of(address), address)
    return tuple(primary.values())


def _pod_cidrs(node: Node | None) -> tuple[str, ...]:
    """Return the ranges of the node's pods, canonical. Invalid ranges are left out."""
    if node is None:
        return ()
    return tuple(filter(None, map(canonical_cidr, node.spec.pod_cidrs or (node.spec.pod_cidr,))))
