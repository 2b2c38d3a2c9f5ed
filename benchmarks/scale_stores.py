"""Writes with SQLite and with etcd as the store: processor time of the API server, and of etcd.

The server has few objects, so this is the cost of a write itself; `scale` has the cost of many watches and objects.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import uvloop
from tests.integration.apiserver_process import ServerProcess, write_files
from tests.integration.etcd_server import EtcdCluster

from benchmarks import namespaces
from benchmarks.scale_cluster import Cluster, node_status, pod_status, renew_lease, template_requests
from benchmarks.scale_nodes import Clients
from benchmarks.scale_processes import seconds_of, settle
from benchmarks.tables import Table, not_measured

WRITES = 300
CONNECTIONS = 1  # renewals of one Lease at the same time would be conflicts
_STORES = ("sqlite", "etcd")


def run() -> list[Table]:
    """Measure both stores in namespaces of their own."""
    rows: list[list[str]] = []
    for store in _STORES:
        result = namespaces.start("benchmarks.scale_stores", store, keeps_root=True)
        lines = result.output.strip().splitlines()
        cells = (
            {"a write": not_measured(lines[-1] if lines else "no result")} if result.status else json.loads(lines[-1])
        )
        rows += [[f"{store}: {what}", cell] for what, cell in cells.items()]
    note = f"{WRITES:,} writes of each kind, one after the other; etcd has one member and its data in memory."
    return [Table("Stores", ("write", "processor time"), rows, note)]


@contextlib.contextmanager
def _running(store: str, directory: Path) -> Iterator[tuple[ServerProcess, dict[str, int]]]:
    """Start a server on a store of this kind; yield it, and its processes by name."""
    with contextlib.ExitStack() as stack:
        if store == "etcd":
            etcd = stack.enter_context(EtcdCluster(directory).running())
            server = ServerProcess(directory, store="", options={"etcd-servers": etcd.client_urls[0]})
            pids = {"etcd": etcd.members[0].pid}
        else:
            server, pids = ServerProcess(directory, store=f"sqlite://{directory / 'store.db'}"), {}
        stack.enter_context(closing(server))
        server.start()
        yield server, {"apiserver": server.pid, **pids}


async def _measure(store: str) -> dict[str, str]:
    cluster, cells = Cluster(1), {}
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        with _running(store, here) as (server, pids):
            clients = await Clients.open(server.port, server.context("admin"), CONNECTIONS)
            server_alone = {"apiserver": server.pid}  # etcd's clock ticks all the time
            with closing(clients):
                for request in template_requests(cluster):
                    await clients.send_all([(request,)])
                for what, requests in (
                    ("a Lease renewed", [renew_lease(0, n) for n in range(WRITES)]),
                    ("a node's status", [node_status(0, n) for n in range(WRITES)]),
                    ("a pod's status", [pod_status(cluster, 0, ready=bool(n % 2)) for n in range(WRITES)]),
                ):
                    await settle(server_alone)
                    before = seconds_of(pids)
                    load = await clients.send_all([(request,) for request in requests])
                    if load.refused:
                        raise RuntimeError(f"answers by status: {load.refused}")
                    await settle(server_alone)
                    after = seconds_of(pids)
                    used = {name: 1e6 * (after[name] - before[name]) / WRITES for name in pids}
                    cells[what] = ", ".join(f"{name} {each:,.0f} µs" for name, each in used.items())
    return cells


def _work(store: str) -> None:
    """Print the figures; or end, with a reason in their place."""
    try:
        if store == "etcd" and shutil.which("etcd") is None:
            raise RuntimeError("etcd is missing (Debian: apt-get install etcd-server)")
        print(json.dumps(uvloop.run(_measure(store))))
    except (TimeoutError, RuntimeError, OSError) as error:
        print(" ".join(f"{type(error).__name__}: {error}".split()))
        raise SystemExit(1) from error


if __name__ == "__main__":
    if len(sys.argv) > 2:
        namespaces.enter(sys.argv[1])
        _work(sys.argv[2])
    else:
        for table in run():
            print("\n".join(table.lines()))
