"""Heartbeats, against a store of one Lease."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from bridgehead.client import renew_lease
from bridgehead.client.errors import AlreadyExists, NotFound
from bridgehead.objects.coordination import Lease
from bridgehead.objects.meta import ObjectKey, OwnerReference


class Leases:
    lease: Lease | None = None

    async def create(self, kind: Any, lease: Lease) -> Lease:
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", lease.metadata.name)
        self.lease = lease
        return lease

    async def patch(self, kind: Any, name: str, namespace: str, patch: Any) -> Lease:
        if self.lease is None:
            raise NotFound(404, "NotFound", name)
        spec = {**msgspec.to_builtins(self.lease.spec), **patch["spec"]}
        self.lease = msgspec.structs.replace(self.lease, spec=msgspec.convert(spec, type(self.lease.spec)))
        return self.lease


def test_heartbeats_create_the_lease_and_then_renew_it():
    async def main() -> None:
        leases = Leases()
        owner = OwnerReference(api_version="v1", kind="Node", name="node1", uid="u")
        for now in (0.000001, 10.5):
            await renew_lease(
                leases,  # type: ignore[arg-type]
                ObjectKey("kube-node-lease", "node1"),
                holder="node1",
                duration_seconds=40,
                owner=owner,
                now=lambda now=now: now,
            )
            assert leases.lease is not None
            assert leases.lease.metadata.owner_references == (owner,)
            assert leases.lease.spec.holder_identity == "node1"
            assert leases.lease.spec.lease_duration_seconds == 40
        assert leases.lease is not None
        assert leases.lease.spec.renew_time == "1970-01-01T00:00:10.500000Z"

    asyncio.run(main())


@pytest.mark.parametrize("exists", [False, True])
def test_a_lease_that_is_probably_missing_is_created_or_renewed(exists):
    async def main() -> Leases:
        leases = Leases()
        for is_new in (False, True) if exists else (True,):
            await renew_lease(
                leases,  # type: ignore[arg-type]
                ObjectKey("kube-node-lease", "node1"),
                holder="node1",
                duration_seconds=40,
                is_new=is_new,
                now=lambda is_new=is_new: 10.5 if is_new else 0.0,
            )
        return leases

    lease = asyncio.run(main()).lease
    assert lease is not None
    assert lease.spec.renew_time == "1970-01-01T00:00:10.500000Z"
