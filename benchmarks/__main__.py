"""Run the benchmarks, print their table and keep it: python -m benchmarks [NAME...]"""

from __future__ import annotations

import importlib
import platform
import sys
import time
from pathlib import Path

MODULES = ("dns", "lab", "proxy_sync", "storage")
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


def main(names: list[str]) -> None:
    lines = [f"Measured on {time.strftime('%Y-%m-%d', time.gmtime())}: {describe_machine()}", ""]
    lines += ["| what | measured |", "| --- | --- |"]
    for name in names or MODULES:
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        lines += [f"| {what} | {value} |" for what, value in importlib.import_module(f"benchmarks.{name}").run()]
    table = "\n".join(lines) + "\n"
    print(table)
    if not names:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "latest.md").write_text(table)


if __name__ == "__main__":
    main(sys.argv[1:])
