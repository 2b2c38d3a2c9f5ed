"""Processes of a synthetic cluster: API server, endpoint controllers, DNS and proxy; their use of the machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests import forks
from tests.forks import Forked
from tests.integration.apiserver_process import ServerProcess

from benchmarks.scale_cluster import POD_RANGE

CONTROLLERS = "endpoints-controller,endpointslice-controller,endpointslice-mirroring-controller"
_READY_SECONDS = 600.0
# A process that works wants a processor all the time. An idle one also waits for it at each of its few timers, and long
# on a busy machine.
_INTERVAL_SECONDS, _BUSY_SHARE, _QUIET_INTERVALS = 0.12, 0.5, 2
_PAGES = {"dns": "http://127.0.0.1:8181/ready", "proxy": "http://127.0.0.1:10256/healthz"}


@dataclass(frozen=True)
class Use:
    """Use of a process: seconds of processor time so far, bytes of memory (PSS) now."""

    seconds: float
    memory: int


def use_of(pid: int) -> Use:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return Use(seconds, 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:")))


def seconds_of(pids: Mapping[str, int]) -> dict[str, float]:
    """Return the processor time of each process so far."""
    return {name: use_of(pid).seconds for name, pid in pids.items()}


async def settle(pids: Mapping[str, int]) -> None:
    """Wait until the processes are idle: none of them works, or waits for a processor.

    Raises TimeoutError; RuntimeError when one has ended.
    """
    quiet = 0
    async with asyncio.timeout(_READY_SECONDS):
        while quiet < _QUIET_INTERVALS:
            before, began = _wanted_seconds(pids), time.monotonic()
            await asyncio.sleep(_INTERVAL_SECONDS)
            longest = max(after - earlier for after, earlier in zip(_wanted_seconds(pids), before, strict=True))
            quiet = quiet + 1 if longest < _BUSY_SHARE * (time.monotonic() - began) else 0


def _wanted_seconds(pids: Mapping[str, int]) -> list[float]:
    """Return how long the threads of each process ran, and waited for a processor. Raises RuntimeError."""
    for name, pid in pids.items():
        if not Path(f"/proc/{pid}/task").exists():
            raise RuntimeError(f"{name} has ended")
    return [sum(map(_wanted_by_thread, Path(f"/proc/{pid}/task").iterdir())) / 1e9 for pid in pids.values()]


def _wanted_by_thread(task: Path) -> int:
    try:
        ran, waited, _ = (task / "schedstat").read_text().split()
    except OSError:  # the thread has ended
        return 0
    return int(ran) + int(waited)


class Parts:
    """The clients of the API server that do a cluster's work, each a process; `close` ends them."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._processes: dict[str, Forked] = {}

    def start(self, name: str) -> None:
        """Start `controllers`, `dns` or `proxy` (of node-0)."""
        kubeconfig = self._server.directory / "kubeconfig"
        options = {
            # Without an election: on a busy machine, a leader may be too late to renew its Lease, and ends.
            "controllers": (f"--controllers={CONTROLLERS}", "--metrics=", "--no-leader-elect"),
            "dns": ("--listen=127.0.0.1:5353", "--no-upstream", "--health=", "--metrics=", "--ready=127.0.0.1:8181"),
            "proxy": ("--node-name=node-0", f"--cluster-cidr={POD_RANGE}"),
        }[name]
        with (self._server.directory / f"{name}.log").open("ab") as log, open(os.devnull, "rb") as nothing:
            streams = (nothing.fileno(), log.fileno(), log.fileno())
            self._processes[name] = forks.fork_bridgehead(name, f"--kubeconfig={kubeconfig}", *options, streams=streams)

    @property
    def pids(self) -> dict[str, int]:
        return {name: process.pid for name, process in self._processes.items()}

    async def wait_ready(self, name: str) -> None:
        """Wait until a part has done what it does at its start. Raises TimeoutError, RuntimeError."""
        async with asyncio.timeout(_READY_SECONDS):
            while not await asyncio.to_thread(self._is_ready, name):  # noqa: ASYNC110 - another process becomes ready
                await asyncio.sleep(0.05)
        await settle(self.pids | {"apiserver": self._server.pid})

    def _is_ready(self, name: str) -> bool:
        if not Path(f"/proc/{self._processes[name].pid}/task").exists():
            raise RuntimeError(f"{name} has ended: {(self._server.directory / f'{name}.log').read_text()[-1000:]}")
        if name not in _PAGES:
            return True
        try:
            with urllib.request.urlopen(_PAGES[name], timeout=10):
                return True
        except urllib.error.HTTPError as error:
            error.close()
        except OSError:
            pass
        return False

    def stop(self) -> None:
        """End all parts."""
        for process in self._processes.values():
            process.send_signal(15)
            with contextlib.suppress(Exception):
                process.wait(30)
        self._processes = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[Parts]:
        try:
            yield self
        finally:
            self.stop()
