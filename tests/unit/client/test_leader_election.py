"""Election against a store of leases that can be cut off, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from bridgehead.client import LeaderElector, ListResult, WatchEvent
from bridgehead.client.codec import ListMeta
from bridgehead.client.errors import AlreadyExists, Conflict, NotFound, Unreachable
from bridgehead.client.leader_election import release_lease
from bridgehead.objects.coordination import Lease
from bridgehead.objects.meta import ObjectKey
from tests.unit.virtual_time import run_virtual

KEY = ObjectKey("kube-system", "leader")


class Leases:
    """The part of the API that holds one Lease and Events; `down` plays a network that is cut."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.events: list[str] = []
        self.version = 0
        self.down = False
        self._changed = asyncio.Condition()

    def _check(self) -> None:
        if self.down:
            raise Unreachable("cut off")

    async def _store(self, lease: Lease) -> Lease:
        self.version += 1
        meta = msgspec.structs.replace(lease.metadata, resource_version=str(self.version))
        self.lease = msgspec.structs.replace(lease, metadata=meta)
        async with self._changed:
            self._changed.notify_all()
        return self.lease

    async def get(self, kind: Any, name: str, namespace: str) -> Lease:
        self._check()
        if self.lease is None:
            raise NotFound(404, "NotFound", name)
        return self.lease

    async def create(self, kind: Any, obj: Any) -> Any:
        self._check()
        if not isinstance(obj, Lease):
            self.events.append(obj.message)
            return obj
        if self.lease is not None:
            raise AlreadyExists(409, "AlreadyExists", "")
        return await self._store(obj)

    async def update(self, kind: Any, lease: Lease) -> Lease:
        self._check()
        if self.lease is None or lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise Conflict(409, "Conflict", "")
        return await self._store(lease)

    async def list(self, *selection: Any) -> ListResult[Lease]:
        self._check()
        metadata = ListMeta(resource_version=str(self.version))
        return ListResult([self.lease] if self.lease is not None else [], metadata)

    async def watch(self, *selection: Any, resource_version: str, **more: Any) -> AsyncIterator[WatchEvent[Lease]]:
        seen = int(resource_version)
        while True:
            async with self._changed:
                while self.version <= seen:
                    await self._changed.wait()
            self._check()
            seen = self.version
            assert self.lease is not None
            yield WatchEvent("MODIFIED", self.lease)


class Candidate:
    def __init__(self, leases: Leases, name: str) -> None:
        self.spans: list[list[float]] = []
        self.has_led = asyncio.Event()
        self.elector = LeaderElector(leases, KEY, name, "part")  # type: ignore[arg-type]

    async def lead(self) -> None:
        now = asyncio.get_running_loop().time
        span = [now(), -1.0]
        self.spans.append(span)
        self.has_led.set()
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


def test_one_candidate_leads_and_the_next_follows_at_the_release():
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
        await asyncio.sleep(0.001)
        assert len(two.spans) == 1, "the watch of the Lease shows the release"
        assert two.spans[0][0] >= one.spans[0][1]
        assert leases.lease.spec.lease_transitions == 1
        assert leases.events == ["one became leader", "two became leader"]
        await cancel(second)

    run_virtual(main())


def test_a_crashed_leaders_lease_is_taken_when_it_expires_or_when_it_is_released():
    async def main(releases: bool) -> float:
        mine, theirs = Leases(), Leases()
        one = Candidate(mine, "one")
        first = one.start()
        await asyncio.sleep(10)
        theirs.lease, theirs.version = mine.lease, mine.version  # from here on, `one` has no effect on `theirs`
        two = Candidate(theirs, "two")
        second = two.start()
        await asyncio.sleep(5)
        began = asyncio.get_running_loop().time()
        if releases:
            assert not await release_lease(theirs, KEY, "three")  # type: ignore[arg-type]
            assert await release_lease(theirs, KEY, "one")  # type: ignore[arg-type]
        await two.has_led.wait()
        await cancel(first, second)
        return two.spans[0][0] - began

    assert 9.9 < run_virtual(main(releases=False)) < 10.1, "at the moment of the expiry"
    assert run_virtual(main(releases=True)) < 0.1


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
        assert 10 < ended <= 10 + 10
        assert not one.elector.is_leader

    run_virtual(main())


def test_a_leader_whose_lease_another_candidate_has_stops_at_once():
    async def main() -> None:
        leases = Leases()
        one = Candidate(leases, "one")
        task = one.start()
        await asyncio.sleep(10)
        assert leases.lease is not None
        spec = msgspec.structs.replace(leases.lease.spec, holder_identity="two")
        await leases.update(None, msgspec.structs.replace(leases.lease, spec=spec))
        await asyncio.wait([task])
        ((_, ended),) = one.spans
        assert ended <= 12.1
        assert leases.lease.spec.holder_identity == "two"

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


def test_a_leader_goes_on_after_a_change_that_leaves_it_the_holder():
    async def main() -> None:
        leases = Leases()
        one = Candidate(leases, "one")
        task = one.start()
        await asyncio.sleep(10)
        assert leases.lease is not None
        labels = msgspec.structs.replace(leases.lease.metadata, labels={"a": "b"})
        await leases.update(None, msgspec.structs.replace(leases.lease, metadata=labels))
        await asyncio.sleep(100)
        assert len(one.spans) == 1
        assert one.elector.is_leader
        assert leases.lease.metadata.labels == {"a": "b"}
        await cancel(task)

    run_virtual(main())


def test_a_lease_that_is_deleted_is_made_again_by_its_leader():
    async def main() -> None:
        leases = Leases()
        one = Candidate(leases, "one")
        task = one.start()
        await asyncio.sleep(10)
        leases.lease = None
        await asyncio.sleep(10)
        assert leases.lease is not None
        assert one.elector.is_leader
        await cancel(task)

    run_virtual(main())


def test_an_exception_of_the_leader_is_raised_after_the_release():
    async def main() -> None:
        async def lead() -> None:
            raise ZeroDivisionError

        leases = Leases()
        elector = LeaderElector(leases, KEY, "one", "part")  # type: ignore[arg-type]
        try:
            await elector.run(lead)
        except ZeroDivisionError:
            assert leases.lease is not None
            assert leases.lease.spec.holder_identity == ""
            return
        raise AssertionError("nothing was raised")

    run_virtual(main())
