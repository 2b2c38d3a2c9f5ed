"""API servers: writes per second and their latency, large lists, a thousand watchers of one change, memory.

The server is a process of its own with TLS and a durable store; the load generator runs beside it on the same machine.
kube-apiserver 1.20.2 with etcd is measured after it, with the same load, where it is compiled: it is the release whose
source can be had, and has neither the newer checks nor the newer speed of 1.36.
"""

from __future__ import annotations

import http.client
import os
import ssl
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec
from tests.integration.apiserver_process import ServerProcess, write_files

from benchmarks import api_objects as objects
from benchmarks.api_load import encode_request, run_load, run_watchers
from benchmarks.kube_apiserver import KubeApiServer, why_missing
from benchmarks.progress import log
from benchmarks.tables import Table, not_measured

OBJECTS = 10_000
CONNECTIONS = 64
WATCHERS = 1_000
ENDPOINTS = 5_000
LISTS = 5
PODS = 1_000
PROTOBUF = "application/vnd.kubernetes.protobuf"

Rows = dict[str, str]


class Server(Protocol):
    @property
    def port(self) -> int: ...

    def context(self, user: str = "") -> ssl.SSLContext: ...

    def read(self, path: str, *, user: str = "") -> bytes: ...


@dataclass
class Measured:
    """A server, its processes, and the version in which it has EndpointSlices."""

    server: Server
    pids: list[int]
    slices: str


def run() -> list[Table]:
    with _bridgehead() as measured:
        rows = _measure(measured)
    reason, others = why_missing(), {}
    if not reason:
        with _kube_apiserver() as measured:
            others = _measure(measured)
    columns = ["what", "Bridgehead", "kube-apiserver 1.20.2 with etcd"]
    return [
        Table(
            "The API server",
            columns,
            [(what, cell, others.get(what) or not_measured(reason)) for what, cell in rows.items()],
            note=(
                "Memory (PSS) and processor time are those of all processes of the server. "
                "Each server alone beside the load, one after the other."
            ),
        )
    ]


@contextmanager
def _bridgehead() -> Iterator[Measured]:
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        with closing(ServerProcess(here, store=f"sqlite://{here / 'store.db'}")) as server:
            server.start()
            yield Measured(server, [server.pid], "v1")


@contextmanager
def _kube_apiserver() -> Iterator[Measured]:
    log("starting kube-apiserver")
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        with closing(KubeApiServer(here)) as server:
            server.start()
            yield Measured(server, server.pids, "v1beta1")


