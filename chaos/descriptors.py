"""Open descriptors and memory of a lab's processes while Services and pods come and go: python -m chaos.descriptors

There are no faults: what a process has more at the end than after a minute, it has not released.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from bridgehead.client import ApiClient
from bridgehead.objects.kinds import DEPLOYMENTS

from .faults import MODES
from .injectors.processes import find_dns_servers, find_proxies, node_of
from .lab import Lab
from .ledger import Ledger
from .running import running_lab
from .workload.churn import ServiceChurn, churn_pods, create_deployments, plan_deployments
from .workload.clients import Clients
from .workload.servers import NAMESPACE, create_servers
from .workload.writers import write_config_maps

_WARM_UP = 60.0  # seconds; what is opened once is open by then
_SETTLE = 15.0  # seconds until ended pods are gone and connections of theirs are closed
_READ = """
for pid in "$@"; do
  echo "$pid $(ls /proc/$pid/fd | wc -l) $(sed -n 's/^VmRSS:[^0-9]*//p' /proc/$pid/status)"
done
"""


@dataclass(frozen=True)
class Usage:
    """Descriptors and memory of one process; `resident` in KiB."""

    pid: int
    descriptors: int
    resident: int


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos.descriptors", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=60, help="after a first minute")
    parser.add_argument("--mode", choices=MODES, default=MODES[0])
    parser.add_argument("--services", type=int, default=500, help="how many come and go")
    parser.add_argument("--pods", type=int, default=200, help="how many come and go")
    parser.add_argument("--pause", type=float, default=5, help="seconds between two connections of a client")
    return parser.parse_args(argv)


async def measure(given: argparse.Namespace) -> tuple[dict[str, Usage], dict[str, Usage]]:
    """Return what the processes use after the first minute and at the end, by the processes' names."""
    rng = random.Random(given.seed)
    async with running_lab(given.mode) as (lab, _), lab.client() as client:
        clients = Clients(lab, await create_servers(lab), given.pause)
        deployments, ledger, numbers = plan_deployments(given.pods), Ledger(), itertools.count()
        await create_deployments(client, deployments)
        churn = ServiceChurn(client, ledger, random.Random(rng.random()), given.services, deployments)
        await churn.fill()
        await clients.start()

        async def use_for(seconds: float) -> dict[str, Usage]:
            """Let objects come and go; then restore their numbers, so that two readings are of equal clusters."""
            workers = [
                churn.run(),
                churn_pods(client, random.Random(rng.random()), deployments),
                write_config_maps(client, ledger, random.Random(rng.random()), next(numbers), 1.0),
            ]
            async with asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(worker) for worker in workers]
                await asyncio.sleep(seconds)
                for task in running:
                    task.cancel()
            await churn.fill()
            await _scale_up(lab, client, deployments)
            await asyncio.sleep(_SETTLE)
            return await read_usage(lab)

        return await use_for(_WARM_UP), await use_for(given.minutes * 60)


async def _scale_up(lab: Lab, client: ApiClient, deployments: Mapping[str, int]) -> None:
    for name, pods in deployments.items():
        await client.patch(DEPLOYMENTS, name, NAMESPACE, {"spec": {"replicas": pods}})
    for name in deployments:
        await lab.kubectl("-n", NAMESPACE, "rollout", "status", f"deployment/{name}", "--timeout=120s")


async def read_usage(lab: Lab) -> dict[str, Usage]:
    """Return the usage of parts, proxies and DNS servers."""
    processes = await lab.processes()
    pids = lab.part_pids()
    pids.update({f"proxy on {node_of(lab, process, processes)}": process.pid for process in find_proxies(processes)})
    servers = find_dns_servers(processes)
    pids.update({f"DNS on {node_of(lab, process, processes)}, {process.pid}": process.pid for process in servers})
    text = await lab.inside("sh", "-c", _READ, "sh", *(str(pid) for pid in pids.values()))
    usages = {
        int(pid): Usage(int(pid), int(count), int(kib)) for pid, count, kib, _ in map(str.split, text.splitlines())
    }
    return {name: usages[pid] for name, pid in sorted(pids.items())}


def describe(before: Mapping[str, Usage], after: Mapping[str, Usage], given: argparse.Namespace) -> Iterator[str]:
    """Lines of Markdown."""
    yield f"Mode {given.mode}, seed {given.seed}; {given.services} Services and {given.pods} pods come and go."
    yield ""
    yield f"| process | descriptors after 1 minute | {given.minutes:g} minutes later | MiB after 1 minute | later |"
    yield "| --- | --- | --- | --- | --- |"
    for name in sorted(before.keys() | after.keys()):
        first, last = before.get(name), after.get(name)
        is_same = first and last and first.pid == last.pid
        cells = [name if is_same else f"{name} (restarted)"]
        cells += [str(usage.descriptors) if usage else "" for usage in (first, last)]
        cells += [f"{usage.resident / 1024:.0f}" if usage else "" for usage in (first, last)]
        yield f"| {' | '.join(cells)} |"


def main(argv: Sequence[str]) -> int:
    given = parse(argv)
    before, after = asyncio.run(measure(given))
    sys.stdout.write("".join(f"{line}\n" for line in describe(before, after, given)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
