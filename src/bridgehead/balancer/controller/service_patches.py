"""Patches that bring a Service's status and metadata in line with a decision.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import Any, Final

from bridgehead.balancer.allocation.convergence import Decision
from bridgehead.objects.address_holders import DEPRECATED_POOL_ANNOTATION, EIP_NAME_ANNOTATION, POOL_ANNOTATION
from bridgehead.objects.core import Service
from bridgehead.objects.meta import find_condition
from bridgehead.objects.times import format_time

# Why a Service waits for an address, or why no node announces it. The condition is there only as long.
CONDITION: Final = "bridgehead.io/LoadBalancerAddress"
SERVICE_FINALIZER: Final = "finalizer.lb.kubesphere.io/v1alpha1"  # OpenELB's, on Services that ask for OpenELB
EIP_FINALIZER: Final = "finalizer.ipam.kubesphere.io/v1alpha1"  # OpenELB's, on Eips

Patch = dict[str, Any]


def status_patch(service: Service, decision: Decision, now: float, *, owns_address: bool = True) -> Patch | None:
    """Return the strategic merge patch of the subresource `status`; None if nothing changes. `now`: epoch seconds.

    The annotation with the pool's name is in the same patch, so that address and pool appear together. Neither is
    changed without `owns_address`: another controller gives them.
    """
    patch: Patch = {}
    status: Patch = {}
    current = [ingress.ip for ingress in service.status.load_balancer.ingress]
    allocation = decision.allocation
    wanted = [] if allocation is None else [str(address) for address in allocation.addresses]
    if owns_address and current != wanted:
        ingress = [{"ip": ip, "ipMode": "VIP"} for ip in wanted]
        status["loadBalancer"] = {"ingress": ingress or None}
    condition = _condition(service, decision, now)
    if condition is not None:
        status["conditions"] = [condition]
    annotations = _annotations(service, "" if allocation is None else allocation.pool)
    if owns_address and annotations:
        patch["metadata"] = {"annotations": annotations}
    if status:
        patch["status"] = status
    return patch or None


def _condition(service: Service, decision: Decision, now: float) -> Patch | None:
    current = find_condition(service.status.conditions, CONDITION)
    if decision.pending is None:
        return None if current is None else {"$patch": "delete", "type": CONDITION}
    reason, message = decision.pending.reason.value, decision.pending.message
    if current is not None and (current.reason, current.message) == (reason, message):
        return None
    since = format_time(now) if current is None else current.last_transition_time or format_time(now)
    return {"type": CONDITION, "status": "False", "reason": reason, "message": message, "lastTransitionTime": since}


def _annotations(service: Service, pool: str) -> dict[str, str | None]:
    """Return the annotations to change: the pool's name, never under the deprecated prefix."""
    current = service.metadata.annotations
    changes: dict[str, str | None] = {}
    if current.get(POOL_ANNOTATION, "") != pool:
        changes[POOL_ANNOTATION] = pool or None
    if DEPRECATED_POOL_ANNOTATION in current:
        changes[DEPRECATED_POOL_ANNOTATION] = None
    return changes


def openelb_patch(service: Service, eip: str, *, is_openelb: bool) -> Patch | None:
    """Return the strategic merge patch of OpenELB's label and finalizer; None if nothing changes.

    `eip`: the Eip of the Service's address, "" if it has none.
    """
    metadata: Patch = {}
    if service.metadata.labels.get(EIP_NAME_ANNOTATION, "") != eip:
        metadata["labels"] = {EIP_NAME_ANNOTATION: eip or None}
    is_finalized = SERVICE_FINALIZER in service.metadata.finalizers
    needs_finalizer = is_openelb and bool(eip) and service.metadata.deletion_timestamp is None
    if needs_finalizer and not is_finalized:
        metadata["finalizers"] = [SERVICE_FINALIZER]
    if is_finalized and not needs_finalizer:
        metadata["$deleteFromPrimitiveList/finalizers"] = [SERVICE_FINALIZER]
    return {"metadata": metadata} if metadata else None
