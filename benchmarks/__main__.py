"""Run the benchmarks, print their tables and keep them: python -m benchmarks [NAME...]

A benchmark that fails leaves a table with the reason; the others are measured all the same. The status is 1 then.
"""

from __future__ import annotations

import importlib
import platform
import sys
import time
import traceback
from pathlib import Path

from benchmarks.progress import log
from benchmarks.tables import Table, not_measured

# A module's `run` returns tables, or (what, measured) rows of one table with this title.
MODULES = {
    "lab": "The lab",
    "many_nodes": "A lab of 30 nodes",
    "proxy_sync": "",
    "datapath": "",
    "dns": "DNS",
    "barrier": "The barrier before SIGTERM",
    "api": "",
    "stores": "",
    "storage": "Storage",
    "etcd_clients": "",
    "addresses": "Load-balancer addresses",
    "failover": "",
    "failover_bgp_vrrp": "",
    "announcing": "Announcing by layer 2 and BGP",
    "planned_moves": "",
    "images": "",
    "scale": "",
    "start": "",
}
# Measured only by name: a quarter of an hour or more; what needs the wheel of `make release`.
ONLY_BY_NAME = frozenset({"scale", "start"})
RESULTS = Path(__file__).with_name("results")


def describe_machine() -> str:
    cpu = next(
        (line.split(": ", 1)[1] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line),
        platform.machine(),
    )
    cores = len([line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("processor")])
    memory = int(Path("/proc/meminfo").read_text().split()[1]) / 2**20
    return (
        f"{cpu}, {cores} cores, {memory:.0f} GiB, Linux {platform.release()}, "
        f"{platform.python_implementation()} {platform.python_version()}"
    )


def measure(name: str) -> list[Table]:
    """The tables of one module."""
    found = importlib.import_module(f"benchmarks.{name}").run()
    if found and isinstance(found[0], Table):
        return list(found)
    return [Table(MODULES[name], ("what", "measured"), found)]


def main(names: list[str]) -> int:
    for name in names:
        if name not in MODULES:
            print(f"no benchmark {name!r}; there are {', '.join(MODULES)}", file=sys.stderr)
            return 2
    lines = [f"Measured on {time.strftime('%Y-%m-%d', time.gmtime())}: {describe_machine()}", ""]
    status = 0
    begun = time.monotonic()
    for name in names or [name for name in MODULES if name not in ONLY_BY_NAME]:
        log(f"measuring {name}")
        try:
            tables = measure(name)
        except Exception as error:  # noqa: BLE001 - one benchmark does not stop the others
            traceback.print_exc()
            tables = [Table(MODULES[name] or name, ("what", "measured"), [(name, not_measured(str(error)))])]
            status = 1
        for table in tables:
            lines += table.lines()
    log(f"measured in {time.monotonic() - begun:.0f} s")
    text = "\n".join(lines)
    print(text)
    if not names:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "latest.md").write_text(text)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
