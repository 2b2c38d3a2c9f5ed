"""Decisions about Services that get no address for reasons that the allocator does not know.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import replace

from bridgehead.balancer.allocation import Decision, Note, Pending, PendingReason
from bridgehead.objects.core import Service


def not_configured(service: Service, problem: str) -> Decision:
    """Return the decision while there are no valid pools. `problem`: why."""
    text = f"the configuration is invalid: {problem}"
    note = Note("AllocationFailed", f'Failed to allocate IP for "{service.key}": {text}', "Warning")
    return Decision(pending=Pending(PendingReason.INVALID_CONFIGURATION, text), notes=[note])


def wrong_class(service: Service, own: str) -> Decision:
    """Return the decision on a Service of another class than `own` ("": Services without a class)."""
    found = service.spec.load_balancer_class or ""
    served = f'"{own}"' if own else "Services without a class"
    message = f'loadBalancerClass is "{found}"; this balancer serves {served}'
    return Decision(
        pending=Pending(PendingReason.WRONG_CLASS, message), notes=[Note("LoadBalancerClassIgnored", message)]
    )


def with_problem(pending: Pending, problem: str) -> Pending:
    """Add to the reason of a Service that waits why new pools are not in force."""
    message = f"{pending.message}; the last valid configuration is in force, because of: {problem}"
    return replace(pending, message=message)
