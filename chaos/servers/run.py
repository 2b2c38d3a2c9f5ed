"""A run: members and servers, clients and watchers, the faults, and all that was seen.

It has network and mount namespaces of its own, so that no packet leaves it.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import random
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from tests.integration.namespaced import enter_namespaces

from bridgehead.client.http_library import aiohttp

from .answers import Body, revision_of
from .clients import CONFIG_MAPS, LIMITED, QUOTA, SERVICES, SHARED, make_client, path_of
from .connections import Connections, open_session
from .injection import Faults, full_plan, inject_all
from .processes import Cluster, running_cluster
from .recordings import Injected, Recording
from .report import Observed
from .watchers import Watcher, moving
from .watches import Sight

_RESOURCES = (CONFIG_MAPS, SERVICES)
_MOVING = 2  # watchers of each resource that move between the servers
_END_SECONDS = 60.0
_LOOK_SECONDS = 0.1
# Below etcd's prefix: the objects of the run in their namespaces.
_STORED = {CONFIG_MAPS: "/registry/configmaps/", SERVICES: "/registry/services/specs/"}

Report = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    """`writes` is how many have to be acknowledged, at least."""

    seed: int = 1
    writes: int = 10_000
    clients: int = 32
    servers: int = 3
    faults: Faults = field(default_factory=lambda: full_plan(3))


def run_in_namespaces(options: Options, report: Report) -> Observed:
    """Run in a process with namespaces of its own, which ends with this one. Raises RuntimeError if it fails."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run_there, args=(options, report, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        seen: Observed = ours.recv()
    except EOFError:
        process.join()
        raise RuntimeError(f"the run has ended early, with {process.exitcode}") from None
    process.join()
    return seen


def _run_there(options: Options, report: Report, result: Connection) -> None:
    enter_namespaces()
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    result.send(asyncio.run(run_servers(options, report)))


async def run_servers(options: Options, report: Report) -> Observed:
    """Run in this process's network namespace, which has nothing else in it."""
    with tempfile.TemporaryDirectory(prefix="chaos-servers-") as directory:
        async with (
            running_cluster(Path(directory), options.servers) as cluster,
            open_session(cluster.servers[0].context("admin")) as session,
        ):
            return await _Run(options, cluster, session, report).run()


