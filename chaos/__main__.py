"""Run faults against a lab: python -m chaos --seed 7 --faults 200 --minutes 30 --mode nftables
and against several API servers on one etcd: python -m chaos --part api-servers

Every mode gets a lab of its own and the faults of the same seed. The tables are printed, and kept with --report. The
status is 1 when something was seen that should not be.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from .faults import MODES, FaultKind
from .progress import log
from .report import Observed, Verdict, describe, describe_delays, describe_effects, judge
from .run import Options, run_mode
from .servers import report as servers_report
from .servers import run as servers_run

_LAB, _SERVERS = _PARTS = ("lab", "api-servers")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Run faults against a lab.")
    parser.add_argument("--part", choices=_PARTS, action="append", help="may be given twice; default: both")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds give equal faults")
    parser.add_argument("--faults", type=int, default=100, help="for each mode")
    parser.add_argument("--minutes", type=float, default=10, help="for each mode; within which the faults are")
    parser.add_argument("--mode", choices=MODES, action="append", help="may be given several times; default: all")
    parser.add_argument("--only", type=FaultKind, choices=list(FaultKind), action="append", help="only these kinds")
    parser.add_argument("--services", type=int, default=500, help="how many come and go")
    parser.add_argument("--pods", type=int, default=200, help="how many come and go")
    parser.add_argument("--pause", type=float, default=0.5, help="seconds between two connections of a client")
    parser.add_argument(
        "--slack", type=float, default=1, help="how many times as long everything may take, on a slow or busy machine"
    )
    parser.add_argument("--writes", type=int, default=10_000, help="acknowledged writes of the API servers, at least")
    parser.add_argument("--clients", type=int, default=32, help="of the API servers")
    parser.add_argument("--report", type=Path, help="a file for the tables")
    parser.add_argument("--details", type=Path, help="a file for every failed connection and its explanation")
    parser.add_argument("--table", action="store_true", help="only print what each fault may do to each client")
    return parser.parse_args(argv)


async def _run_until_signalled(options: Options, mode: str) -> tuple[Observed, bool]:
    """Return what was seen, and whether SIGINT or SIGTERM ended the faults early. A second signal ends everything."""
    stopping = asyncio.Event()
    run = asyncio.create_task(run_mode(options, mode, stopping, log))

    def stop() -> None:
        if stopping.is_set():
            run.cancel()
        stopping.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop)
    return await run, stopping.is_set()


class _Results:
    """The verdicts until now. They are written after each mode: a mode takes long, and the next may fail."""

    def __init__(self, given: argparse.Namespace) -> None:
        self._given = given
        self._modes: list[Verdict] = []
        self._servers: servers_report.Verdict | None = None

    def add_mode(self, verdict: Verdict) -> None:
        self._modes.append(verdict)
        self._write()

    def add_servers(self, verdict: servers_report.Verdict) -> None:
        self._servers = verdict
        self._write()

    @property
    def is_sound(self) -> bool:
        return all(verdict.is_sound for verdict in self._modes) and (self._servers is None or self._servers.is_sound)

    def _write(self) -> None:
        if self._given.report:
            self._given.report.write_text(self.text())
        if self._given.details:
            lines = (f"{line}\n" for verdict in self._modes for line in verdict.details())
            self._given.details.write_text("".join(lines))

    def text(self) -> str:
        given = self._given
        lines = ["# The chaos run", ""]
        if self._modes:
            slack = "" if given.slack == 1 else f" Everything may take {given.slack:g} times as long."
            lines += [f"Seed {given.seed}; {given.services} Services and {given.pods} pods come and go.{slack}", ""]
            lines += describe(self._modes)
        if self._servers is not None:
            lines += servers_report.describe(self._servers)
        return "\n".join(lines)


def _run_modes(given: argparse.Namespace, results: _Results) -> bool:
    """Run against a lab in each mode. Return whether a signal ended the last one early."""
    options = Options(
        seed=given.seed,
        faults=given.faults,
        seconds=given.minutes * 60,
        kinds=frozenset(given.only or FaultKind),
        services=given.services,
        pods=given.pods,
        pause=given.pause,
    )
    for mode in given.mode or MODES:
        seen, is_stopped = asyncio.run(_run_until_signalled(options, mode))
        results.add_mode(judge(seen, given.slack))
        if is_stopped:
            return True
    return False


def main(argv: Sequence[str]) -> int:
    given = parse(argv)
    if given.table:
        sys.stdout.write("\n".join([*describe_effects(), *describe_delays()]))
        return 0
    results = _Results(given)
    # Options of the lab choose the lab.
    parts = given.part or ([_LAB] if given.mode or given.only else _PARTS)
    is_stopped = _LAB in parts and _run_modes(given, results)
    if _SERVERS in parts and not is_stopped:
        options = servers_run.Options(seed=given.seed, writes=given.writes, clients=given.clients)
        results.add_servers(servers_report.judge(servers_run.run_in_namespaces(options, log)))
    sys.stdout.write(results.text())
    return 0 if results.is_sound else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
