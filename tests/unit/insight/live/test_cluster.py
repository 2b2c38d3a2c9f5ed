"""The live cluster against an API client without a server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import msgspec
import pytest

from bridgehead.client import ApiClient
from bridgehead.client.errors import ApiError, Forbidden, Unreachable
from bridgehead.insight.live import observing, scraping
from bridgehead.insight.live.cluster import LiveCluster
from bridgehead.insight.live.object_tables import MOST_EVENTS
from bridgehead.insight.live.subscriptions import Feed
from bridgehead.insight.live.updates import Change, Op, Table, Update
from bridgehead.objects.coordination import Lease
from bridgehead.objects.kinds import ENDPOINT_SLICES, EVENTS, LEASES, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.progress import ModeInUse, Versions, new_lease

from .objects import ApiDouble, endpoint, event, node, pod, service, slice_

SECONDS = 10.0


def lease(version: int = 1, *refused: str, mode: str = "nftables") -> Lease:
    keys = [ObjectKey(*name.split("/")) for name in refused]
    obj = new_lease("node1", Versions(), 0.0, None, refused=keys, mode=ModeInUse(mode, mode))
    obj["metadata"]["resourceVersion"] = str(version)
    return msgspec.convert(obj, Lease)


@pytest.fixture
def api():
    return ApiDouble(
        (SERVICES, service("web")),
        (ENDPOINT_SLICES, slice_("web", endpoint("10.244.1.1", "web-1"))),
        (PODS, pod("web-1")),
        (NODES, node("node1")),
        (EVENTS, event("e1")),
        (LEASES, lease()),
    )


@contextlib.asynccontextmanager
async def running(api: ApiDouble) -> AsyncIterator[LiveCluster]:
    async with LiveCluster(cast(ApiClient, api)) as live:
        assert await live.synced(SECONDS)
        yield live


async def read(feed: Feed) -> Update:
    async with asyncio.timeout(SECONDS):
        return await anext(feed)


async def change(feed: Feed, wanted: Callable[[Change], bool] = lambda change: True) -> Change:
    """Return the first change that is wanted."""
    while True:
        for found in (await read(feed)).changes:
            if wanted(found):
                return found


async def status(feed: Feed, wanted: Callable[[Any], bool]) -> Any:
    while True:
        update = await read(feed)
        if update.status is not None and wanted(update.status):
            return update.status


def row(live: LiveCluster, table: Table, key: str) -> Any:
    return next((row for row in live.snapshot({table}).rows[table] if row.key == key), None)


async def test_a_snapshot_has_all_tables(api: ApiDouble):
    async with running(api) as live:
        found = live.snapshot(set(Table))
        counts = {table.value: len(rows) for table, rows in found.rows.items()}
        assert counts == dict.fromkeys(("services", "endpoints", "pods", "nodes", "events"), 1) | dict.fromkeys(
            ("syncs", "dns", "api"), 0
        )
        assert row(live, Table.NODES, "node1").pods == 1
        assert found.status is not None
        assert found.status.is_synced
        assert msgspec.json.decode(found.json)["rows"]["services"][0]["ready"] == 1


async def test_changes_arrive_by_key(api: ApiDouble):
    async with running(api) as live:
        with live.subscribe({Table.SERVICES, Table.ENDPOINTS}) as feed:
            assert (await read(feed)).is_snapshot
            api.put(ENDPOINT_SLICES, slice_("web", endpoint("10.244.1.1", "web-1", ready=False), version=2))
            found = await change(feed, lambda change: change.table is Table.SERVICES)
            assert (found.op, found.key, found.row and found.row.problem) == (Op.CHANGED, "default/web", "NotReady")  # type: ignore[attr-defined]
            api.put(SERVICES, service("new"))
            assert (await change(feed, lambda change: change.key == "default/new")).op is Op.ADDED
            api.remove(SERVICES, service("new"))
            found = await change(feed, lambda change: change.op is Op.REMOVED)
            assert (found.key, found.row) == ("default/new", None)


async def test_an_endpoint_that_is_replaced_changes_the_endpoints_only(api: ApiDouble):
    async with running(api) as live:
        with live.subscribe({Table.SERVICES, Table.ENDPOINTS}) as feed:
            await read(feed)
            api.put(ENDPOINT_SLICES, slice_("web", endpoint("10.244.1.9", "web-9"), version=2))
            assert [each.table for each in (await read(feed)).changes] == [Table.ENDPOINTS]


async def test_many_events_of_a_moment_are_few_updates(api: ApiDouble):
    async with running(api) as live:
        with live.subscribe({Table.PODS}) as feed:
            await read(feed)
            for number in range(500):
                api.put(PODS, pod(f"many-{number}"))
            for version in range(2, 500):
                api.put(PODS, pod("web-1", version=version, restartCount=version))
            updates, keys = 0, set()
            while len(keys) < 500:
                update = await read(feed)
                updates += 1
                keys |= {each.key for each in update.changes}
                if update.is_snapshot:
                    keys |= {each.key for each in update.rows[Table.PODS]}
            assert updates < 50


async def test_a_selector_that_matches_a_new_pod(api: ApiDouble):
    async with running(api) as live:
        with live.subscribe({Table.SERVICES}) as feed:
            await read(feed)
            api.put(SERVICES, service("lone"))
            assert (await change(feed)).row.problem == "NoPods"  # type: ignore[union-attr]
            api.put(PODS, pod("lone-1"))
            assert (await change(feed)).row.problem == "NotReady"  # type: ignore[union-attr]


async def test_pods_of_services_and_nodes(api: ApiDouble):
    api.objects["services"][ObjectKey("default", "outside")] = service("outside", selector={})
    api.objects["endpointslices"][ObjectKey("default", "o")] = slice_(
        "outside", endpoint("10.1.1.1", "web-1"), name="o"
    )
    async with running(api) as live:
        assert live.pods_of(ObjectKey("default", "web")) == ("default/web-1",)
        assert live.pods_of(ObjectKey("default", "outside")) == ("default/web-1",)
        assert live.pods_of(ObjectKey("default", "none")) == ()
        assert live.pods_on("node1") == ("default/web-1",)


async def test_modes_and_rejections_of_proxies(api: ApiDouble):
    api.objects["pods"][ObjectKey("kube-system", "p")] = pod("p", "kube-system", labels={"k8s-app": "kube-proxy"})
    async with running(api) as live:
        assert row(live, Table.NODES, "node1").proxy == "nftables"
        with live.subscribe({Table.SERVICES, Table.NODES}) as feed:
            await read(feed)
            api.put(LEASES, lease(2, "default/web", mode="iptables"))
            keys = set()
            while keys != {"node1", "default/web"}:
                keys |= {each.key for each in (await read(feed)).changes}
            assert row(live, Table.SERVICES, "default/web").problem == "Rejected"
            assert row(live, Table.NODES, "node1").proxy == "iptables"
            api.put(LEASES, lease(3, mode="iptables"))
            assert (await change(feed)).row.problem == ""  # type: ignore[union-attr]


async def test_only_the_latest_events_are_rows(api: ApiDouble):
    for number in range(MOST_EVENTS + 50):
        obj = event(
            f"e{number}", lastTimestamp=f"2026-11-21T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        )
        api.objects["events"][obj.key] = obj
    async with running(api) as live:
        keys = {each.key for each in live.snapshot({Table.EVENTS}).rows[Table.EVENTS]}
        assert len(keys) == MOST_EVENTS
        assert "default/e0" not in keys
        with live.subscribe({Table.EVENTS}, bound=1000) as feed:
            await read(feed)
            for number in range(MOST_EVENTS):
                api.put(EVENTS, event(f"n{number}", lastTimestamp="2026-11-22T00:00:00Z"))
            await change(feed, lambda change: change.op is Op.REMOVED)
            assert len(live.snapshot({Table.EVENTS}).rows[Table.EVENTS]) <= 1.5 * MOST_EVENTS


async def test_missing_rights_are_unseen_and_the_rest_works(api: ApiDouble):
    api.errors["pods"] = Forbidden(403, "Forbidden", "pods is forbidden\x1b[1m")
    api.objects["endpointslices"].clear()
    async with running(api) as live:
        assert [str(each) for each in live.status.unseen] == ["pods: pods is forbidden?[1m"]
        assert live.status.problem == ""
        assert row(live, Table.SERVICES, "default/web").problem == "NoEndpoints"
        assert live.snapshot({Table.PODS}).rows[Table.PODS] == ()


async def test_a_lost_server_is_a_problem_and_the_view_catches_up(api: ApiDouble, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observing, "PROBE_SECONDS", 0.01)
    async with running(api) as live:
        with live.subscribe({Table.SERVICES}) as feed:
            await read(feed)
            api.errors[""] = Unreachable("https://test:6443: connection refused")
            api.break_watches(Unreachable("https://test:6443: reset"))
            lost = await status(feed, lambda found: found.problem != "")
            assert "https://test:6443" in lost.problem
            assert row(live, Table.SERVICES, "default/web") is not None
            api.errors.clear()
            assert (await status(feed, lambda found: found.problem == "")).is_synced
            await api.watched["services"].wait()
            api.put(SERVICES, service("after"))
            assert (await change(feed)).key == "default/after"


async def test_a_server_that_hangs_is_noticed(api: ApiDouble, monkeypatch: pytest.MonkeyPatch):
    for constant in ("PROBE_SECONDS", "CHECK_SECONDS", "_CHECK_TIMEOUT", "_PROBE_TIMEOUT"):
        monkeypatch.setattr(observing, constant, 0.01)
    async with running(api) as live:
        with live.subscribe({Table.SERVICES}) as feed:
            await read(feed)
            api.answers.clear()
            assert (await status(feed, lambda found: found.problem != "")).problem == "no answer within 0.01 s"
            api.answers.set()
            assert (await status(feed, lambda found: found.problem == "")).is_synced


async def test_a_server_that_is_unreachable_from_the_start(api: ApiDouble):
    api.errors[""] = Unreachable("https://test:6443: no route")
    async with LiveCluster(cast(ApiClient, api)) as live:
        assert not await live.synced(0.05)
        assert live.status.problem == "https://test:6443: no route"
        assert not live.status.is_synced


PAGE = b'coredns_dns_requests_total{type="A"} 5\napiserver_request_total{verb="GET",code="200"} 5\n'


async def test_pages_are_read_while_somebody_subscribes(api: ApiDouble, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scraping, "SECONDS", 0.01)
    api.objects["pods"][ObjectKey("kube-system", "d")] = pod("d", "kube-system", labels={"k8s-app": "kube-dns"})
    api.pages = {"": PAGE}
    async with running(api) as live:
        assert api.reads == []
        with live.subscribe({Table.DNS, Table.API}) as feed:
            await read(feed)
            assert (await change(feed, lambda each: each.table is Table.DNS)).key == "kube-system/d"
            await change(feed, lambda each: each.table is Table.DNS and each.row.rate == 0.0)  # type: ignore[union-attr]
        count = len(api.reads)
        await asyncio.sleep(0.05)
        assert len(api.reads) == count
        assert set(api.reads) == {"/metrics", "/api/v1/namespaces/kube-system/pods/d:9153/proxy/metrics"}


async def test_a_page_that_cannot_be_read_is_a_problem_of_its_row(api: ApiDouble):
    api.errors["pages"] = ApiError(503, "ServiceUnavailable", "no route to host")
    async with running(api) as live:
        with live.subscribe({Table.API}) as feed:
            await read(feed)
            assert (await change(feed)).row.problem == "no route to host"  # type: ignore[union-attr]
