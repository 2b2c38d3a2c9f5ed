"""Election and heartbeats against a store of leases that can be cut off, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from bridgehead.client import LeaderElector, renew_lease
from bridgehead.client.errors import AlreadyExists, Conflict, NotFound, Unreachable
from bridgehead.objects.coordination import Lease
from bridgehead.objects.meta import ObjectKey, OwnerReference
from tests.unit.virtual_time import run_virtual

KEY = ObjectKey("kube-system", "leader")


class Leases:
    """The part of the API that holds leases; `down` plays a network that is cut."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.version = 0
        self.down = False

    def _check(self) -> None:
        if self.down:
            raise Unreachable("cut off")

    def _store(self, lease: Lease) -> Lease:
        self.version += 1
        meta = msgspec.structs.replace(lease.metadata, resource_version=str(self.version))
        self.lease = msgspec.structs.replace(lease, metadata=meta)
        return self.lease

    async def get(self, kind: Any, name: str, namespace: str) -> Lease:
        self._check()
        if self.lease is None:
            raise NotFound(404, "NotFound", name)
        return self.lease

    async def create(self, kind: Any, lease: Lease) -> Lease:
        self._check()
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        return self._store(lease)

    async def update(self, kind: Any, lease: Lease) -> Lease:
        self._check()
        if self.lease is None or lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise Conflict(409, "Conflict", "")
        return self._store(lease)

    async def patch(self, kind: Any, name: str, namespace: str, patch: Any) -> Lease:
        lease = await self.get(kind, name, namespace)
        spec = {**msgspec.to_builtins(lease.spec), **patch["spec"]}
        return self._store(msgspec.structs.replace(lease, spec=msgspec.convert(spec, type(lease.spec))))


class Candidate:
    def __init__(self, leases: Leases, name: str) -> None:
        self.spans: list[list[float]] = []
        self.elector = LeaderElector(leases, KEY, name)  # type: ignore[arg-type]

    async def lead(self) -> None:
        now = asyncio.get_running_loop().time
        span = [now(), -1.0]
        self.spans.append(span)
        try:
            await asyncio.sleep(1e9)
        finally:
            span[1] = now()

    def start(self) -> asyncio.Task[None]:
        return asyncio.create_task(self.elector.run(self.lead))


async def cancel(*tasks: asyncio.Task[None]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)


def test_one_candidate_leads_and_the_next_follows_after_a_release():
    async def main() -> None:
        leases = Leases()
        one, two = Candidate(leases, "one"), Candidate(leases, "two")
        first = one.start()
        await asyncio.sleep(1)
        second = two.start()
        await asyncio.sleep(100)
        assert (len(one.spans), len(two.spans)) == (1, 0)
        assert leases.lease is not None
        assert leases.lease.spec.holder_identity == "one"
        await cancel(first)
        await asyncio.sleep(3)
        assert len(two.spans) == 1, "the lease was given back"
        assert two.spans[0][0] >= one.spans[0][1]
        assert leases.lease.spec.lease_transitions == 1
        await cancel(second)

    run_virtual(main())


def test_a_leader_that_disappears_is_replaced_after_the_lease_duration():
    async def main() -> None:
        mine, theirs = Leases(), Leases()
        one = Candidate(mine, "one")
        first = one.start()
        await asyncio.sleep(10)
        theirs.lease, theirs.version = mine.lease, mine.version  # from here on they can't see each other
        two = Candidate(theirs, "two")
        second = two.start()
        await asyncio.sleep(14)
        assert two.spans == []
        await asyncio.sleep(4)
        assert len(two.spans) == 1
        await cancel(first, second)

    run_virtual(main())


def test_a_disconnected_leader_stops_before_another_may_lead():
    async def main() -> None:
        leases = Leases()
        one = Candidate(leases, "one")
        task = one.start()
        await asyncio.sleep(10)
        leases.down = True
        await asyncio.wait([task])
        assert task.exception() is None
        ((_, ended),) = one.spans
        assert 10 < ended < 10 + 15 - 2
        assert not one.elector.is_leader

    run_virtual(main())


def test_a_short_outage_does_not_end_leadership():
    async def main() -> None:
        leases = Leases()
        one = Candidate(leases, "one")
        task = one.start()
        await asyncio.sleep(10)
        leases.down = True
        await asyncio.sleep(6)
        leases.down = False
        await asyncio.sleep(100)
        assert one.elector.is_leader
        assert len(one.spans) == 1
        await cancel(task)

    run_virtual(main())


def test_an_exception_of_the_leader_is_raised():
    async def main() -> None:
        async def lead() -> None:
            raise ZeroDivisionError

        elector = LeaderElector(Leases(), KEY, "one")  # type: ignore[arg-type]
        try:
            await elector.run(lead)
        except ZeroDivisionError:
            return
        raise AssertionError("nothing was raised")

    run_virtual(main())


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

    run_virtual(main())
