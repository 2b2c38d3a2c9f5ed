"""Run faults against a lab: python -m chaos --seed 7 --faults 200 --minutes 30 --mode nftables

Every mode gets a lab of its own and the faults of the same seed. The tables are printed, and kept with --report. The
status is 1 when something was seen that should not be.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .faults import MODES, FaultKind
from .report import Observed, Verdict, describe, describe_delays, describe_effects, judge
from .run import Options, run_mode


def log(text: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stderr.flush()


def parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m chaos", description="Run faults against a lab.")
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


def _write(verdicts: Sequence[Verdict], given: argparse.Namespace) -> None:
    """Write the report after each mode: a mode takes long, and the next may fail."""
    if given.report:
        given.report.write_text(_text(verdicts, given))
    if given.details:
        given.details.write_text("".join(f"{line}\n" for verdict in verdicts for line in verdict.details()))


def _text(verdicts: Sequence[Verdict], given: argparse.Namespace) -> str:
    about = f"Seed {given.seed}; {given.services} Services and {given.pods} pods come and go."
    slack = "" if given.slack == 1 else f" Everything may take {given.slack:g} times as long."
    return f"# The chaos run\n\n{about}{slack}\n\n" + "\n".join(describe(verdicts))


def main(argv: Sequence[str]) -> int:
    given = parse(argv)
    if given.table:
        sys.stdout.write("\n".join([*describe_effects(), *describe_delays()]))
        return 0
    options = Options(
        seed=given.seed,
        faults=given.faults,
        seconds=given.minutes * 60,
        kinds=frozenset(given.only or FaultKind),
        services=given.services,
        pods=given.pods,
        pause=given.pause,
    )
    verdicts = []
    for mode in given.mode or MODES:
        seen, is_stopped = asyncio.run(_run_until_signalled(options, mode))
        verdicts.append(judge(seen, given.slack))
        _write(verdicts, given)
        if is_stopped:
            break
    sys.stdout.write(_text(verdicts, given))
    return 0 if all(verdict.is_sound for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
