"""Requests of Services: families, ports, pool, addresses and sharing, from spec and annotations.

Pure: no I/O, no clock, no randomness. Source: MetalLB, controller/service.go; OpenELB v0.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import Labels

from ..ranges import IpAddress, parse_address
from .reasons import NotAllocated, PendingReason, quote_addresses

Version = Literal[4, 6]
_PREFIXES = ("metallb.io/", "metallb.universe.tf/")  # the second one is deprecated
_POOL, _ADDRESSES, _SHARING = "address-pool", "loadBalancerIPs", "allow-shared-ip"
POOL_ANNOTATION = "metallb.io/ip-allocated-from-pool"
DEPRECATED_POOL_ANNOTATION = "metallb.universe.tf/ip-allocated-from-pool"

OPENELB_ANNOTATION = "lb.kubesphere.io/v1alpha1"
OPENELB_VALUE = "openelb"
EIP_NAME_ANNOTATION = "eip.openelb.kubesphere.io/v1alpha2"  # also the label that OpenELB writes
EIP_ADDRESS_ANNOTATION = "eip.openelb.kubesphere.io/v1alpha1"


class Port(NamedTuple):
    protocol: str
    number: int

    def __str__(self) -> str:
        return f"{self.protocol}/{self.number}"


@dataclass(frozen=True)
class Request:
    """The wishes of one Service.

    `versions`: IP versions of its cluster IPs, the preferred one first. `sharing_key`: "" if it shares no address; all
    Services that ask for OpenELB share addresses that they name. `backend_key`: equal for Services that share one.
    `addresses`: those that it names. `pool`: the pool or Eip that it names. `is_openelb`: it asks for OpenELB.
    """

    key: ObjectKey
    labels: Labels = field(default_factory=dict)
    namespace_labels: Labels = field(default_factory=dict)
    versions: tuple[Version, ...] = (4,)
    policy: str = "SingleStack"
    ports: tuple[Port, ...] = ()
    sharing_key: str = ""
    backend_key: str = ""
    addresses: tuple[IpAddress, ...] = ()
    pool: str = ""
    is_openelb: bool = False


def read_request(service: Service, namespace_labels: Labels) -> Request:
    """Return the wishes of a Service of type LoadBalancer. Raises NotAllocated if they contradict each other."""
    spec, annotations = service.spec, service.metadata.annotations
    is_openelb = annotations.get(OPENELB_ANNOTATION) == OPENELB_VALUE or bool(
        {EIP_NAME_ANNOTATION, EIP_ADDRESS_ANNOTATION} & annotations.keys()
    )
    versions = cluster_versions(service)
    policy = spec.ip_family_policy or "SingleStack"
    if policy == "RequireDualStack" and len(versions) < 2:
        clusterips = " ".join(spec.cluster_ips)
        raise NotAllocated(
            PendingReason.INVALID_REQUEST, f"Service requires dual stack but not enough clusterips [{clusterips}]"
        )
    addresses = _openelb_addresses(service) if is_openelb else requested_addresses(service)
    if addresses and not is_openelb and {address.version for address in addresses} != set(versions):
        raise NotAllocated(
            PendingReason.INVALID_REQUEST,
            f"requested loadBalancer IP(s) {quote_addresses(addresses)} does not match the ipFamily of the service",
        )
    return Request(
        key=service.key,
        labels=service.metadata.labels,
        namespace_labels=namespace_labels,
        versions=versions,
        policy=policy,
        ports=tuple(Port(port.protocol, port.port) for port in spec.ports),
        sharing_key=_annotation(annotations, _SHARING) or (OPENELB_VALUE if is_openelb else ""),
        backend_key=_backend_key(service),
        addresses=addresses,
        pool=annotations.get(EIP_NAME_ANNOTATION, "") if is_openelb else _annotation(annotations, _POOL),
        is_openelb=is_openelb,
    )


def cluster_versions(service: Service) -> tuple[Version, ...]:
    """Return the IP versions of the cluster IPs; empty before they are allocated."""
    texts = service.spec.cluster_ips or ((service.spec.cluster_ip,) if service.spec.cluster_ip else ())
    return tuple(6 if ":" in text else 4 for text in texts if text != "None")


def requested_addresses(service: Service) -> tuple[IpAddress, ...]:
    """Return the addresses that the annotation or spec.loadBalancerIP names. Raises NotAllocated."""
    listed, single = _annotation(service.metadata.annotations, _ADDRESSES), service.spec.load_balancer_ip
    name = f"{_PREFIXES[0]}{_ADDRESSES}"
    if listed and single:
        raise _invalid(f"service can not have both {name} and svc.Spec.LoadBalancerIP")
    if not listed:
        return (_parse(single, f'invalid spec.loadBalancerIP "{single}"'),) if single else ()
    addresses = tuple(_parse(text, f'invalid {name}: "{listed}"') for text in listed.split(","))
    if len(addresses) > 2 or len({address.version for address in addresses}) < len(addresses):
        raise _invalid(f"{quote_addresses(addresses)}: at most one address of each family")
    return addresses


def deprecated_annotations(service: Service) -> list[str]:
    """Return the annotations with the deprecated prefix that have an effect."""
    return [
        f"{_PREFIXES[1]}{name}"
        for name in (_POOL, _ADDRESSES, _SHARING)
        if f"{_PREFIXES[1]}{name}" in service.metadata.annotations
    ]


def _openelb_addresses(service: Service) -> tuple[IpAddress, ...]:
    text = service.metadata.annotations.get(EIP_ADDRESS_ANNOTATION) or service.spec.load_balancer_ip
    return (_parse(text, f'invalid {EIP_ADDRESS_ANNOTATION}: "{text}"'),) if text else ()


def _annotation(annotations: Mapping[str, str], name: str) -> str:
    return next((annotations[prefix + name] for prefix in _PREFIXES if prefix + name in annotations), "")


def _backend_key(service: Service) -> str:
    """Return the selector of a Service whose traffic goes to local endpoints only, else ""."""
    if service.spec.external_traffic_policy != "Local":
        return ""
    return ",".join(f"{key}={value}" for key, value in sorted(service.spec.selector.items()))


def _parse(text: str, problem: str) -> IpAddress:
    try:
        return parse_address(text)
    except ValueError:
        raise _invalid(problem) from None


def _invalid(message: str) -> NotAllocated:
    return NotAllocated(PendingReason.INVALID_REQUEST, message)
