"""Convergence of one Service: keep its addresses if they are valid, else give it others, else report why it waits.

Pure: no I/O, no clock, no randomness. Source: MetalLB, controller/service.go (Events, order of the checks).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field

from bridgehead.balancer.ranges import IpAddress
from bridgehead.objects.core import Service
from bridgehead.objects.selectors import Labels

from .address_requests import Request, deprecated_annotations, read_request, wishless_request
from .allocator import Allocation, Allocator
from .pending_reasons import NotAllocated, PendingReason, quote_addresses


@dataclass(frozen=True)
class Note:
    """An Event about the Service."""

    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True)
class Pending:
    """Why the Service has no address, or why no node announces it."""

    reason: PendingReason
    message: str


@dataclass
class Decision:
    """The state that a Service should have. `allocation` is None while it waits.

    `pending`: why it waits, or why no node announces its address.
    """

    allocation: Allocation | None = None
    pending: Pending | None = None
    notes: list[Note] = field(default_factory=list)
    is_openelb: bool = False


def converge(allocator: Allocator, service: Service, namespace_labels: Labels) -> Decision:
    """Decide on a Service of type LoadBalancer that has cluster IPs, and record the decision in `allocator`."""
    decision = Decision()
    held = allocator.allocation(service.key)
    # A decision may not be written yet: the Service keeps what it was given, also when the write is repeated.
    current = current_addresses(service) or (() if held is None else held.addresses)
    deprecated = deprecated_annotations(service)
    if deprecated:
        message = f"{', '.join(deprecated)}: the prefix metallb.universe.tf is deprecated, use metallb.io"
        decision.notes.append(Note("deprecatedAnnotation", message, "Warning"))
    try:
        request = read_request(service, namespace_labels)
    except NotAllocated as error:
        _refuse_request(allocator, wishless_request(service, namespace_labels), current, error, decision)
        return decision
    decision.is_openelb = request.is_openelb
    decision.allocation = _keep(allocator, request, current, decision)
    if decision.allocation is None:
        allocator.release(request.key)
        _allocate(allocator, request, decision)
    elif len(decision.allocation.addresses) < len(request.versions) and not request.is_openelb:
        _add_family(allocator, request, decision)
    return decision


def adopt(allocator: Allocator, service: Service, namespace_labels: Labels) -> None:
    """Record the addresses that a Service has, if it may keep them. For all Services before any other decision."""
    current = current_addresses(service)
    if not current:
        return
    try:
        request = read_request(service, namespace_labels)
    except NotAllocated:
        _keep_as_they_are(allocator, wishless_request(service, namespace_labels), current)
    else:
        _keep(allocator, request, current, Decision())


def current_addresses(service: Service) -> tuple[IpAddress, ...]:
    """Return the addresses in the Service's status; those that are no addresses are left out."""
    found = []
    for ingress in service.status.load_balancer.ingress:
        try:
            found.append(ipaddress.ip_address(ingress.ip))
        except ValueError:
            continue
    return tuple(found)


def _refuse_request(
    allocator: Allocator, request: Request, current: Sequence[IpAddress], error: NotAllocated, decision: Decision
) -> None:
    """A Service with addresses keeps them when its wishes become contradictory."""
    held = allocator.allocation(request.key)
    if held is None and current:
        held = _keep_as_they_are(allocator, request, current)
    if held is not None:
        decision.allocation = held
        message = f"invalid requested loadbalancer IPs: {error}"
        decision.notes.append(Note("LoadBalancerFailed", message, "Warning"))
        return
    _fail(request.key, error, decision)


def _keep_as_they_are(allocator: Allocator, request: Request, current: Sequence[IpAddress]) -> Allocation | None:
    """Return the allocation of the current addresses of a Service whose wishes contradict each other, if it may."""
    try:
        return allocator.keep(request, current)
    except NotAllocated:
        return None


def _keep(
    allocator: Allocator, request: Request, current: tuple[IpAddress, ...], decision: Decision
) -> Allocation | None:
    """Return the allocation of the current addresses if the Service may and wants to keep them."""
    if not current:
        return None
    if not _has_right_families(request, current):
        text = f'{quote_addresses(current)} of "{request.key}" do not fit its IP families'
        decision.notes.append(Note("ClearAssignment", f"{text}, will attempt for new IP assignment"))
        return None
    try:
        allocation = allocator.keep(request, current)
    except NotAllocated as error:
        text = f'current IP for "{request.key}" not allowed by config, will attempt for new IP assignment: {error}'
        decision.notes.append(Note("ClearAssignment", text))
        return None
    if request.pool and request.pool not in allocation.pools:
        return None
    if request.addresses and set(request.addresses) != set(current):
        return None
    return allocation


def _has_right_families(request: Request, current: tuple[IpAddress, ...]) -> bool:
    """Whether the addresses fit the cluster IPs: the same families, or some of them where that is enough."""
    versions = [address.version for address in current]
    if len(set(versions)) < len(versions):
        return False
    if request.policy == "PreferDualStack" or request.is_openelb:
        return set(versions) <= set(request.versions)
    return set(versions) == set(request.versions)


def _allocate(allocator: Allocator, request: Request, decision: Decision) -> None:
    try:
        decision.allocation = allocator.allocate(request)
    except NotAllocated as error:
        _fail(request.key, error, decision)
        return
    addresses = decision.allocation.addresses
    decision.notes.append(Note("IPAllocated", f"Assigned IP {quote_addresses(addresses)}"))
    if request.is_openelb:
        text = f"success to assign ip {addresses[0]} from eip {decision.allocation.pool}"
        decision.notes.append(Note("AssignIP", text))


def _add_family(allocator: Allocator, request: Request, decision: Decision) -> None:
    try:
        added = allocator.allocate_additional(request)
    except NotAllocated as error:
        message = f"cannot assign additional IP in PreferDualStack: {error}"
        decision.notes.append(Note("AdditionalAssignFailed", message))
        return
    decision.allocation = allocator.allocation(request.key)
    decision.notes.append(Note("IPAllocated", f'Assigned additional IP "{added}"'))


def _fail(key: object, error: NotAllocated, decision: Decision) -> None:
    why = f"{error} ({error.detail})" if error.detail else str(error)
    decision.notes.append(Note("AllocationFailed", f'Failed to allocate IP for "{key}": {why}', "Warning"))
    if decision.is_openelb:
        decision.notes.append(Note("AssignIPFailed", why, "Warning"))
    decision.pending = Pending(error.reason, why)
