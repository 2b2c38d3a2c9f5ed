"""A dashboard of made-up rows on loopback, for tests of its server and of its page."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec

from bridgehead.insight.dashboard.errors import Unanswerable
from bridgehead.insight.dashboard.flow_watch import Count, FlowWatch
from bridgehead.insight.dashboard.history import History
from bridgehead.insight.dashboard.manifests import path_of
from bridgehead.insight.dashboard.server import Dashboard, Server
from bridgehead.insight.live.rates import SyncRow
from bridgehead.insight.live.rows import EndpointItem, EndpointsRow, EventRow, NodeRow, PodRow, Row, ServiceRow
from bridgehead.insight.live.subscriptions import MOST_UPDATES, Feed, Feeds
from bridgehead.insight.live.updates import Change, Op, Status, Table, Update

TOKEN = "t0ken-of-the-tests"
NODES = ("node1", "node2", "node3")
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


class MadeUp:
    """A live model of rows that a test puts into it."""

    def __init__(self) -> None:
        self.rows: dict[Table, dict[str, Row]] = {table: {} for table in Table}
        self.feeds = Feeds(self.snapshot, lambda: None)

    def snapshot(self, tables: Any) -> Update:
        rows = {table: tuple(self.rows[table].values()) for table in tables}
        return Update(
            at=time.time(), is_snapshot=True, rows=rows, status=Status(server="https://127.0.0.1:1", is_synced=True)
        )

    def subscribe(self, tables: Any) -> Feed:
        return Feed(self.feeds, frozenset(tables), MOST_UPDATES)

    def put(self, table: Table, *rows: Row) -> None:
        changes = []
        for row in rows:
            op = Op.CHANGED if row.key in self.rows[table] else Op.ADDED
            self.rows[table][row.key] = row
            changes.append(Change(table, op, row.key, row))
        self.feeds.publish(time.time(), changes, None)

    def remove(self, table: Table, key: str) -> None:
        del self.rows[table][key]
        self.feeds.publish(time.time(), [Change(table, Op.REMOVED, key, None)], None)

    def add_service(self, name: str, namespace: str = "default", endpoints: int = 3, *, ready: bool = True) -> None:
        key = f"{namespace}/{name}"
        items = []
        for number in range(endpoints):
            pod, node = f"{name}-{number}", NODES[number % len(NODES)]
            address = f"10.244.{number % 3 + 1}.{len(self.rows[Table.PODS]) % 250 + 2}"
            self.put(
                Table.PODS,
                PodRow(
                    key=f"{namespace}/{pod}", namespace=namespace, name=pod, ready=int(ready), total=1,
                    status="Running" if ready else "CrashLoopBackOff", restarts=0, ip=address, node=node,
                    owner="ReplicaSet/x", is_ready=ready, created=time.time() - 600,
                ),
            )  # fmt: skip
            items.append(EndpointItem(address, "ready" if ready else "not ready", pod, node, "", 0))
        self.put(
            Table.SERVICES,
            ServiceRow(
                key=key, namespace=namespace, name=name, type="ClusterIP",
                cluster_ips=(f"10.96.0.{len(self.rows[Table.SERVICES]) % 250 + 1}",), external=(),
                ports=("http 80/TCP",), ready=endpoints if ready else 0, total=endpoints,
                problem="" if ready else "NotReady",                created=time.time() - 600,
            ),
        )  # fmt: skip
        self.put(
            Table.ENDPOINTS,
            EndpointsRow(key=key, ports=("http 8080/TCP",), endpoints=tuple(items), slices=(f"{name}-abcde",)),
        )


def small_cluster() -> MadeUp:
    """Return three nodes and a few Services, one of them broken."""
    live = MadeUp()
    for number, name in enumerate(NODES):
        live.put(
            Table.NODES,
            NodeRow(
                key=name, name=name, status="Ready", is_ready=True, proxy="nftables", proxy_problem="", pods=0,
                ip=f"10.0.0.{201 + number}", zone="", version="v1.36.0", created=time.time() - 900,
            ),
        )  # fmt: skip
        live.put(Table.SYNCS, SyncRow(key=name, rate=1.0, p50=0.004, p99=0.009, programmed_p99=0.02))
    for name in ("web", "api", "cart"):
        live.add_service(name)
    live.add_service("broken", ready=False)
    live.put(
        Table.EVENTS,
        EventRow(
            key="default/e1", namespace="default", type="Warning", reason="BackOff", object="Pod/broken-0",
            message="Back-off restarting failed container", count=4, source="kubelet", last=time.time() - 60,
        ),
    )  # fmt: skip
    return live


async def _series(asked: Mapping[str, str]) -> Any:
    now = time.time() // 2 * 2
    times = [now - 2 * step for step in range(60, 0, -1)]
    figures: list[float | None] = [float(step % 7) for step in range(60)]
    return {
        "times": times,
        "series": {"connections": figures, "errors": [0.0] * 60, "sync": [0.01] * 60, "programmed": [0.02] * 60},
    }


async def _yaml(asked: Mapping[str, str]) -> Any:
    path_of(asked.get("kind", ""), asked.get("name", ""))
    return {"yaml": f"kind: Service\nmetadata:\n  name: {HOSTILE}\n"}


async def _rules(asked: Mapping[str, str]) -> Any:
    if asked.get("node") not in NODES:
        raise Unanswerable("there is no such node")
    lines = [[f"10.96.0.{n} . tcp . 80 : goto n3", "default/web:http", "map services", "A line."] for n in range(300)]
    return {"mode": "nftables", "total": len(lines), "lines": lines, "unseen": "", "problems": []}


async def _path(asked: Mapping[str, str]) -> Any:
    return {
        "ports": ["10.96.0.1:80/tcp"],
        "steps": [
            {"title": "path.client", "text": "node1", "state": "ok", "lines": []},
            {"title": "path.frontend", "text": "10.96.0.1:80/tcp", "state": "ok", "lines": []},
        ],
        "backends": [{"address": "10.244.1.2:8080", "chance": 1.0, "pod": "web-0", "node": "node1"}],
        "total": 1,
        "outcome": "",
    }


async def _dns(asked: Mapping[str, str]) -> Any:
    answer = {"name": "web.default.svc.cluster.local", "records": ["A 10.96.0.1"], "rcode": "", "note": ""}
    return {"server": "", "answers": [answer]}


async def _findings(asked: Mapping[str, str]) -> Any:
    if asked.get("service") != "default/broken":
        return {"findings": [], "unseen": []}
    finding = {
        "cause": "PodsNotReady", "subject": "service/default/broken", "text": "No pod is ready.",
        "fix": "kubectl logs broken-0", "evidence": ["broken-0: CrashLoopBackOff"], "severity": "broken",
    }  # fmt: skip
    return {"findings": [finding], "unseen": []}


QUESTIONS = {"series": _series, "yaml": _yaml, "rules": _rules, "path": _path, "dns": _dns, "findings": _findings}


@contextlib.asynccontextmanager
async def dashboard(live: MadeUp, *, language: str = "") -> AsyncIterator[tuple[Server, int]]:
    """Serve a dashboard of these rows; yields the server and its port. New connections come at every count."""
    serial = 0

    async def count() -> Count:
        nonlocal serial
        paths = {}
        for key, row in live.rows[Table.ENDPOINTS].items():
            assert isinstance(row, EndpointsRow)
            for endpoint in row.endpoints[:3]:
                serial += 1
                paths[key, endpoint.address] = frozenset((serial,))
        return Count(paths=paths)

    history = History()
    server = Server(Dashboard("test", live, QUESTIONS, FlowWatch(count, history), history, language), TOKEN)
    async with server.running() as port:
        yield server, port


def with_ready(row: Row, ready: int) -> Row:
    return msgspec.structs.replace(row, ready=ready)
