"""API servers on their stores: one on SQLite, one and three on etcd, and kube-apiserver on etcd.

Each has the same load, one after the other. All servers of a row, its etcd and the load generator share the machine, so
that three servers are faster only where it has processors for them.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.integration.apiserver_process import ServerProcess, write_files
from tests.integration.etcd_server import EtcdCluster

from benchmarks import api_objects as objects
from benchmarks.api import Server, memory_of, processor_seconds, revision_of
from benchmarks.api_load import run_load, run_watchers
from benchmarks.kube_apiserver import KubeApiServer, why_missing
from benchmarks.progress import log
from benchmarks.tables import Table, not_measured

WRITES = 5_000
CONNECTIONS = 64
WATCHERS = 1_000


@dataclass
class Measured:
    """Servers of one store, and the processes of servers and store."""

    servers: list[Server]
    pids: list[int]
    slices: str = "v1"

    @property
    def ports(self) -> list[int]:
        return [server.port for server in self.servers]


def run() -> list[Table]:
    columns: dict[str, dict[str, str]] = {}
    for name, world in (
        ("SQLite", _on_sqlite()),
        ("etcd", _on_etcd(1)),
        ("etcd, three servers", _on_etcd(3)),
    ):
        with world as measured:
            columns[name] = _measure(name, measured)
    reason = why_missing()
    if not reason:
        with _kube_apiserver() as measured:
            columns["kube-apiserver 1.20.2 on etcd"] = _measure("kube-apiserver", measured)
    names = [*columns] if not reason else [*columns, "kube-apiserver 1.20.2 on etcd"]
    rows = [
        (what, *(columns[name][what] if name in columns else not_measured(reason) for name in names))
        for what in columns["SQLite"]
    ]
    note = (
        "One etcd member with fsync on the temporary directory, as SQLite. Memory (PSS) and processor time are of all "
        "servers and the store; connections and watchers are spread over the servers."
    )
    return [Table("API servers on their stores", ["what", *names], rows, note=note)]


@contextmanager
def _directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        yield here


@contextmanager
def _on_sqlite() -> Iterator[Measured]:
    with _directory() as here, closing(ServerProcess(here, store=f"sqlite://{here / 'store.db'}")) as server:
        server.start()
        yield Measured([server], [server.pid])


@contextmanager
def _on_etcd(count: int) -> Iterator[Measured]:
    with _directory() as here, _etcd(here) as etcd, ExitStack() as stack:
        servers = []
        for number in range(count):
            options = {"etcd-servers": etcd.client_urls[0], "advertise-address": f"10.0.0.{number + 1}:6443"}
            server = stack.enter_context(closing(ServerProcess(here, store="", options=dict(options))))
            server.start()
            servers.append(server)
        yield Measured([*servers], [etcd.members[0].pid, *(server.pid for server in servers)])


@contextmanager
def _kube_apiserver() -> Iterator[Measured]:
    with _directory() as here, _etcd(here) as etcd, closing(KubeApiServer(here, etcd.client_urls[0])) as server:
        server.start()
        yield Measured([server], [etcd.members[0].pid, *server.pids], "v1beta1")


@contextmanager
def _etcd(here: Path) -> Iterator[EtcdCluster]:
    with EtcdCluster(here, options={"quota-backend-bytes": 8 * 2**30}, data=here).running() as etcd:
        yield etcd


def _measure(name: str, measured: Measured) -> dict[str, str]:
    rows = {"memory after the start": memory_of(measured.pids)}
    context = measured.servers[0].context("admin")
    small = partial(objects.small_slice, measured.slices)
    for what, requests in (
        ("Services", objects.creates(objects.SERVICES, objects.service, WRITES)),
        ("EndpointSlices", objects.creates(objects.slices(measured.slices), small, WRITES)),
    ):
        log(f"{name}: creating {len(requests):,} {what}")
        before = processor_seconds(measured.pids)
        load = run_load(measured.ports, context, requests, connections=CONNECTIONS)
        each = 1e6 * (processor_seconds(measured.pids) - before) / len(requests)
        rows[f"{WRITES:,} creates of {what}, {CONNECTIONS} connections"] = f"{load.text()}, {each:.0f} µs of processor"
    rows[f"memory with {WRITES:,} of each"] = memory_of(measured.pids)
    rows[f"{WATCHERS:,} watchers of one change of an EndpointSlice"] = _delivery(name, measured)
    return rows


def _delivery(name: str, measured: Measured) -> str:
    log(f"{name}: {WATCHERS:,} watchers")
    path, make = objects.slices(measured.slices), partial(objects.big_slice, measured.slices)
    context = measured.servers[0].context("admin")
    run_load(measured.ports[:1], context, [objects.create(path, make(0, "first"))], connections=1)
    selector = f"?watch=1&labelSelector=bench%3Dbig&resourceVersion={revision_of(measured.servers[0], path)}"
    delivery = run_watchers(
        measured.ports,
        context,
        path + selector,
        watchers=WATCHERS,
        write=objects.replace(path, "big-0", make(0, "changed")),
        marker=b'"mark":"changed"',
    )
    return f"{delivery.seconds:.2f} s to the last, {delivery.received / 2**20:.1f} MiB"


if __name__ == "__main__":
    for table in run():
        print(os.linesep.join(table.lines()))
