"""The proxy up to 44,000 Services and 250,000 endpoints: first sync, one endpoint changed, memory.

A whole `ProxyAgent` follows a client that has every object in memory, and brings them to the kernel of a network
namespace of its own (`namespaces.py`): as root with the privileges a proxy has on a node, as
an ordinary user inside a user namespace. The ipvs mode has a kernel of its own as well (`kernels.py`).
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
from collections.abc import AsyncGenerator, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import namespaces
from benchmarks.kernels import Measurement, measure_here, measure_in_guest
from benchmarks.tables import Table, not_measured


class Shape(NamedTuple):
    mode: str
    services: int
    endpoints: int  # of each
    is_sticky: bool = False

    def __str__(self) -> str:
        plural = "s" if self.services > 1 else ""
        sticky = "sticky " if self.is_sticky else ""
        return f"{self.mode}, {self.services:,} {sticky}Service{plural} x {self.endpoints:,} endpoints"


SHAPES = (
    Shape("nftables", 1_000, 10),
    Shape("nftables", 10_000, 10),
    Shape("nftables", 1, 5_000),
    Shape("nftables", 44_000, 2),
    Shape("nftables", 5_000, 50),
    Shape("nftables", 1_000, 10, is_sticky=True),
    Shape("nftables", 10_000, 10, is_sticky=True),
    Shape("iptables-nft", 1_000, 10),
    Shape("iptables-legacy", 1_000, 10),
    Shape("iptables-legacy", 10_000, 10),
    Shape("userspace", 1_000, 10),
    Shape("userspace", 10_000, 10),
)
GUEST_SHAPES = (Shape("ipvs", 1_000, 10), Shape("ipvs", 10_000, 10))
_WORKER = "worker"  # the argument by which this module is the program in the namespaces
CHANGES = 51
FEWEST_CHANGES, CHANGES_SECONDS = 5, 8  # where they take long
NEWER = 1_000_000  # resource versions begin here after the start


def run(here: Sequence[Shape] = SHAPES, there: Sequence[Shape] = GUEST_SHAPES) -> list[Table]:
    """`there` is measured in the guest."""
    rows = [_row(str(shape), found) for shape, found in measure_here(measure, here)]
    kernel = ""
    for shape, found in measure_in_guest("proxy_sync", there):
        rows.append(_row(f"{shape}, in the guest", found))
        kernel = kernel or found.kernel
    note = (
        "First sync: from the objects in memory until all are in the kernel. Change: from the watch event of one "
        f"replaced endpoint until the kernel has it, through the whole agent ({CHANGES} times, or as often as "
        f"{CHANGES_SECONDS} s allow). A sync of over 20 ms, such as the first one, is followed by a pause as long as "
        "the sync, 0.25 s at most; the worst change contains it. Memory: PSS of the process with all its objects."
    )
    if kernel:
        note += f" In the guest: in user-mode-linux, Linux {kernel} as a process of this machine, on one processor."
    return [Table("The proxy's work", ("mode and size", "first sync", "change, median", "worst", "memory"), rows, note)]


def _row(label: str, found: Measurement) -> list[str]:
    if found.measured is None:
        return [label, not_measured(found.reason), "", "", ""]
    measured = found.measured
    change, worst = (f"{measured[name] * 1000:.2f} ms" for name in ("change", "worst"))
    return [label, f"{measured['first']:.2f} s", change, worst, f"{measured['memory']:.0f} MiB"]


def measure(shape: Shape) -> dict[str, float]:
    """Seconds `first`, `change` and `worst`, MiB of `memory`.

    Raises RuntimeError, with a reason for people, when this kernel or machine cannot.
    """
    result = namespaces.start("benchmarks.proxy_sync", _WORKER, json.dumps(shape), keeps_root=True)
    if result.status:
        raise RuntimeError(result.output.strip() or f"ended with status {result.status}")
    measured: dict[str, float] = json.loads(result.output)
    return measured


class _Api:
    """A client for the agent: lists fixed objects, and watches the changes of the benchmark."""

    def __init__(self, shape: Shape) -> None:
        import msgspec

        from bridgehead.objects.core import Service
        from bridgehead.objects.endpoint_slices import EndpointSlice

        self.objects: dict[str, list[Any]] = {"services": [], "endpointslices": [], "nodes": []}
        self.events: dict[str, asyncio.Queue[Any]] = {plural: asyncio.Queue() for plural in self.objects}
        for service, slices in _objects(shape):
            self.objects["services"].append(msgspec.json.decode(service, type=Service))
            self.objects["endpointslices"] += (msgspec.json.decode(slice_, type=EndpointSlice) for slice_ in slices)

    async def list(self, kind: Any, *_: Any) -> Any:
        import msgspec

        from bridgehead.client import ListResult

        result = msgspec.convert({"items": [], "metadata": {"resourceVersion": "1"}}, ListResult[Any])
        return msgspec.structs.replace(result, items=self.objects[kind.plural])

    async def watch(self, kind: Any, *_: Any, **__: Any) -> AsyncGenerator[Any, None]:
        while True:
            yield await self.events[kind.plural].get()

    async def create(self, *_: Any, **__: Any) -> None:
        """Events are not kept."""


async def _worker(shape: Shape) -> dict[str, float]:
    import msgspec

    from bridgehead.client import WatchEvent
    from bridgehead.proxy.agent import ProxyAgent
    from bridgehead.proxy.config import ProxyConfig
    from bridgehead.proxy.conntrack.reconciler import ConntrackReconciler
    from bridgehead.proxy.mode_choice import open_mode

    config = ProxyConfig(cluster_cidrs=("10.0.0.0/9",))
    name, _, variant = shape.mode.partition("-")
    _prepare(variant)
    api: Any = _Api(shape)
    gc.collect()
    async with open_mode(name) as mode:
        applied: asyncio.Queue[float] = asyncio.Queue()
        apply = mode.apply

        async def timed(updates: Any) -> int:
            changed = await apply(updates)
            applied.put_nowait(time.perf_counter())
            return changed

        mode.apply = timed  # type: ignore[method-assign]
        flows = ConntrackReconciler()
        agent = ProxyAgent(api, mode, config, "node1", service_cidrs=("10.200.0.0/13",), flows=flows)
        async with asyncio.TaskGroup() as tasks:
            begun = time.perf_counter()
            following = tasks.create_task(agent.run())
            await agent.wait_programmed()
            first = time.perf_counter() - begun

            changes: list[float] = []
            slice_ = api.objects["endpointslices"][len(api.objects["endpointslices"]) // 2]
            for number in range(CHANGES):
                if number >= FEWEST_CHANGES and sum(changes) > CHANGES_SECONDS:
                    break
                changed = msgspec.structs.replace(slice_.endpoints[-1], addresses=(f"10.100.0.{number + 1}",))
                newer = msgspec.structs.replace(slice_.metadata, resource_version=f"{NEWER + number}")
                slice_ = msgspec.structs.replace(slice_, metadata=newer, endpoints=(*slice_.endpoints[:-1], changed))
                at = time.perf_counter()
                api.events["endpointslices"].put_nowait(WatchEvent("MODIFIED", slice_))
                async with asyncio.timeout(30):
                    changes.append(await applied.get() - at)
            gc.collect()
            memory = _pss()
            following.cancel()
        flows.close()
    return {"first": first, "change": statistics.median(changes), "worst": max(changes), "memory": memory}


def _prepare(variant: str) -> None:
    """A loopback device that is up, as on every node; and the chain that shows the iptables mode the node's variant."""
    subprocess.run(("ip", "link", "set", "lo", "up"), check=True)
    if variant:
        command = (f"iptables-{variant}", "-t", "mangle", "-N", "KUBE-IPTABLES-HINT")
        subprocess.run(command, check=True, env={"PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"})


