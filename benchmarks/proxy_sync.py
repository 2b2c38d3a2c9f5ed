"""The proxy's modes at up to 10,000 Services x 10 endpoints: first sync, one endpoint changed, memory.

The measuring process runs in network namespaces of its own (`python -m benchmarks.proxy_sync worker`): as root with
the privileges a proxy has on a node, as an ordinary user inside a user namespace.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = {
    "nftables": ((1_000, 10), (10_000, 10), (1, 5_000)),
    "iptables-nft": ((1_000, 10),),
    "iptables-legacy": ((1_000, 10),),
}
CHANGES = 51


def run() -> list[tuple[str, str]]:
    rows = []
    for mode, services, endpoints in ((mode, *size) for mode, sizes in SIZES.items() for size in sizes):
        shape = f"{mode}, {services:,} Service{'s' * (services > 1)} x {endpoints:,} endpoints"
        found = _measure(mode, services, endpoints)
        rows += [
            (f"{shape}: first sync", f"{found['first']:.2f} s (compiling {found['compile']:.2f} s)"),
            (f"{shape}: one endpoint changed until the kernel has it", f"{found['change'] * 1000:.2f} ms"),
            (f"{shape}: memory (PSS) of the process with its objects", f"{found['memory']:.0f} MiB"),
        ]
    return rows


def _measure(mode: str, services: int, endpoints: int) -> dict[str, float]:
    become_root = [] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user"]
    worker = [sys.executable, "-m", "benchmarks.proxy_sync", "worker", os.readlink("/proc/self/ns/net")]
    result = subprocess.run(
        [*become_root, "unshare", "--net", *worker, mode, str(services), str(endpoints)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[1],
    )
    measured: dict[str, float] = json.loads(result.stdout)
    return measured


def _worker(mode_name: str, services: int, endpoints: int) -> dict[str, float]:
    import msgspec

    from bridgehead.objects.core import Service
    from bridgehead.objects.discovery import EndpointSlice
    from bridgehead.proxy.changes import FrontendTable
    from bridgehead.proxy.frontends import NodeFacts, compile_service
    from bridgehead.proxy.mode import Mode, Settings

    cidrs = ("10.0.0.0/9",)
    facts = NodeFacts(name="node1", cluster_cidrs=cidrs)
    objects = [
        (
            msgspec.json.decode(service, type=Service),
            [msgspec.json.decode(slice_, type=EndpointSlice) for slice_ in slices],
        )
        for service, slices in _objects(services, endpoints)
    ]
    node = Settings((4,), cidrs, ("10.200.0.0/13",))
    kernel: Any
    mode: Mode
    if mode_name == "nftables":
        from bridgehead.proxy import nftables

        kernel = nftables.Kernel()
        mode = nftables.NftablesMode(kernel, node)
    else:
        from bridgehead.proxy import iptables

        kernel = iptables.Kernel(mode_name.removeprefix("iptables-"))
        mode = iptables.IptablesMode(kernel, node)
    table = FrontendTable()
    gc.collect()

    begun = time.perf_counter()
    for service, slices in objects:
        table.update(service.key, compile_service(service, slices, facts))
    compiled = time.perf_counter()
    asyncio.run(mode.sync(table))
    synced = time.perf_counter()

    changes = []
    service, slices = objects[services // 2]
    for number in range(CHANGES):
        last = slices[-1]
        changed = msgspec.structs.replace(last.endpoints[-1], addresses=(f"10.100.0.{number + 1}",))
        slices[-1] = msgspec.structs.replace(last, endpoints=(*last.endpoints[:-1], changed))
        at = time.perf_counter()
        asyncio.run(mode.apply([table.update(service.key, compile_service(service, slices, facts))]))
        changes.append(time.perf_counter() - at)
    gc.collect()
    kernel.close()
    return {
        "compile": compiled - begun,
        "first": synced - begun,
        "change": statistics.median(changes),
        "memory": _pss(),
    }


def _objects(services: int, endpoints: int) -> Iterator[tuple[bytes, list[bytes]]]:
    """JSON as an API server sends it: a Service and its slices of at most 100 endpoints."""
    pod = 0
    for number in range(services):
        name = f"service-{number}"
        address = f"10.{200 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        service = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{number}", "resourceVersion": str(number)},
            "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"name": "http", "port": 80}]},
        }
        slices = []
        for start in range(0, endpoints, 100):
            found: list[dict[str, Any]] = []
            for _ in range(start, min(start + 100, endpoints)):
                pod += 1
                found.append(
                    {
                        "addresses": [f"10.{1 + (pod >> 16)}.{pod >> 8 & 255}.{pod & 255}"],
                        "conditions": {"ready": True, "serving": True, "terminating": False},
                        "nodeName": f"node{pod % 100}",
                        "zone": "a",
                        "targetRef": {"kind": "Pod", "namespace": "default", "name": f"{name}-{pod}", "uid": f"u{pod}"},
                    }
                )
            metadata = {
                "name": f"{name}-{start}",
                "namespace": "default",
                "labels": {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "x"},
            }
            ports = [{"name": "http", "protocol": "TCP", "port": 8080}]
            slices.append({"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": found})
        yield json.dumps(service).encode(), [json.dumps(slice_).encode() for slice_ in slices]


def _pss() -> float:
    """Of this process, in MiB."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss in smaps_rollup")


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        if os.readlink("/proc/self/ns/net") == sys.argv[2]:
            raise SystemExit("this is the network namespace of the machine; not touching it")
        print(json.dumps(_worker(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    else:
        for what, value in run():
            print(f"{what}: {value}")
