"""Cost of a connection through a Service in each proxy mode, beside one to the pod itself.

A pod connects to a Service with two endpoints on the same node, which stands in the middle of 1, 1,000 or 10,000
Services. Everything happens in namespaces of its own (`tests/integration/proxy_world.py`); there,
`datapath_worker.py` takes turns with connections through the Service and direct ones, by way of a node without any
Service. The ipvs mode has a kernel of its own as well, and the direct path is measured there, too (`kernels.py`).
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.integration.proxy_world import MODES, World

from benchmarks.kernels import Measurement, measure_here, measure_in_guest
from benchmarks.tables import Table, not_measured


class Shape(NamedTuple):
    mode: str
    services: int

    def __str__(self) -> str:
        return f"{self.mode}, {self.services:,} Service{'s' * (self.services > 1)}"


class Pace(NamedTuple):
    """Number of rounds, and the duration of each."""

    rounds: int
    seconds: float


# Short rounds, and many: whatever else the machine does in one of them does not reach the medians.
PACE = Pace(9, 0.15)
GUEST_PACE = Pace(7, 0.3)  # where a second has a tenth of the connections

SIZES = (1, 1_000, 10_000)
SHAPES = tuple(Shape(mode, services) for mode in MODES for services in SIZES)
GUEST_SHAPES = tuple(Shape("ipvs", services) for services in SIZES)
COLUMNS = (
    "path", "new connections/s", "ratio", "latency, median", "ratio", "p99", "ratio", "throughput", "ratio",
    "first sync",
)  # fmt: skip
FIGURES = (("rate", "{:,.0f}"), ("median", "{:.1f} us"), ("p99", "{:.1f} us"), ("throughput", "{:.1f} Gbit/s"))

PODS = ("pod2", "pod3")
ADDRESSES = tuple(f"10.244.1.{pod[-1]}" for pod in PODS)
PORT = 9000

Rounds = list[dict[str, float]]  # what each round measured


def run() -> list[Table]:
    return [table_of(list(measure_here(measure, SHAPES)), list(measure_in_guest("datapath", GUEST_SHAPES)))]


def measure(shape: Shape) -> dict[str, Any]:
    """Rounds of the paths "direct" and "service", taken in turns; "first sync" in seconds.

    Raises RuntimeError, with a reason for people, when this kernel or machine cannot.
    """
    pace = GUEST_PACE if shape in GUEST_SHAPES else PACE
    with World(shape.mode) as world:
        if shape.services > 1:
            world.ask("load_many", services=shape.services, endpoints=2)
        number = shape.services // 2
        address = f"10.97.{number >> 8}.{number & 255}"
        service = {
            "metadata": {"name": f"many-{number}", "namespace": "default"},
            "spec": {"clusterIP": address, "clusterIPs": [address], "ports": [{"port": 80}]},
        }
        endpoints = [{"addresses": [pod], "nodeName": "node1"} for pod in ADDRESSES]
        slice_ = {"addressType": "IPv4", "ports": [{"port": PORT}], "endpoints": endpoints}
        world.ask("load", service=service, slices=[slice_])
        begun = time.perf_counter()
        world.ask("sync")
        first_sync = time.perf_counter() - begun
        worker = Path(__file__).with_name("datapath_worker.py")
        arguments = (address, str(pace.rounds), str(pace.seconds), str(PORT), *PODS)
        output = world.run(sys.executable, str(worker), *arguments)
    measured: dict[str, Any] = json.loads(output)
    if "failed" in measured:
        raise RuntimeError(measured["failed"])
    return measured | {"first sync": first_sync}


# --- The table -------------------------------------------------------------------------------------------


def table_of(here: Sequence[tuple[Shape, Measurement]], there: Sequence[tuple[Shape, Measurement]] = ()) -> Table:
    """`there` was measured in the guest."""
    note = (
        "From one pod to another on the same node. A new connection is opened, has one byte answered, and is reset: by "
        "as many processes at once as there are cores for the rate, one after the other for the latency. Throughput is "
        "of one connection that sends as fast as it can. Load and servers are Python around system calls. Direct: to a "
        "pod itself, on a node that has no Services, no rules and no connection tracking. Ratios are to this path on "
        "the same kernel, measured in turns with it (medians). First sync: all Services, two endpoints each, into a "
        "kernel that has none."
    )
    kernels = {found.kernel for _, found in there if found.kernel}
    if kernels:
        note += (
            f" In the guest: measured in user-mode-linux, Linux {', '.join(kernels)} as a process of this machine, on "
            "one processor, since IPVS is not in every kernel. Only its ratios compare with the other rows."
        )
    return Table("Data path", COLUMNS, [*_rows(here, ""), *_rows(there, ", in the guest")], note)


def _rows(results: Sequence[tuple[Shape, Measurement]], where: str) -> Iterator[list[str]]:
    direct = [round_ for _, found in results if found.measured for round_ in found.measured["direct"]]
    if direct:
        yield [f"direct{where}", *_cells(direct, None), ""]
    for shape, found in results:
        label = f"{shape}{where}"
        if found.measured is None:
            yield [label, not_measured(found.reason), *[""] * (len(COLUMNS) - 2)]
        else:
            cells = _cells(found.measured["service"], found.measured["direct"])
            # The first sync of one Service only measures the start of a few programs and the load of modules.
            yield [label, *cells, f"{found.measured['first sync']:.2f} s" if shape.services > 1 else ""]


def _cells(own: Rounds, direct: Rounds | None) -> Iterator[str]:
    """Medians over the rounds, each with the median of its ratios to the direct path in each round."""
    for name, text in FIGURES:
        yield text.format(statistics.median(round_[name] for round_ in own))
        if direct is None:
            yield ""
        else:
            yield f"{statistics.median(a[name] / b[name] for a, b in zip(own, direct, strict=True)):.2f}"


if __name__ == "__main__":
    mode, *numbers = sys.argv[1:]
    chosen = [Shape(mode, int(number)) for number in numbers] or [Shape(mode, number) for number in SIZES]
    if mode == "ipvs":
        print("\n".join(table_of([], list(measure_in_guest("datapath", chosen))).lines()))
    else:
        print("\n".join(table_of(list(measure_here(measure, chosen))).lines()))
