"""The processes of a synthetic cluster: API server, endpoint controllers, DNS and proxy, and what each of them uses."""

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
_IDLE_SECONDS, _IDLE_SHARE = 0.5, 0.1
_PAGES = {"dns": "http://127.0.0.1:8181/ready", "proxy": "http://127.0.0.1:10256/healthz"}


@dataclass(frozen=True)
class Use:
    """What a process has used so far: seconds of processor time. Bytes of memory (PSS) that it has now."""

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
    """Wait until the processes are idle: they neither run nor wait for a processor. Raises TimeoutError."""
    async with asyncio.timeout(_READY_SECONDS):
        while True:
            before, began = _wanted_seconds(pids), time.monotonic()
            await asyncio.sleep(_IDLE_SECONDS)
            if _wanted_seconds(pids) - before < _IDLE_SHARE * (time.monotonic() - began):
                return


def _wanted_seconds(pids: Mapping[str, int]) -> float:
    """Return how long all threads ran, and waited for a processor, which they do on a busy machine."""
    total = 0
    for pid in pids.values():
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # the thread has ended
                ran, waited, _ = (task / "schedstat").read_text().split()
                total += int(ran) + int(waited)
    return total / 1e9


class Parts:
    """The clients of the API server that do a cluster's work, each a process; `close` ends them."""

    def __init__(self, server: ServerProcess) -> None:
        self._server = server
        self._processes: dict[str, Forked] = {}

    def start(self, name: str) -> None:
        """Start `controllers`, `dns` or `proxy` (of node-0)."""
        kubeconfig = self._server.directory / "kubeconfig"
        options = {
            "controllers": (f"--controllers={CONTROLLERS}", "--metrics="),
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
            while not await asyncio.to_thread(self._is_ready, name):
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
