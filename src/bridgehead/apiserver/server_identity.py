"""The Lease in kube-system by which an API server shows its identity, and deletion of those of servers that are gone.

Kubernetes names the Lease after the host, and asks for host names that are unique. Several servers of one machine have
the same, so the name here also depends on the server's address.
Source: Kubernetes "Leases", API server identity; pkg/controlplane/apiserver/server.go, controller/apiserverleasegc.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from base64 import b32encode
from hashlib import sha256

import msgspec

from bridgehead.objects.times import format_micro_time, parse_time
from bridgehead.storage import Key, Record, StorageError

from .errors import ApiStatus
from .registry.deletion import DeleteOptions
from .registry.ensuring import ensure
from .registry.registry import Registry
from .registry.write import Write
from .resource import Resource

log = logging.getLogger(__name__)

DURATION_SECONDS = 3600
RENEW_SECONDS = 10.0
COLLECTION_SECONDS = 3600.0
IDENTITY_LABEL = "apiserver.kubernetes.io/identity"
IDENTITY = "kube-apiserver"
HOSTNAME_LABEL = "kubernetes.io/hostname"
NAMESPACE = "kube-system"
PATH = ("coordination.k8s.io", "v1", "leases")


class _Metadata(msgspec.Struct, frozen=True):
    labels: dict[str, str] = {}


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class _Lease(msgspec.Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()


class ServerIdentity:
    """The identity of the server at `address` (`host:port`) on the host `hostname`."""

    def __init__(self, registry: Registry, hostname: str, address: str) -> None:
        self._registry = registry
        self._hostname = hostname
        digest = sha256(f"{hostname} {address}".encode()).digest()[:16]
        self.name = f"apiserver-{b32encode(digest).decode().rstrip('=').lower()}"
        self._holder = f"{self.name}_{uuid.uuid4()}"

    async def run(self) -> None:
        """Renew the Lease every RENEW_SECONDS and delete expired ones every COLLECTION_SECONDS, until cancelled."""
        loop = asyncio.get_running_loop()
        collect_at = loop.time()
        while True:
            try:
                await self.renew()
                if loop.time() >= collect_at:
                    collect_at = loop.time() + COLLECTION_SECONDS
                    await collect(self._registry)
            except (ApiStatus, StorageError) as error:
                log.warning("cannot renew the lease %s/%s: %s", NAMESPACE, self.name, error)
            await asyncio.sleep(RENEW_SECONDS)

    async def renew(self) -> None:
        """Renew the Lease, or create it. Raises ApiStatus, StorageError."""
        spec = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": DURATION_SECONDS,
            "renewTime": format_micro_time(self._registry.clock()),
        }
        labels = {IDENTITY_LABEL: IDENTITY, HOSTNAME_LABEL: self._hostname}
        lease = {"metadata": {"name": self.name, "labels": labels}, "spec": spec}
        await ensure(self._registry, PATH, NAMESPACE, lease, replace=("spec",))


async def collect(registry: Registry) -> None:
    """Delete the Leases of servers that were not renewed for their duration. Raises StorageError."""
    leases = registry.find(*PATH)
    if leases is None:
        return
    now = registry.clock()
    for record in registry.store.list(leases.id, NAMESPACE):
        if _is_expired(record, now):
            await _delete(registry, leases, record)


def _is_expired(record: Record, now: float) -> bool:
    try:
        lease = msgspec.json.decode(record.value, type=_Lease)
        if lease.metadata.labels.get(IDENTITY_LABEL) != IDENTITY:
            return False
        if lease.spec.renew_time is None or lease.spec.lease_duration_seconds is None:
            return True  # no server has written it
        return parse_time(lease.spec.renew_time) + lease.spec.lease_duration_seconds < now
    except (msgspec.DecodeError, ValueError):
        return False  # an object that cannot be read is not this module's to delete


async def _delete(registry: Registry, leases: Resource, record: Record) -> None:
    key: Key = record.key
    try:
        # The deletion has a precondition: the server may have come back.
        options = DeleteOptions(resource_version=str(record.revision))
        await registry.delete(Write(leases, key.namespace, key.name), options)
    except ApiStatus as status:
        if status.code not in (404, 409):
            log.warning("cannot delete the expired lease %s/%s: %s", key.namespace, key.name, status)
