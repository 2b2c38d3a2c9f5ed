"""Load-balancer addresses of Services: which a Service was given, and with which others it shares them.

The proxy and the balancer decide alike by this module who may use an address.

Pure: no I/O, no clock, no randomness. Source: MetalLB, internal/allocator (keys of shared addresses).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .core import Service

ANNOTATION_PREFIXES = ("metallb.io/", "metallb.universe.tf/")  # the second one is deprecated
SHARING = "allow-shared-ip"
POOL_ANNOTATION = "metallb.io/ip-allocated-from-pool"
DEPRECATED_POOL_ANNOTATION = "metallb.universe.tf/ip-allocated-from-pool"
OPENELB_ANNOTATION = "lb.kubesphere.io/v1alpha1"
OPENELB_VALUE = "openelb"
EIP_NAME_ANNOTATION = "eip.openelb.kubesphere.io/v1alpha2"  # also the label that OpenELB writes
EIP_ADDRESS_ANNOTATION = "eip.openelb.kubesphere.io/v1alpha1"


class ShareKey(NamedTuple):
    """Services with equal keys may share an address. `key`: "" if the Service shares none.

    `backends`: the selector of a Service whose traffic goes to local endpoints only, else "".
    """

    key: str = ""
    backends: str = ""


def read_annotation(annotations: Mapping[str, str], name: str) -> str:
    """Return MetalLB's annotation `name` under either of its prefixes; "" without one."""
    return next((annotations[prefix + name] for prefix in ANNOTATION_PREFIXES if prefix + name in annotations), "")


def is_openelb(service: Service) -> bool:
    """Whether the Service asks for OpenELB."""
    annotations = service.metadata.annotations
    return annotations.get(OPENELB_ANNOTATION) == OPENELB_VALUE or bool(
        {EIP_NAME_ANNOTATION, EIP_ADDRESS_ANNOTATION} & annotations.keys()
    )


def share_key(service: Service) -> ShareKey:
    """Return the key of a Service. All Services that ask for OpenELB have a common one."""
    key = read_annotation(service.metadata.annotations, SHARING) or (OPENELB_VALUE if is_openelb(service) else "")
    backends = ""
    if service.spec.external_traffic_policy == "Local":
        backends = ",".join(f"{name}={value}" for name, value in sorted(service.spec.selector.items()))
    return ShareKey(key, backends)


def assigned_addresses(service: Service) -> tuple[str, ...]:
    """Return the addresses in the status of a Service of type LoadBalancer, canonical, of whatever ipMode."""
    if service.spec.type != "LoadBalancer":
        return ()
    return _canonical(entry.ip for entry in service.status.load_balancer.ingress)


def cluster_addresses(service: Service) -> tuple[str, ...]:
    """Return the cluster IPs of a Service, canonical."""
    return _canonical(service.spec.cluster_ips or (service.spec.cluster_ip,))


def external_addresses(service: Service) -> tuple[str, ...]:
    """Return the externalIPs of a Service, canonical."""
    return _canonical(service.spec.external_ips)


def published_addresses(service: Service) -> tuple[str, ...]:
    """Return the assigned addresses and the externalIPs of a Service, canonical."""
    if not (service.spec.external_ips or service.status.load_balancer.ingress):
        return ()
    return tuple(dict.fromkeys((*assigned_addresses(service), *external_addresses(service))))


def is_from_pool(service: Service) -> bool:
    """Whether MetalLB, OpenELB or this project's balancer marked the Service as one that has an address of a pool."""
    meta = service.metadata
    return POOL_ANNOTATION in meta.annotations or EIP_NAME_ANNOTATION in meta.labels


def by_assigned_address(services: Iterable[Service]) -> dict[str, list[Service]]:
    """Return Services by the addresses in their status. A Service may come twice, as in `services`."""
    found: dict[str, list[Service]] = {}
    for service in services:
        for address in assigned_addresses(service):
            found.setdefault(address, []).append(service)
    return found


def holder_of(address: str, service: Service, others: Iterable[Service]) -> Service | None:
    """Return the Service to which `address` belongs, if `service` may not use it; None if it may.

    `others`: Services that have the address in their status, in any order. An address of a status belongs to that
    Service and to those that share its key. Two statuses with one address are both right, since load balancers have
    rules of their own, unless one of them is of a pool: pools give an address once. The older one has it then.
    """
    others = [other for other in others if other.key != service.key and address in assigned_addresses(other)]
    is_assigned = address in assigned_addresses(service)
    owner = min([*others, service] if is_assigned else others, key=_seniority, default=service)
    if owner.key == service.key or (is_assigned and not is_from_pool(owner)):
        return None
    key = share_key(owner)
    return None if key.key and key == share_key(service) else owner


def describe_holder(holder: Service) -> str:
    """Return the description of an address that belongs to `holder`, for Events of others."""
    return f"the load-balancer address of Service {holder.key}, which does not share it (metallb.io/{SHARING})"


def _seniority(service: Service) -> tuple[bool, str, str]:
    return not is_from_pool(service), service.metadata.creation_timestamp or "~", str(service.key)


def _canonical(texts: Iterable[str]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for text in texts:
        try:
            found[str(ipaddress.ip_address(text))] = None
        except ValueError:  # "" of a host name's entry, or written by somebody without care
            continue
    return tuple(found)
