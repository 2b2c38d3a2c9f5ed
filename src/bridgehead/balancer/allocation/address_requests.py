"""Requests of Services: families, ports, pool, addresses and sharing, from spec and annotations.

Pure: no I/O, no clock, no randomness. Source: MetalLB, controller/service.go; OpenELB v0.6.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from bridgehead.balancer.ranges import IpAddress, parse_address
from bridgehead.objects.address_holders import (
    ANNOTATION_PREFIXES,
    EIP_ADDRESS_ANNOTATION,
    EIP_NAME_ANNOTATION,
    SHARING,
    is_openelb,
    read_annotation,
    share_key,
)
from bridgehead.objects.core import Service
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.selectors import Labels

from .pending_reasons import NotAllocated, PendingReason, quote_addresses

Version = Literal[4, 6]
_POOL, _ADDRESSES = "address-pool", "loadBalancerIPs"


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
    asks_openelb = is_openelb(service)
    share = share_key(service)
    versions = cluster_versions(service)
    policy = spec.ip_family_policy or "SingleStack"
    if policy == "RequireDualStack" and len(versions) < 2:
        clusterips = " ".join(spec.cluster_ips)
        raise NotAllocated(
            PendingReason.INVALID_REQUEST, f"Service requires dual stack but not enough clusterips [{clusterips}]"
        )
    addresses = _openelb_addresses(service) if asks_openelb else requested_addresses(service)
    if addresses and not asks_openelb and {address.version for address in addresses} != set(versions):
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
        ports=_ports(service),
        sharing_key=share.key,
        backend_key=share.backends,
        addresses=addresses,
        pool=annotations.get(EIP_NAME_ANNOTATION, "") if asks_openelb else read_annotation(annotations, _POOL),
        is_openelb=asks_openelb,
    )


def wishless_request(service: Service, namespace_labels: Labels) -> Request:
    """Return the request of a Service that only keeps what it has: its wishes contradict each other."""
    share = share_key(service)
    return Request(
        key=service.key,
        labels=service.metadata.labels,
        namespace_labels=namespace_labels,
        versions=cluster_versions(service),
        ports=_ports(service),
        sharing_key=share.key,
        backend_key=share.backends,
    )


def cluster_versions(service: Service) -> tuple[Version, ...]:
    """Return the IP versions of the cluster IPs; empty before they are allocated."""
    texts = service.spec.cluster_ips or ((service.spec.cluster_ip,) if service.spec.cluster_ip else ())
    return tuple(6 if ":" in text else 4 for text in texts if text != "None")


def requested_addresses(service: Service) -> tuple[IpAddress, ...]:
    """Return the addresses that the annotation or spec.loadBalancerIP names. Raises NotAllocated."""
    listed, single = read_annotation(service.metadata.annotations, _ADDRESSES), service.spec.load_balancer_ip
    name = f"{ANNOTATION_PREFIXES[0]}{_ADDRESSES}"
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
        f"{ANNOTATION_PREFIXES[1]}{name}"
        for name in (_POOL, _ADDRESSES, SHARING)
        if f"{ANNOTATION_PREFIXES[1]}{name}" in service.metadata.annotations
    ]


def _ports(service: Service) -> tuple[Port, ...]:
    return tuple(Port(port.protocol, port.port) for port in service.spec.ports)


def _openelb_addresses(service: Service) -> tuple[IpAddress, ...]:
    text = service.metadata.annotations.get(EIP_ADDRESS_ANNOTATION) or service.spec.load_balancer_ip
    return (_parse(text, f'invalid {EIP_ADDRESS_ANNOTATION}: "{text}"'),) if text else ()


def _parse(text: str, problem: str) -> IpAddress:
    try:
        return parse_address(text)
    except ValueError:
        raise _invalid(problem) from None


def _invalid(message: str) -> NotAllocated:
    return NotAllocated(PendingReason.INVALID_REQUEST, message)
