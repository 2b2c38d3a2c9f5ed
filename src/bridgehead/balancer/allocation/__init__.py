"""Allocation of addresses to Services: bookkeeping of pools, addresses in use and requests, without I/O."""

from .allocator import Allocation, Allocator
from .convergence import Decision, Note, Pending, adopt, converge
from .reasons import NotAllocated, PendingReason
from .requests import Request, read_request

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
