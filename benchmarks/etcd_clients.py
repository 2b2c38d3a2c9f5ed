"""Clients of etcd: this project's, by gRPC, beside etcd's JSON gateway by aiohttp.

Processor time is that of the client's process; etcd runs on loopback with its data in memory, if there is room.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec
import uvloop
from tests.integration.etcd_server import EtcdCluster

from benchmarks.tables import Table, not_measured
from bridgehead.storage.etcd.client import EtcdSettings, open_client
from bridgehead.storage.etcd.client.requests import create_revision_equals, prefix_end, put

_CREATES, _WRITERS, _KEYS, _PAGE, _BATCH = 2000, 32, 10_000, 500, 100
_VALUE = os.urandom(1024)
_ROUNDS = 3


class _Client(Protocol):
    async def create(self, *keys: bytes) -> int:
        """Create keys in one transaction; return the revision."""

    async def read(self, prefix: bytes) -> int:
        """Read all keys in pages; return their number."""

    async def watch(self, prefix: bytes, revision: int, count: int) -> None:
        """Read so many events from the revision on."""

    async def close(self) -> None: ...


class _Grpc:
    def __init__(self, url: str) -> None:
        self._client = open_client(EtcdSettings(endpoints=(url,)))
        self.close = self._client.close

    async def create(self, *keys: bytes) -> int:
        compares = [create_revision_equals(key, 0) for key in keys]
        return (await self._client.txn(compares, [put(key, _VALUE) for key in keys])).revision

    async def read(self, prefix: bytes) -> int:
        return sum([len(page.kvs) async for page in self._client.pages(prefix, prefix_end(prefix), limit=_PAGE)])

    async def watch(self, prefix: bytes, revision: int, count: int) -> None:
        watch = await self._client.watch(prefix, prefix_end(prefix), start_revision=revision)
        while count > 0:
            count -= len((await anext(watch)).events)
        await watch.close()


class _Json:
    def __init__(self, url: str) -> None:
        self._url = url
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), read_bufsize=2**22)
        self.close = self._session.close

    async def _post(self, path: str, request: Any) -> Any:
        async with self._session.post(f"{self._url}/v3/{path}", data=msgspec.json.encode(request)) as answer:
            return msgspec.json.decode(await answer.read())

    async def create(self, *keys: bytes) -> int:
        compares = [{"target": "CREATE", "key": _base64(key), "create_revision": 0} for key in keys]
        puts = [{"request_put": {"key": _base64(key), "value": _base64(_VALUE)}} for key in keys]
        answer = await self._post("kv/txn", {"compare": compares, "success": puts})
        return int(answer["header"]["revision"])

    async def read(self, prefix: bytes) -> int:
        key, count, more = prefix, 0, True
        while more:
            request = {"key": _base64(key), "range_end": _base64(prefix_end(prefix)), "limit": _PAGE}
            answer = await self._post("kv/range", request)
            kvs = [(base64.b64decode(kv["key"]), base64.b64decode(kv["value"])) for kv in answer["kvs"]]
            key, count, more = kvs[-1][0] + b"\0", count + len(kvs), answer.get("more", False)
        return count

    async def watch(self, prefix: bytes, revision: int, count: int) -> None:
        create = {"key": _base64(prefix), "range_end": _base64(prefix_end(prefix)), "start_revision": revision}
        async with self._session.post(f"{self._url}/v3/watch", json={"create_request": create}) as answer:
            parts: list[bytes] = []
            async for chunk in answer.content.iter_any():
                *complete, rest = chunk.split(b"\n")
                for end in complete:
                    count -= _events(b"".join((*parts, end)))
                    parts = []
                parts.append(rest)
                if count <= 0:
                    return


def _events(line: bytes) -> int:
    events = msgspec.json.decode(line)["result"].get("events", ()) if line else ()
    return len([(base64.b64decode(each["kv"]["key"]), base64.b64decode(each["kv"]["value"])) for each in events])


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


async def _measure(client: _Client, prefix: bytes) -> dict[str, tuple[float, float]]:
    """Return (microseconds of processor time, seconds) for each kind of operation."""
    measured = {}

    async def timed(name: str, count: int, run: Callable[[], Awaitable[object]]) -> None:
        begun, used = time.perf_counter(), time.process_time()
        await run()
        seconds, used = time.perf_counter() - begun, time.process_time() - used
        measured[name] = (used / count * 1e6, seconds)

    numbers = itertools.count()

    async def write(count: int) -> None:
        for _ in range(count):
            await client.create(prefix + b"%06d" % next(numbers))

    first = await client.create(prefix + b"first")
    creates = _CREATES // _WRITERS * _WRITERS
    await timed("create", creates, lambda: asyncio.gather(*(write(creates // _WRITERS) for _ in range(_WRITERS))))
    for _ in range((_KEYS - creates) // _BATCH + 1):
        await client.create(*(prefix + b"%06d" % next(numbers) for _ in range(_BATCH)))
    await timed("read a key in a page", _KEYS, lambda: client.read(prefix))
    await timed("watch an event", _KEYS, lambda: client.watch(prefix, first, _KEYS))
    return measured


async def _run_round(make: Callable[[str], _Client], url: str, prefix: bytes) -> dict[str, tuple[float, float]]:
    client = make(url)
    try:
        return await _measure(client, prefix)
    finally:
        await client.close()


@contextlib.contextmanager
def _etcd() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory, EtcdCluster(Path(directory)).running() as cluster:
        yield cluster.client_urls[0]


def run() -> list[Table]:
    columns = ("operation", "gRPC: processor time", "seconds", "JSON: processor time", "seconds")
    title = f"Clients of etcd, values of 1 KiB, {_WRITERS} writers, median of {_ROUNDS}"
    if shutil.which("etcd") is None:
        reason = not_measured("etcd is missing (Debian: apt-get install etcd-server)")
        return [Table(title, ("what", "measured"), [("clients of etcd", reason)])]
    rounds: dict[str, list[dict[str, tuple[float, float]]]] = {"grpc": [], "json": []}
    with _etcd() as url:
        for number in range(_ROUNDS):
            for name, make in (("grpc", _Grpc), ("json", _Json)):
                prefix = f"/{name}{number}/".encode()
                rounds[name].append(uvloop.run(_run_round(make, url, prefix)))
    rows = []
    for operation in rounds["grpc"][0]:
        row = [operation]
        for results in rounds.values():
            used, seconds = sorted(result[operation] for result in results)[_ROUNDS // 2]
            row += [f"{used:.0f} µs", f"{seconds:.1f}"]
        rows.append(tuple(row))
    return [Table(title, columns, rows)]


if __name__ == "__main__":
    for table in run():
        print("\n".join(table.lines()))
