"""Random requests to the API server, made from the OpenAPI v3 that it publishes: `python -m benchmarks.fuzz`.

The server runs in this process, without sockets. Each different finding is printed with its request: an answer 5xx
that Kubernetes would not give, an exception in the log, a request that takes seconds or does not end.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from tests.unit.apiserver.schema_fuzz import OwnLoop, fuzz


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    begun = time.perf_counter()
    with asyncio.Runner(loop_factory=OwnLoop) as runner:
        fuzzer = runner.run(fuzz(options.seed, options.requests))
    for key, finding in fuzzer.findings.items():
        print(f"--- {key} ({finding.count} times)\n{finding.request[:1500]}\n{finding.text[-1800:]}")
    print(f"{sum(fuzzer.statuses.values())} requests, {time.perf_counter() - begun:.0f} s")
    print(dict(sorted(fuzzer.statuses.items())))


if __name__ == "__main__":
    main()
