"""The DNS at 10,000 Services: queries per second inside the process and over loopback, time to follow a change, memory.

dnsperf (Debian) asks over loopback, a port of the kernel's choice; without dnsperf its rows name what is
missing. The server runs as a process of its own: `python -m benchmarks.dns worker`.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.client import ApiClient, ListResult, WatchEvent
from bridgehead.dns.answering import Responder, Unresolved
from bridgehead.dns.config import ZoneSettings
from bridgehead.dns.messages import wire
from bridgehead.dns.serving import DnsMetrics, DnsServer
from bridgehead.dns.supervisor import supervise
from bridgehead.dns.zone import Zone
from bridgehead.dns.zone_sync import ZoneSync
from bridgehead.objects.core import Namespace, Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.kinds import Kind

SERVICES = 10_000
HEADLESS = 100  # Services of 50 endpoints beside them
ENDPOINTS = 50
CHANGES = 51
LOOPS = 200_000
SECONDS = 5


def run() -> list[tuple[str, str]]:
    inside = json.loads(_worker_process("inside"))
    rows = [
        (f"DNS, {SERVICES:,} Services: start to ready, objects in memory", f"{inside['ready']:.2f} s"),
        ("DNS: memory (PSS) of the process with its objects", f"{inside['memory']:.0f} MiB"),
        ("DNS: Service changed, watch event to answer, median", f"{inside['change'] * 1000:.2f} ms"),
        (f"DNS: one of {ENDPOINTS} headless endpoints changed, the same", f"{inside['endpoint'] * 1000:.2f} ms"),
        *((f"DNS: in-process, {what}", f"{rate:,.0f} queries/s") for what, rate in inside["rates"].items()),
    ]
    if shutil.which("dnsperf") is None:
        return [*rows, ("DNS over loopback", "not measured: no dnsperf here")]
    for processes in (1, 2):
        with subprocess.Popen(
            [sys.executable, "-m", "benchmarks.dns", "worker", "serve", str(processes)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[1],
        ) as server:
            try:
                port = [server.stdout.readline() for _ in range(processes)][-1].strip()  # type: ignore[union-attr]
                plural = "es" if processes > 1 else ""
                for what, names in _queries().items():
                    rows.append((f"DNS over loopback, {processes} process{plural}, {what}", _dnsperf(port, names)))
            finally:
                server.terminate()
    return rows


def _dnsperf(port: str, queries: list[str]) -> str:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("".join(f"{query}\n" for query in queries))
        file.flush()
        output = subprocess.run(
            ["dnsperf", "-s", "127.0.0.1", "-p", port, "-d", file.name, "-l", str(SECONDS), "-c", "8", "-q", "200"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
    rate = float(re.search(r"Queries per second:\s+([\d.]+)", output)[1])  # type: ignore[index]
    latency = float(re.search(r"Average Latency \(s\):\s+([\d.]+)", output)[1])  # type: ignore[index]
    lost = re.search(r"Queries lost:\s+(\d+)", output)[1]  # type: ignore[index]
    return f"{rate:,.0f} queries/s, {latency * 1000:.2f} ms, {lost} lost"


def _queries() -> dict[str, list[str]]:
    numbers = random.Random(1).sample(range(SERVICES), 5000)
    return {
        "A": [f"service-{number}.default.svc.cluster.local A" for number in numbers],
        "AAAA of v4-only names": [f"service-{number}.default.svc.cluster.local AAAA" for number in numbers],
        f"headless, {ENDPOINTS} endpoints": [
            f"headless-{number % HEADLESS}.default.svc.cluster.local A" for number in numbers
        ],
        "SRV": [f"_http._tcp.service-{number}.default.svc.cluster.local SRV" for number in numbers],
        "NXDOMAIN through a search list": [
            f"www{number}.example.com.{end} A"
            for number in numbers
            for end in ("default.svc.cluster.local", "svc.cluster.local", "cluster.local")
        ],
    }


# --- In the worker ---------------------------------------------------------------------------------------------


class _Api:
    """A client for the sync: lists fixed objects, and watches the changes of the benchmark."""

    def __init__(self) -> None:
        self.objects: dict[str, list[Any]] = {"services": [], "endpointslices": [], "namespaces": []}
        self.events: dict[str, asyncio.Queue[WatchEvent[Any]]] = {plural: asyncio.Queue() for plural in self.objects}
        for document in _objects():
            kind = document.pop("kind")
            type_ = {"services": Service, "endpointslices": EndpointSlice, "namespaces": Namespace}[kind]
            self.objects[kind].append(msgspec.convert(document, type_))

    async def list(self, kind: Kind[Any], *_: Any) -> ListResult[Any]:
        result = msgspec.convert({"items": [], "metadata": {"resourceVersion": "1"}}, ListResult[Any])
        return msgspec.structs.replace(result, items=self.objects[kind.plural])

    async def watch(self, kind: Kind[Any], *_: Any, **__: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        while True:
            yield await self.events[kind.plural].get()


def _objects() -> Iterator[dict[str, Any]]:
    yield {"kind": "namespaces", "metadata": {"name": "default", "resourceVersion": "1"}}
    for number in range(SERVICES):
        address = f"10.{96 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        yield {
            "kind": "services",
            "metadata": {
                "name": f"service-{number}",
                "namespace": "default",
                "uid": f"{number}",
                "resourceVersion": "1",
            },
            "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"name": "http", "port": 80}]},
        }
    for number in range(HEADLESS):
        name = f"headless-{number}"
        yield {
            "kind": "services",
            "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
            "spec": {"clusterIP": "None", "clusterIPs": ["None"], "ports": [{"name": "http", "port": 80}]},
        }
        yield {
            "kind": "endpointslices",
            "metadata": {
                "name": f"{name}-x",
                "namespace": "default",
                "uid": name,
                "resourceVersion": "1",
                "labels": {"kubernetes.io/service-name": name},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [{"addresses": [f"10.244.{number}.{n}"], "hostname": f"pod-{n}"} for n in range(ENDPOINTS)],
        }


async def _measure_inside() -> dict[str, Any]:
    api = _Api()
    begun = time.perf_counter()
    zone_sync, responder = _parts(api)
    following = asyncio.create_task(zone_sync.run())
    await zone_sync.wait_synced()
    responder.set_ready()
    ready = time.perf_counter() - begun
    found = {
        "ready": ready,
        "memory": _pss(),
        "change": await _time_changes(api, responder, "services", _other_service, lambda n: f"service-{n * 7}"),
        "endpoint": await _time_changes(api, responder, "endpointslices", _other_slice, lambda n: f"headless-{n}"),
        "rates": {what: _rate(responder, queries) for what, queries in _queries().items()},
    }
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    return found


async def _time_changes(
    api: _Api,
    responder: Responder,
    kind: str,
    change: Callable[[Any, int], tuple[Any, bytes]],
    name: Callable[[int], str],
) -> float:
    """Seconds from a watch event to the new answer, median."""
    by_name = {obj.metadata.name.removesuffix("-x"): obj for obj in api.objects[kind]}
    times = []
    for number in range(CHANGES):
        obj, address = change(by_name[name(number)], number)
        query = _query(f"{name(number)}.default.svc.cluster.local A")
        at = time.perf_counter()
        api.events[kind].put_nowait(WatchEvent("MODIFIED", obj))
        while address not in bytes(responder.respond_untrusted(query) or b""):  # type: ignore[arg-type]  # noqa: ASYNC110
            await asyncio.sleep(0)
        times.append(time.perf_counter() - at)
    return statistics.median(times)


def _other_service(service: Service, number: int) -> tuple[Service, bytes]:
    address = f"10.110.0.{number}"
    spec = msgspec.structs.replace(service.spec, cluster_ip=address, cluster_ips=(address,))
    return _newer(service, spec=spec), bytes((10, 110, 0, number))


def _other_slice(slice_: EndpointSlice, number: int) -> tuple[EndpointSlice, bytes]:
    first = msgspec.structs.replace(slice_.endpoints[0], addresses=(f"10.245.0.{number}",))
    return _newer(slice_, endpoints=(first, *slice_.endpoints[1:])), bytes((10, 245, 0, number))


def _newer(obj: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(obj, metadata=msgspec.structs.replace(obj.metadata, resource_version="2"), **changes)


def _rate(responder: Responder, queries: list[str]) -> float:
    packets = [_query(query) for query in queries]
    packets = (packets * (LOOPS // len(packets) + 1))[:LOOPS]
    respond = responder.respond_untrusted
    begun = time.perf_counter()
    for packet in packets:
        respond(packet)
    return LOOPS / (time.perf_counter() - begun)


def _query(line: str) -> bytes:
    name, _, kind = line.partition(" ")
    return b"\x12\x34\1\0\0\1\0\0\0\0\0\0" + wire.question_key(wire.encode_name(name), wire.TYPES[kind])


def _parts(api: _Api) -> tuple[ZoneSync, Responder]:
    zone = Zone(ZoneSettings(recursive=False))
    client: ApiClient = api  # type: ignore[assignment]
    return ZoneSync(client, zone, DnsMetrics()), Responder(zone, is_recursive=False)


async def _serve(port: int, *, shared: bool) -> None:
    zone_sync, responder = _parts(_Api())

    async def nobody(question: Unresolved, client: str) -> bytes:
        return responder.refuse(question)

    server = DnsServer(responder, nobody)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(zone_sync.run())
        await zone_sync.wait_synced()
        responder.set_ready()
        port = server.bind("127.0.0.1", port, shared=shared)
        print(port, flush=True)
        tasks.create_task(server.run())


def _worker_process(*arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-m", "benchmarks.dns", "worker", *arguments],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
    )
    return result.stdout


def _free_port() -> int:
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _pss() -> float:
    """Return the proportional set size of this process, in MiB."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss in smaps_rollup")


def _main(arguments: list[str]) -> None:
    match arguments:
        case ["worker", "inside"]:
            print(json.dumps(asyncio.run(_measure_inside())))
        case ["worker", "serve", "1"]:
            asyncio.run(_serve(0, shared=False))
        case ["worker", "serve", count]:
            port = _free_port()
            raise SystemExit(supervise(int(count), lambda *_: asyncio.run(_serve(port, shared=True))))
        case _:
            for what, value in run():
                print(f"{what}: {value}")


if __name__ == "__main__":
    _main(sys.argv[1:])
