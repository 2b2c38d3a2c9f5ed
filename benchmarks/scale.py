"""Synthetic clusters of up to 5,000 nodes: costs of API server, endpoint controllers, DNS and proxy.

    python -m benchmarks.scale [--nodes 100 --nodes 1000 ...] [--seconds 30] [--changes 100] [--operations 500]

The four are the real programs, in namespaces of their own; one more program simulates all nodes (`scale_nodes`). The
store is filled before the server starts, as after a restart (`scale_cluster`). Costs are measured one by one, as
processor time of each process for a counted number of operations, with the processes idle before and after; so they
hold on a busy machine, too. Then all load comes together for some seconds. `docs/scale.md` has the model that they
feed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import uvloop
from tests.integration.apiserver_process import ServerProcess, write_files

from benchmarks import namespaces, scale_stores
from benchmarks.progress import log
from benchmarks.scale_cluster import (
    NAMESPACE,
    SLICES,
    Cluster,
    delete_pod,
    fill,
    mark_pod,
    mark_service,
    mark_slice,
    node_status,
    pod,
    pod_status,
    renew_lease,
    template_requests,
)
from benchmarks.scale_nodes import WATCHES, Clients, Paced, Probe, Rate, Watches, round_robin
from benchmarks.scale_processes import Parts, seconds_of, settle, use_of
from benchmarks.tables import Table, not_measured
from bridgehead.storage.sqlite import Database

SIZES = (100, 1_000, 5_000)
LEASE_SECONDS, STATUS_SECONDS = 10.0, 300.0  # a kubelet's renewals, and reports of an unchanged status
CONNECTIONS = 32
# Changes of which each node gets a copy: bounded by the number of events of all nodes.
EVENTS, FEWEST_CHANGES, MOST_CHANGES = 20_000, 5, 100
PROBE_SECONDS = 300.0
_RECONNECT_SECONDS = 30.0  # the server closes connections that were idle for 120 s
_WORKER = "worker"
_SPARE_DESCRIPTORS = 500
_WATCHES_PER_NODE = sum(map(len, WATCHES.values()))


class Options(NamedTuple):
    """Options of a run: numbers of nodes and of pod changes per second, seconds of the combined load.

    `operations`: how many of each kind are sent, without the watches of the nodes. `watching`: how many nodes have
    watches, if that is less than the limit of open files allows; all have heartbeats.
    """

    nodes: int
    seconds: float = 30.0
    changes: float = 100.0
    operations: int = 500
    watching: int = 5_000


Figures = dict[str, str]


def run(sizes: Iterable[Options] = tuple(map(Options, SIZES))) -> list[Table]:
    """Measure each size in namespaces of its own."""
    columns: list[str] = []
    found: list[Figures] = []
    for options in sizes:
        log(f"{options.nodes:,} nodes")
        columns.append(f"{options.nodes:,} nodes")
        result = namespaces.start("benchmarks.scale", _WORKER, json.dumps(options), keeps_root=True)
        lines = result.output.strip().splitlines()
        if result.status:
            found.append({"the run": not_measured(lines[-1] if lines else f"status {result.status}")})
        else:
            found.append(json.loads(lines[-1]))
    names = list(dict.fromkeys(name for figures in found for name in figures))
    rows = [(name, *(figures.get(name, "") for figures in found)) for name in names]
    note = (
        "Processor time is user and system time of the process that is named; memory is PSS. "
        "Costs of one operation are means, with the processes idle before and after."
    )
    return [Table("Scale", ("what", *columns), rows, note)]


# --- In the namespaces


def _watching_nodes(options: Options) -> int:
    """Allow as many open files as possible; return the number of nodes whose watches fit. Raises RuntimeError."""
    wanted = min(options.nodes, options.watching)
    needed = _SPARE_DESCRIPTORS + wanted * _WATCHES_PER_NODE
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < needed:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (needed, needed))
            hard = needed
        except (ValueError, OSError):
            wanted = (hard - _SPARE_DESCRIPTORS) // _WATCHES_PER_NODE
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if wanted < 1:
        raise RuntimeError(f"the limit of open files is too low (ulimit -Hn): {hard}")
    return wanted


class _Run:
    """One size. `figures` are the results so far."""

    def __init__(self, options: Options, directory: Path) -> None:
        self.options = options
        self.cluster = Cluster(options.nodes)
        self._file = directory / "store.db"
        self.server = ServerProcess(directory, store=f"sqlite://{self._file}")
        self.parts = Parts(self.server)
        self.figures: Figures = {}
        self._clients = Clients([])
        self._prober = Clients([])
        self._connected_at = -math.inf
        self._watches: list[Watches] = []
        self._marks = 0
        self._slice = ""  # the name of the first Service's
        self._beats = 0

    @property
    def pids(self) -> dict[str, int]:
        return {"apiserver": self.server.pid, **self.parts.pids}

    async def all(self) -> None:
        """Measure everything."""
        await self._make_content()
        await self._start()
        await self._reconnect()
        await self._operations("")
        await self._lists()
        for name in WATCHES:
            await self._open(name)
        await self._operations("with all watches, ", few=True)
        await self._together()
        for watches in self._watches:
            watches.close()
        self._clients.close()
        self._prober.close()

    async def send(self, requests: Iterable[tuple[bytes, ...]]) -> None:
        """Send requests. Raises RuntimeError if one is refused."""
        load = await self._clients.send_all(requests)
        if load.refused:
            raise RuntimeError(f"answers by status: {load.refused}")

    async def _reconnect(self) -> None:
        """Open the connections of requests anew, unless they are new: the server closes those that are idle."""
        if time.monotonic() - self._connected_at < _RECONNECT_SECONDS:
            return
        self._connected_at = time.monotonic()
        self._clients.close()
        self._prober.close()
        self._clients, self._prober = await self._connect(CONNECTIONS), await self._connect(1)
        await settle(self.pids)

    async def _connect(self, count: int) -> Clients:
        return await Clients.open(self.server.port, self.server.context("admin"), count)

    def _get(self, path: str) -> Any:
        return msgspec.json.decode(self.server.read(path, user="admin"))

    # --- the content and the start of each process

    async def _make_content(self) -> None:
        """Make templates by a server and its controllers, and the cluster from them."""
        await asyncio.to_thread(self.server.start)
        self.server.write_kubeconfig()
        with self.parts.running():
            self.parts.start("controllers")
            with closing(await self._connect(1)) as clients:
                load = await clients.send_all([(each,) for each in template_requests(self.cluster)])
            if set(load.refused) - {409}:
                raise RuntimeError(f"answers by status: {load.refused}")
            while not await asyncio.to_thread(self._has_endpoints):  # noqa: ASYNC110 - the controllers write them
                await asyncio.sleep(0.05)
        await asyncio.to_thread(self.server.stop)
        with closing(Database(self._file)) as database:
            began = time.process_time()
            count = fill(database, self.cluster)
            log(f"{count:,} objects made in {time.process_time() - began:.0f} s of processor time")
        size = os.stat(self._file).st_size
        self.figures["objects in the store"] = f"{count:,}, {size / 2**20:,.0f} MiB"
        cluster = self.cluster
        self.figures["pods, Services"] = f"{cluster.pods:,}, {cluster.services:,}"
        self.figures["nodes with watches"] = f"{self.options.watching:,} of {cluster.nodes:,}"

    def _has_endpoints(self) -> bool:
        """Whether the controllers have written both forms of the first Service's endpoints."""
        slices = self._get(SLICES)["items"]
        endpoints = self._get(f"{NAMESPACE}/endpoints")["items"]
        names = [each["metadata"]["name"] for each in slices if _is_of_template(each) and each.get("endpoints")]
        self._slice = names[0] if names else ""
        return bool(names) and any(_is_of_template(each) and each.get("subsets") for each in endpoints)

    async def _start(self) -> None:
        """Start each process and wait until it has done its first work."""
        await asyncio.to_thread(self.server.start)
        await settle(self.pids)
        use = use_of(self.server.pid)
        self.figures["API server: start, memory then"] = f"{use.seconds:.1f} s of processor, {_mebibytes(use.memory)}"
        for name in ("controllers", "dns", "proxy"):
            before, revision = seconds_of(self.pids), self._revision()
            began = time.monotonic()
            self.parts.start(name)
            await self.parts.wait_ready(name)
            wall = time.monotonic() - began
            use = use_of(self.parts.pids[name])
            server = use_of(self.server.pid).seconds - before["apiserver"]
            writes = self._revision() - revision
            log(f"{name}: first sync after {wall:.1f} s, {writes} writes")
            self.figures[f"{name}: first sync, memory then"] = (
                f"{use.seconds:.1f} s of processor ({server:.1f} s of the server's), {_mebibytes(use.memory)}"
            )

    def _revision(self) -> int:
        return int(self._get("/api/v1/namespaces?limit=1")["metadata"]["resourceVersion"])

    # --- the cost of one operation

    async def _measure(self, what: str, requests: list[tuple[bytes, ...]]) -> None:
        """Send requests, and add a row with the processor time of one, of each process that has a part in it."""
        before = seconds_of(self.pids)
        await self.send(requests)
        await settle(self.pids)
        after = seconds_of(self.pids)
        each = {name: (after[name] - before[name]) / len(requests) for name in after}
        # A clock tick of all together is noise, as are the elections and health checks that go on.
        texts = [f"{name} {_short(cost)}" for name, cost in each.items() if cost * len(requests) > 0.02]
        self.figures[what] = ", ".join(texts) or "too little to be measured"
        log(f"{what}: {self.figures[what]}")

    async def _operations(self, prefix: str, *, few: bool = False) -> None:
        nodes, pods = self.cluster.nodes, self.cluster.pods
        count = self._changes() if few else self.options.operations
        self._beats += 1
        await self._measure(
            f"{prefix}a Lease renewed",
            [(renew_lease(n % nodes, self._beats),) for n in range(self.options.operations)],
        )
        await self._measure(
            f"{prefix}a node's status", [(node_status(n % nodes, 7 * n + self._beats),) for n in range(count)]
        )
        numbers = [n % pods for n in range(count)]
        if few:
            numbers = numbers[: max(1, count // 2)]
        for ready in (False, True):
            await self._measure(
                f"{prefix}a pod becomes {'ready' if ready else 'unready'}",
                [(pod_status(self.cluster, n, ready=ready),) for n in dict.fromkeys(numbers)],
            )
        await self._measure(
            f"{prefix}a pod is deleted, created anew, ready", [self._replacement(n) for n in dict.fromkeys(numbers)]
        )

    def _replacement(self, number: int) -> tuple[bytes, ...]:
        """Return requests that delete a pod, create it anew and make it ready."""
        return (delete_pod(number), pod(self.cluster, number), pod_status(self.cluster, number, ready=True))

    def _changes(self) -> int:
        return max(FEWEST_CHANGES, min(MOST_CHANGES, self.options.operations, EVENTS // self.options.watching))

    async def _lists(self) -> None:
        """Measure the lists with which a kubelet and a proxy start."""
        times = 3
        for resource_, paths in WATCHES.items():
            path = paths[0].replace("{node}", "node-0")
            before = use_of(self.server.pid).seconds
            for _ in range(times):
                size = len(await asyncio.to_thread(self.server.read, path, user="admin"))
            cost = (use_of(self.server.pid).seconds - before) / times
            self.figures[f"a node's list of {resource_}"] = f"{1000 * cost:.0f} ms, {size / 2**20:.2f} MiB"

    # --- watches

    async def _open(self, name: str) -> None:
        """Open the watches of all nodes of one resource, and measure what a change of it costs then."""
        before, mine = use_of(self.server.pid), use_of(os.getpid())
        watches = Watches(name)
        self._watches.append(watches)
        context, version = self.server.context("admin"), str(self._revision())
        await watches.open(self.server.port, context, self.options.watching, version)
        await settle({"apiserver": self.server.pid})
        if watches.refused or watches.lost:
            raise RuntimeError(f"watches of {name}: {watches.refused} refused, {watches.lost} lost")
        after, mine_after = use_of(self.server.pid), use_of(os.getpid())
        count = watches.count
        self.figures[f"watches of {name}: each"] = (
            f"{count:,}: {(after.memory - before.memory) / count / 1024:.1f} KiB, "
            f"{1000 * (after.seconds - before.seconds) / count:.2f} ms to open"
        )
        log(
            f"watches of {name}: {self.figures[f'watches of {name}: each']}; "
            f"here {(mine_after.memory - mine.memory) / count / 1024:.1f} KiB"
        )
        await self._reconnect()
        if name in ("services", "endpointslices"):
            await self._deliver(watches)
        elif name == "pods":
            numbers = [n % self.cluster.pods for n in range(self._changes())]
            await self._measure(
                "a pod's status message, with the watches of pods", [(mark_pod(n, "changed"),) for n in numbers]
            )

    async def _deliver(self, watches: Watches) -> None:
        """Change an object that all nodes watch: the server's cost for each watch, the time to the last one."""
        before, received = use_of(self.server.pid).seconds, watches.received
        delays = [await self._seconds_to_the_last(watches) for _ in range(self._changes())]
        await settle(self.pids)
        events = len(delays) * watches.count
        cost = (use_of(self.server.pid).seconds - before) / events
        size = (watches.received - received) / events
        name = f"one object of {watches.resource} changes"
        self.figures[f"{name}: for each watch"] = f"{1e6 * cost:.1f} µs, {size:,.0f} bytes"
        self.figures[f"{name}: to the last watch"] = f"median {_short(sorted(delays)[len(delays) // 2])}"
        log(f"{name}: {1e6 * cost:.1f} µs for each watch, {size:,.0f} bytes")

    def _probe(self, watches: Watches) -> tuple[Probe, bytes]:
        """Return a probe, and the request whose event it waits for."""
        self._marks += 1
        mark = f"mark-{self._marks:06}"
        if watches.resource == "services":
            return watches.expect(mark), mark_service(0, mark)
        return watches.expect(mark), mark_slice(self._slice, mark)

    # --- all together

    async def _together(self) -> None:
        """Heartbeats and pod changes at their rates, and one probe at a time through the EndpointSlices."""
        nodes, options = self.cluster.nodes, self.options
        rates = [
            Rate("Leases", nodes / LEASE_SECONDS, ((renew_lease(n, 9 + r),) for r, n in round_robin(nodes))),
            Rate("node statuses", nodes / STATUS_SECONDS, ((node_status(n, 9 + r),) for r, n in round_robin(nodes))),
            Rate("pod statuses", options.changes / 2, self._flips()),
            # Each is three changes.
            Rate("pods replaced", options.changes / 6, self._replacements()),
        ]
        paced = Paced(rates, options.seconds)
        before, began, mine = seconds_of(self.pids), time.monotonic(), time.process_time()
        received = sum(watches.received for watches in self._watches)
        probing = asyncio.create_task(self._probe_repeatedly())
        await paced.run(self._clients)
        delays = await probing
        await settle(self.pids)
        lasted = time.monotonic() - began
        after = seconds_of(self.pids)
        lost = sum(watches.lost for watches in self._watches)
        for kind, load in paced.loads.items():
            refused = f", answers by status: {load.refused}" if load.refused else ""
            if len(load.latencies) > 1:
                self.figures[f"together: {kind}, median and 99 %"] = (
                    f"{len(load.latencies) / options.seconds:,.0f}/s, {_short(load.percentile(0.5))}, "
                    f"{_short(load.percentile(0.99))}{refused}"
                )
        self.figures["together: due, but not sent in time"] = f"{paced.missed:,}"
        self.figures["together: until all was done"] = f"{lasted:.0f} s for {options.seconds:.0f} s of load"
        received = sum(watches.received for watches in self._watches) - received
        self.figures["together: to the watches"] = f"{received / 2**20:,.1f} MiB, {lost} watches lost"
        if delays:
            self.figures["together: a slice to the last watch, worst"] = _short(max(delays))
        for name, seconds in after.items():
            memory = _mebibytes(use_of(self.pids[name]).memory)
            self.figures[f"together: {name}"] = f"{seconds - before[name]:.1f} s of processor, {memory}"
        mine = time.process_time() - mine
        memory = _mebibytes(use_of(os.getpid()).memory)
        self.figures["together: the simulated nodes"] = f"{mine:.1f} s of processor, {memory}"

    def _flips(self) -> Iterator[tuple[bytes, ...]]:
        """Yield statuses of the first half of the pods: all become unready, then ready, and so on."""
        for round_, number in round_robin(math.ceil(self.cluster.pods / 2)):
            yield (pod_status(self.cluster, number, ready=bool(round_ % 2)),)

    def _replacements(self) -> Iterator[tuple[bytes, ...]]:
        """Yield replacements of the second half of the pods."""
        for _, number in round_robin(self.cluster.pods // 2):
            yield self._replacement(math.ceil(self.cluster.pods / 2) + number)

    async def _seconds_to_the_last(self, watches: Watches) -> float:
        """Probe once; return the seconds until the last watch has got the change."""
        probe, request = self._probe(watches)
        began = time.perf_counter()
        await self._prober.send_all([(request,)])
        async with asyncio.timeout(PROBE_SECONDS):
            await probe.done.wait()
        return probe.last - began

    async def _probe_repeatedly(self) -> list[float]:
        """Probe the EndpointSlices until the load's time is over; return the seconds of each probe."""
        watches, delays = self._watches[-1], []
        end = time.monotonic() + self.options.seconds
        while time.monotonic() < end:
            delays.append(await self._seconds_to_the_last(watches))
            await asyncio.sleep(1.0)
        return delays


def _is_of_template(obj: dict[str, Any]) -> bool:
    return str(obj["metadata"]["name"]).startswith("service-0")


def _mebibytes(size: int) -> str:
    return f"{size / 2**20:,.0f} MiB"


def _short(seconds: float) -> str:
    """Return a time with its unit."""
    if seconds < 0.01:
        return f"{1e6 * seconds:,.0f} µs"
    return f"{1000 * seconds:,.0f} ms" if seconds < 10 else f"{seconds:,.0f} s"


async def _measure(options: Options) -> Figures:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        one = _Run(options, here)
        with closing(one.server), one.parts.running():
            await one.all()
        return one.figures


def _work(options: Options) -> None:
    """Print the figures; or end, with a reason in their place."""
    try:
        watching = _watching_nodes(options)
        print(json.dumps(uvloop.run(_measure(options._replace(watching=watching)))))
    except (RuntimeError, OSError) as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()))
        raise SystemExit(1) from error


def _parse(arguments: list[str]) -> list[Options]:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, action="append", help="a number of nodes, up to 5,000; may be repeated")
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of the combined load, up to 600")
    parser.add_argument("--changes", type=float, default=100.0, help="pod changes per second, up to 1,000")
    parser.add_argument("--watching", type=int, default=5_000, help="nodes with watches, if they are to be fewer")
    parser.add_argument("--operations", type=int, default=500, help="operations of each kind, up to 10,000")
    found = parser.parse_args(arguments)
    if not all(1 <= nodes <= 5_000 for nodes in found.nodes or SIZES):
        parser.error("--nodes: 1 to 5000")
    if not 1 <= found.seconds <= 600 or not 1 <= found.changes <= 1_000:
        parser.error("--seconds: 1 to 600; --changes: 1 to 1000")
    if not 10 <= found.operations <= 10_000 or found.watching < 1:
        parser.error("--operations: 10 to 10000; --watching: from 1 on")
    return [
        Options(nodes, found.seconds, found.changes, found.operations, found.watching) for nodes in found.nodes or SIZES
    ]


if __name__ == "__main__":
    if sys.argv[2:3] == [_WORKER]:
        namespaces.enter(sys.argv[1])
        _work(Options(*json.loads(sys.argv[3])))
    else:
        for table in (*run(_parse(sys.argv[1:])), *scale_stores.run()):
            print("\n".join(table.lines()))