def _measure(measured: Measured) -> Rows:
    server, slices = measured.server, objects.slices(measured.slices)
    rows: Rows = {"memory after the start": memory_of(measured.pids)}

    def writes(what: str, requests: list[bytes]) -> None:
        log(f"writing {len(requests):,} {what}")
        before = processor_seconds(measured.pids)
        text = run_load([server.port], server.context("admin"), requests, connections=CONNECTIONS).text()
        each = 1e6 * (processor_seconds(measured.pids) - before) / len(requests)
        rows[f"{len(requests):,} writes of {what}, {CONNECTIONS} connections"] = f"{text}, {each:.0f} µs of processor"

    writes("Services", objects.creates(objects.SERVICES, objects.service, OBJECTS))
    small = partial(objects.small_slice, measured.slices)
    writes("EndpointSlices of 10 endpoints", objects.creates(slices, small, OBJECTS))
    rows[f"memory with {OBJECTS:,} Services and {OBJECTS:,} EndpointSlices"] = memory_of(measured.pids)
    for form in ("application/json", PROTOBUF):
        rows[f"list of {OBJECTS:,} Services, {form}"] = _list(server, objects.SERVICES, form)
    rows[f"list of {OBJECTS:,} EndpointSlices"] = _list(server, slices, "application/json")
    # kube-apiserver has no controller here that makes the account, and ours neither.
    _load(server, [objects.create(f"{objects.NAMESPACE}/serviceaccounts", objects.account())])
    _load(server, objects.creates(objects.PODS, objects.pod, PODS))
    for pods, count, what in (
        (PODS, OBJECTS, f"patches of the status of {PODS:,} pods"),
        (1, OBJECTS // 10, "patches of the status of 1 pod"),
    ):
        writes(what, [objects.patch_status(number, number % pods) for number in range(count)])
    _load(server, [objects.create(objects.DEFINITIONS, objects.definition())])
    _wait_served(server)
    writes("custom resources with a schema", objects.creates(objects.WIDGETS, objects.widget, OBJECTS))
    return rows | _deliveries(measured)


def processor_seconds(pids: Sequence[int]) -> float:
    """Return what processes have used so far."""
    seconds = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        seconds += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return seconds


def memory_of(pids: Sequence[int]) -> str:
    """Return the memory of processes (PSS)."""
    kibibytes = 0
    for pid in pids:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        kibibytes += next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return f"{kibibytes / 1024:.0f} MiB"


def _load(server: Server, requests: list[bytes]) -> None:
    load = run_load([server.port], server.context("admin"), requests, connections=1)
    if load.refused:
        raise RuntimeError(f"a request was refused: {load.refused}")


def _list(server: Server, path: str, form: str) -> str:
    """Return the median time of a whole list on an open connection, and its size."""
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=server.context("admin"), timeout=60)
    times, size = [], 0
    for _ in range(LISTS + 1):
        began = time.perf_counter()
        connection.request("GET", path, headers={"accept": form})
        response = connection.getresponse()
        size = len(response.read())
        times.append(time.perf_counter() - began)
        if response.status != 200:
            return f"status {response.status}"
    connection.close()
    return f"{1000 * statistics.median(times[1:]):.0f} ms (median of {LISTS}), {size / 2**20:.1f} MiB"


def _wait_served(server: Server) -> None:
    deadline = time.monotonic() + 30
    while True:
        load = run_load([server.port], server.context("admin"), [encode_request("GET", objects.WIDGETS)], connections=1)
        if not load.refused:
            return
        if time.monotonic() > deadline:
            raise RuntimeError("the definition is not served after 30 s")
        time.sleep(0.01)


def _deliveries(measured: Measured) -> Rows:
    """One endpoint of 5,000 changes: as Endpoints, whose object has them all, and as EndpointSlices."""
    server, slices = measured.server, objects.slices(measured.slices)
    _load(server, [objects.create(objects.ENDPOINTS, objects.big_endpoints(ENDPOINTS, "first"))])
    big_slice = partial(objects.big_slice, measured.slices)
    _load(server, [objects.create(slices, big_slice(index, "first")) for index in range(ENDPOINTS // 100)])
    changed = (
        (
            "one Endpoints object",
            objects.ENDPOINTS,
            objects.replace(objects.ENDPOINTS, "big", objects.big_endpoints(ENDPOINTS, "changed")),
        ),
        ("EndpointSlices of 100", slices, objects.replace(slices, "big-0", big_slice(0, "changed"))),
    )
    rows: Rows = {}
    for what, path, write in changed:
        log(f"{WATCHERS:,} watchers of {what}")
        # The watch starts at the current revision: initial events would be 1 GiB, whose end would be measured, too.
        selector = f"?watch=1&labelSelector=bench%3Dbig&resourceVersion={revision_of(server, path)}"
        delivery = run_watchers(
            [server.port],
            server.context("admin"),
            path + selector,
            watchers=WATCHERS,
            write=write,
            marker=b'"mark":"changed"',
        )
        text = f"{delivery.received / 2**20:,.1f} MiB, {delivery.seconds:.2f} s to the last"
        rows[f"{WATCHERS:,} watchers, one of {ENDPOINTS:,} endpoints changes, {what}"] = text
    return rows


def revision_of(server: Server, path: str) -> str:
    """Return the resourceVersion of a list now."""
    version: str = msgspec.json.decode(server.read(f"{path}?limit=1", user="admin"))["metadata"]["resourceVersion"]
    return version


if __name__ == "__main__":
    for table in run():
        print("\n".join(table.lines()))
