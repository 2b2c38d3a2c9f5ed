"""coordination.k8s.io/v1 Lease.

Pure: no I/O, no clock, no randomness. Source: Kubernetes API reference v1.36.
"""

from __future__ import annotations

from .meta import Object, Part


class LeaseSpec(Part, frozen=True, kw_only=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True, kw_only=True):
    spec: LeaseSpec = LeaseSpec()
