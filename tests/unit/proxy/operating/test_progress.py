"""The times, which are virtual here, at which a proxy publishes its progress, and the errors that delay it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from bridgehead.client.errors import AlreadyExists, Forbidden, NotFound, Unreachable
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import RENEW_SECONDS
from bridgehead.proxy.operating.progress import (
    FORBIDDEN_SECONDS,
    LONGEST_RETRY_SECONDS,
    SHORTEST_INTERVAL,
    WRITES_PER_SECOND,
    KnownNodes,
    ProgressPublisher,
    pace_for,
)
from tests.unit.virtual_time import run_virtual

SERVICES, SLICES = "bridgehead/services-programmed", "bridgehead/endpointslices-programmed"


class Leases:
    """An API with one Lease. `refusals` are raised one after another; `writes` are (time, services, slices)."""

    def __init__(self, nodes: int = 3, *, exists: bool = True) -> None:
        self.nodes = nodes
        self.exists = exists
        self.refusals: list[Exception] = []
        self.writes: list[tuple[float, int, int]] = []
        self.created: dict[str, Any] = {}

    def _take(self, lease: dict[str, Any]) -> None:
        annotations = lease["metadata"]["annotations"]
        now = asyncio.get_running_loop().time()
        self.writes.append((now, int(annotations[SERVICES]), int(annotations[SLICES])))

    async def patch(self, kind: Any, name: str, namespace: str, changes: dict[str, Any]) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        if not self.exists:
            raise NotFound(404, "NotFound", f'leases "{name}" not found')
        self._take(changes)

    async def create(self, kind: Any, lease: dict[str, Any]) -> None:
        if self.exists:
            raise AlreadyExists(409, "AlreadyExists", "already exists")
        self.exists, self.created = True, lease
        self._take(lease)

    @property
    def times(self) -> Sequence[float]:
        return [time for time, _, _ in self.writes]


def publish(api: Leases, *steps: tuple[float, int, bool], until: float = 5.0, jitter: float = 0.0) -> None:
    """Report at each step's time the number of programmed slices, and whether anything changed."""

    async def main() -> None:
        publisher = ProgressPublisher(api, "node1", now=lambda: 0.0, jitter=lambda: jitter)  # type: ignore[arg-type]
        task = asyncio.create_task(publisher.run())
        loop = asyncio.get_running_loop()
        for at, slices, changed in steps:
            await asyncio.sleep(at - loop.time())
            publisher.on_programmed("1", str(slices), KnownNodes(api.nodes, "u1" if api.nodes else ""), changed=changed)
        await asyncio.sleep(until - loop.time())
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())


def test_nothing_is_published_before_the_first_sync():
    api = Leases()
    publish(api)
    assert api.writes == []


def test_a_change_is_published_at_once_and_later_ones_after_the_interval():
    api = Leases()
    publish(api, (1.0, 10, True), (1.005, 11, True), (1.01, 12, True), (3.0, 13, True))
    assert api.writes == [(1.0, 1, 10), (pytest.approx(1.0 + SHORTEST_INTERVAL), 1, 12), (3.0, 1, 13)]


def test_versions_without_changes_wait_for_the_renewal():
    api = Leases()
    publish(api, (0.0, 10, False), (2.0, 11, False), (2.5, 11, True), until=RENEW_SECONDS + 1)
    assert [(round(time), slices) for time, _, slices in api.writes] == [(0, 10), (10, 11)]


def test_rejected_services_are_published_at_once():
    api = Leases()
    patches = []
    real = api.patch

    async def patch(kind: Any, name: str, namespace: str, changes: dict[str, Any]) -> None:
        await real(kind, name, namespace, changes)
        patches.append(changes["metadata"]["annotations"]["bridgehead/services-refused"])

    api.patch = patch

    async def main() -> None:
        publisher = ProgressPublisher(api, "node1", now=lambda: 0.0, jitter=lambda: 0.0)  # type: ignore[arg-type]
        task = asyncio.create_task(publisher.run())
        bad = ObjectKey("default", "bad")
        for refused in ((), (bad,), (bad,), ()):
            publisher.on_programmed("1", "1", KnownNodes(), changed=False, refused=refused)
            await asyncio.sleep(1.0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    run_virtual(main())
    assert patches == [None, "default/bad", None]


def test_the_lease_is_renewed():
    api = Leases()
    publish(api, (0.0, 10, True), until=4 * RENEW_SECONDS)
    assert [round(time) for time in api.times] == [0, 10, 20, 30]


def test_a_missing_lease_is_created_and_belongs_to_the_node():
    api = Leases(exists=False)
    publish(api, (0.0, 10, True))
    assert len(api.writes) == 1
    assert api.created["metadata"]["ownerReferences"][0]["uid"] == "u1"
    assert api.created["metadata"]["name"] == "kube-proxy-node1"


def test_a_lease_without_a_node_has_no_owner():
    api = Leases(nodes=0, exists=False)
    publish(api, (0.0, 10, True))
    assert "ownerReferences" not in api.created["metadata"]


def test_a_lease_created_by_another_process_is_used():
    api = Leases()
    api.refusals = [NotFound(404, "NotFound", "not found")]
    publish(api, (0.0, 10, True))
    assert api.writes == [(0.0, 1, 10)]


def test_an_error_is_logged_once_and_retried(caplog):
    caplog.set_level(logging.INFO)
    api = Leases()
    api.refusals = [Unreachable("away")] * 10
    publish(api, (0.0, 10, True), (3.0, 11, True), until=10 * LONGEST_RETRY_SECONDS)
    assert not api.refusals
    assert api.writes[0][2] == 11
    assert [record.message for record in caplog.records] == [
        "the proxy's progress is not published: away",
        "the proxy's progress is published again",
    ]


def test_without_permission_requests_back_off(caplog):
    api = Leases()
    api.refusals = [Forbidden(403, "Forbidden", "leases is forbidden")] * 100
    publish(api, *((float(i), i, True) for i in range(1, 600)), until=700.0)
    assert 100 - len(api.refusals) <= 1 + 700 / FORBIDDEN_SECONDS
    assert len(caplog.records) == 1


@pytest.mark.parametrize("nodes", [1, 3, 50, 500, 5000])
def test_the_write_rate_of_all_proxies_is_bounded(nodes):
    api = Leases(nodes)
    # Changes all the time: this one's writes stand for everybody's.
    publish(api, *((i / 20, i, True) for i in range(1, 1000)), until=50.0, jitter=0.5)
    assert 0 < nodes * len(api.writes) / 50 <= WRITES_PER_SECOND


def test_one_change_does_not_cause_all_proxies_to_write_at_once():
    assert pace_for(3).spread < 0.01
    assert pace_for(2500).spread == 5.0
    api = Leases(2500)
    publish(api, (1.0, 10, True), until=9.0, jitter=0.5)
    assert api.times == [pytest.approx(1.0 + 2.5)]


def test_the_patch_is_valid_json():
    api = Leases()
    seen = []

    async def patch(kind: Any, name: str, namespace: str, changes: dict[str, Any]) -> None:
        seen.append(msgspec.json.encode(changes))

    api.patch = patch
    publish(api, (0.0, 10, True))
    assert b'"leaseDurationSeconds":40' in seen[0]
