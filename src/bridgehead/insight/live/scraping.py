"""Reads the metrics pages of service proxies, DNS servers and the API server while somebody wants their tables.

Pages of pods are read through the API server: by its proxy of pods or, from a process that listens on 127.0.0.1 only
(as service proxies do by default), by port-forwarding.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import quote

from bridgehead.client import ApiClient
from bridgehead.client.errors import ApiError, ClientError
from bridgehead.client.port_forward import get_by_port_forward
from bridgehead.insight.facts.system_object_names import APP_LABEL, DNS_APPS, PROXY_APPS
from bridgehead.insight.findings import printable
from bridgehead.objects.core import Pod

from .rates import API_RULES, DNS_RULES, PROXY_RULES, ApiRow, DnsRow, Readings, SyncRow, api_rows, dns_row, sync_row
from .rows import Row
from .samples import PageReader, Rule
from .updates import Table

SECONDS = 2.0  # between two readings of a page
_RETRY_SECONDS = 10.0  # after a failure
_ANSWER_SECONDS = 5.0
_MOST_BYTES = 16 << 20  # of a page
_MOST_AT_ONCE = 8
_MOST_TARGETS = 64  # of one table: the first ones by name
_LARGEST_SHARE = 0.05  # of the time: a page that takes long is read less often

_PROXY_PORT, _DNS_PORT = 10249, 9153

Rows = Mapping[Table, Mapping[str, Row]]


class Target:
    """A page, with its readings, and the reason why the last reading failed."""

    def __init__(self, key: str, rules: Sequence[Rule], pod: Pod | None, port: int = 0) -> None:
        self.key = key
        self.pod = pod
        self._port = port
        self._reader = PageReader(rules)
        self.readings: Readings | None = None
        self.problem = ""
        self._next = 0.0
        self._forwards = False

    @property
    def path(self) -> str:
        """The URL path of the page at the API server."""
        if self.pod is None:
            return "/metrics"
        namespace, name = (quote(part, safe="") for part in self.pod.key)
        return f"/api/v1/namespaces/{namespace}/pods/{name}:{self._port}/proxy/metrics"

    async def read(self, client: ApiClient) -> None:
        """Read the page if it is time to. Errors are kept in `problem`."""
        began = time.monotonic()
        if began < self._next:
            return
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                page = await self._page(client)
        except TimeoutError:
            self._fail(f"no answer within {_ANSWER_SECONDS:g} s")
        except ClientError as error:
            self._fail(printable(str(error)))
        else:
            received = time.monotonic()
            if self.readings is None:
                self.readings = Readings()
            self.readings.add(self._reader.read(page, received))
            self.problem = ""
            self._next = began + min(_RETRY_SECONDS, (time.monotonic() - began) / _LARGEST_SHARE)

    async def _page(self, client: ApiClient) -> bytes:
        if self.pod is None or not self._forwards:
            try:
                return await client.get_raw(self.path, _MOST_BYTES)
            except ApiError as error:
                if self.pod is None or "connection refused" not in error.message:
                    raise
        page = await get_by_port_forward(client, self.pod.key, self._port, "/metrics", _MOST_BYTES)
        self._forwards = True
        return page

    def _fail(self, problem: str) -> None:
        self.problem = problem
        self._forwards = False
        self.readings = None  # rates over a gap would be wrong
        self._next = time.monotonic() + _RETRY_SECONDS


class Scraper:
    """Reads the pages for `tables`.

    `pods`: all pods that are known. `on_rows` is called with all rows of these tables.
    """

    def __init__(self, client: ApiClient, pods: Callable[[], Iterable[Pod]], on_rows: Callable[[Rows], None]) -> None:
        self.tables: frozenset[Table] = frozenset()
        self._client = client
        self._pods = pods
        self._on_rows = on_rows
        self._targets: dict[Table, dict[str, Target]] = {}

    async def run(self) -> None:
        """Read the pages every SECONDS until cancelled."""
        self._targets = {}
        slots = asyncio.Semaphore(_MOST_AT_ONCE)

        async def read(target: Target) -> None:
            async with slots:
                await target.read(self._client)

        while True:
            began = time.monotonic()
            self._follow_pods()
            await asyncio.gather(*(read(each) for table in self._targets.values() for each in table.values()))
            self._on_rows({table: _rows(table, targets) for table, targets in self._targets.items()})
            await asyncio.sleep(max(0.0, began + SECONDS - time.monotonic()))

    def _follow_pods(self) -> None:
        """Keep one target for each server; a pod that was replaced is another target."""
        wanted = {table: self._wanted(table) for table in self.tables}
        for table, targets in wanted.items():
            before = self._targets.get(table, {})
            for key, target in targets.items():
                old = before.get(key)
                if old is not None and _uid(old.pod) == _uid(target.pod):
                    targets[key] = old
        self._targets = wanted

    def _wanted(self, table: Table) -> dict[str, Target]:
        if table is Table.API:
            return {"": Target("", API_RULES, None)}
        apps, rules, port = (
            (DNS_APPS, DNS_RULES, _DNS_PORT) if table is Table.DNS else (PROXY_APPS, PROXY_RULES, _PROXY_PORT)
        )
        found = {}
        for pod in self._pods():
            if pod.metadata.labels.get(APP_LABEL) in apps and pod.status.phase == "Running":
                key = str(pod.key) if table is Table.DNS else pod.spec.node_name
                found[key] = Target(key, rules, pod, port)
        return {key: found[key] for key in sorted(found)[:_MOST_TARGETS]}


def _uid(pod: Pod | None) -> str:
    return pod.metadata.uid if pod is not None else ""


def _rows(table: Table, targets: Mapping[str, Target]) -> dict[str, Row]:
    rows: list[Row] = []
    for target in targets.values():
        readings, pod = target.readings, target.pod
        if table is Table.API:
            rows += api_rows(readings) if readings is not None else [ApiRow(key="all", problem=target.problem)]
        elif table is Table.SYNCS:
            rows.append(sync_row(target.key, readings) if readings else SyncRow(key=target.key, problem=target.problem))
        else:
            node = pod.spec.node_name if pod is not None else ""
            rows.append(
                dns_row(target.key, node, readings)
                if readings is not None
                else DnsRow(key=target.key, node=node, problem=target.problem)
            )
    return {row.key: row for row in rows}