class _Run:
    def __init__(self, options: Options, cluster: Cluster, session: aiohttp.ClientSession, report: Report) -> None:
        self._options = options
        self._cluster = cluster
        self._session = session
        self._report = report
        self._rng = random.Random(options.seed)
        self._urls = [server.url for server in cluster.servers]
        self._connections = Connections(session, self._urls, 0)
        self._recording = Recording()
        self._used: list[int] = []

    async def run(self) -> Observed:
        await self._create_namespaces()
        watchers = [watcher async for watcher in self._watchers()]
        async with asyncio.TaskGroup() as tasks:
            background = [tasks.create_task(watcher.run()) for watcher in watchers]
            background.append(tasks.create_task(self._watch_quota()))
            begun = time.monotonic()
            faults = await self._work()
            seconds = time.monotonic() - begun
            unfinished = [line async for line in self._wait_for_the_end(watchers)]
            for task in background:
                task.cancel()
        return Observed(
            seconds=seconds,
            recording=self._recording,
            sights=[watcher.sight for watcher in watchers],
            faults=faults,
            lists=[await self._objects(url) for url in self._urls],
            stored=await self._stored(),
            limited=LIMITED,
            quota_hard=QUOTA,
            quota_used=self._used,
            unfinished=unfinished,
        )

    async def _create_namespaces(self) -> None:
        for name in (SHARED, LIMITED):
            await self._post("/api/v1/namespaces", {"metadata": {"name": name}})
        quota = {"metadata": {"name": "quota"}, "spec": {"hard": {CONFIG_MAPS: str(QUOTA)}}}
        await self._post(path_of(LIMITED, "resourcequotas"), quota)
        self._used.append(await self._first_used())

    async def _first_used(self) -> int:
        while (used := await self._quota_used()) is None:  # noqa: ASYNC110 - another process counts
            await asyncio.sleep(_LOOK_SECONDS)
        return used

    async def _post(self, path: str, body: Body) -> Body:
        answer = await self._connections.send("POST", path, body)
        if answer.status != 201:
            raise RuntimeError(f"cannot create the objects of the run: {answer.status} {answer.message}")
        return answer.body

    async def _quota_used(self) -> int | None:
        answer = await self._connections.send("GET", path_of(LIMITED, "resourcequotas", "quota"))
        used = answer.body.get("status", {}).get("used", {}).get(CONFIG_MAPS)
        return None if used is None else int(used)

    async def _watchers(self) -> AsyncIterator[Watcher]:
        """Yield a watcher of each resource at each server, and those that move."""
        for resource in _RESOURCES:
            revision = revision_of((await self._connections.send("GET", f"/api/v1/{resource}?limit=1")).body)
            for number, url in enumerate(self._urls):
                sight = Sight(f"the watcher at server {number}", resource)
                yield Watcher(Connections(self._session, [url], 0), sight, revision)
            for number in range(_MOVING):
                sight = Sight(f"moving watcher {number}", resource)
                yield Watcher(Connections(self._session, self._urls, number), sight, revision, moving(self._rng))

    async def _watch_quota(self) -> None:
        while True:
            used = await self._quota_used()
            if used is not None:
                self._used.append(used)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _work(self) -> list[Injected]:
        """Let the clients write until there are enough writes and no more faults."""
        stopping = asyncio.Event()
        options, recording = self._options, self._recording
        async with asyncio.TaskGroup() as tasks:
            for number in range(options.clients):
                connections = Connections(self._session, self._urls, number)
                rng = random.Random(self._rng.random())
                tasks.create_task(make_client(connections, recording, rng, number).run(stopping))
            faults = await inject_all(self._cluster, options.faults, self._report)
            await _until(lambda: recording.written >= options.writes)
            self._report(f"{recording.written} writes; no more faults")
            stopping.set()
        return faults

    async def _wait_for_the_end(self, watchers: Sequence[Watcher]) -> AsyncIterator[str]:
        """Wait until all watchers have seen the last write, and the quota is counted; yield what does not happen."""
        last = {
            CONFIG_MAPS: await self._post(path_of(SHARED, CONFIG_MAPS), {"metadata": {"name": "end"}}),
            SERVICES: await self._post(
                path_of(SHARED, SERVICES), {"metadata": {"name": "end"}, "spec": {"clusterIP": "None"}}
            ),
        }
        for watcher in watchers:
            revision = revision_of(last[watcher.sight.resource])
            if not await _until(partial(watcher.has_seen, revision), _END_SECONDS):
                yield f"{watcher.sight.watcher} of {watcher.sight.resource} has not seen the last write"
        left = len((await self._connections.send("GET", path_of(LIMITED, CONFIG_MAPS))).body["items"])
        await _until(lambda: self._used[-1:] == [left], _END_SECONDS)

    async def _objects(self, url: str) -> Mapping[str, Mapping[str, int]]:
        """Return the objects that one server has."""
        connections = Connections(self._session, [url], 0)
        found: dict[str, dict[str, int]] = {}
        for resource in _RESOURCES:
            items = (await connections.send("GET", f"/api/v1/{resource}")).body["items"]
            names = {f"{one['metadata']['namespace']}/{one['metadata']['name']}": revision_of(one) for one in items}
            found[resource] = _of_the_run(names)
        return found

    async def _stored(self) -> Mapping[str, Mapping[str, int]]:
        return {resource: _of_the_run(await self._cluster.stored(prefix)) for resource, prefix in _STORED.items()}


async def _until(is_so: Callable[[], bool], seconds: float | None = None) -> bool:
    """Wait until something is so; return whether it is, after the given time at most."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not is_so():  # noqa: ASYNC110 - many things may change it
                await asyncio.sleep(_LOOK_SECONDS)
    return is_so()


def _of_the_run(names: Mapping[str, int]) -> dict[str, int]:
    return {name: revision for name, revision in names.items() if name.partition("/")[0] in (SHARED, LIMITED)}