def _objects(shape: Shape) -> Iterator[tuple[bytes, list[bytes]]]:
    """JSON as an API server sends it: a Service and its slices of at most 100 endpoints."""
    endpoints = shape.endpoints
    pod = 0
    for number in range(shape.services):
        name = f"service-{number}"
        address = f"10.{200 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
        service: dict[str, Any] = {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{number}", "resourceVersion": str(number)},
            "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"name": "http", "port": 80}]},
        }
        if shape.is_sticky:
            service["spec"] |= {"sessionAffinity": "ClientIP"}
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
                "uid": f"{name}-{start}",
                "resourceVersion": str(number),
                "labels": {"kubernetes.io/service-name": name, "endpointslice.kubernetes.io/managed-by": "x"},
            }
            ports = [{"name": "http", "protocol": "TCP", "port": 8080}]
            slices.append({"metadata": metadata, "addressType": "IPv4", "ports": ports, "endpoints": found})
        yield json.dumps(service).encode(), [json.dumps(slice_).encode() for slice_ in slices]


def _pss() -> float:
    """Return the proportional set size of this process, in MiB."""
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no Pss in smaps_rollup")


def _work(shape: Shape) -> None:
    """Print what was measured; or end, with a reason in its place."""
    from bridgehead.proxy.errors import ModeUnavailable

    try:
        print(json.dumps(asyncio.run(_worker(shape))))
    except (ModeUnavailable, OSError, subprocess.CalledProcessError) as error:
        print(error)
        raise SystemExit(1) from None


if __name__ == "__main__":
    if sys.argv[2:3] == [_WORKER]:
        namespaces.enter(sys.argv[1])
        _work(Shape(*json.loads(sys.argv[3])))
    else:
        chosen = [
            [shape for shape in shapes if str(shape).startswith(" ".join(sys.argv[1:]))]
            for shapes in (SHAPES, GUEST_SHAPES)
        ]
        for table in run(*chosen):
            print("\n".join(table.lines()))
