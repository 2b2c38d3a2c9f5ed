"""Allocation of addresses to Services: bookkeeping of pools, addresses in use and requests, without I/O."""

from .address_requests import Request, read_request
from .allocator import Allocation, Allocator
from .convergence import Decision, Note, Pending, adopt, converge
from .pending_reasons import NotAllocated, PendingReason

__all__ = [
    "Allocation",
    "Allocator",
    "Decision",
    "NotAllocated",
    "Note",
    "Pending",
    "PendingReason",
    "Request",
    "adopt",
    "converge",
    "read_request",
]
