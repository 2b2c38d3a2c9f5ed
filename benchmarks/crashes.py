"""kill -9 of the API server during 10,000 writes by 32 clients, 20 times: python -m benchmarks.crashes

Each round kills the server after a random number of writes, opens its file, restarts it, and compares what it has with
what it acknowledged. The status is 1 when something is missing, half written, or allocated twice.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.integration.apiserver_process import ServerProcess, write_files
from tests.integration.crashes import Crashes

from benchmarks.progress import log


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crashes", description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--writes", type=int, default=10_000, help="of one round, of which the kill leaves some out")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(argv)
    acknowledged = unanswered = problems = 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        here = Path(directory)
        write_files(here)
        path = here / "store.db"
        with contextlib.closing(ServerProcess(here, store=f"sqlite://{path}")) as server:
            server.start()
            crashes = Crashes(server, path, clients=given.clients, writes=given.writes, seed=given.seed)
            for number in range(1, given.times + 1):
                outcome = crashes.round()
                log(
                    f"kill {number}: {outcome.acknowledged:,} acknowledged, {outcome.unanswered} without answer, "
                    f"refused {outcome.refused or 'none'}, {outcome.objects} Services, {len(outcome.problems)} problems"
                )
                for problem in outcome.problems:
                    print(problem)
                acknowledged += outcome.acknowledged
                unanswered += outcome.unanswered
                problems += len(outcome.problems)
    print(
        f"{given.times} kills during writes of {given.clients} clients: {acknowledged:,} writes acknowledged, "
        f"{unanswered:,} without answer, {problems} problems, {time.monotonic() - began:.0f} s"
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
