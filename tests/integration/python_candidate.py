"""A candidate of Kubernetes' Python client for the Lease `leader` in the namespace `default`."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator

from .apiserver_process import ServerProcess

_CANDIDATE = """
import sys
from kubernetes import config
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

config.load_kube_config()
lock = LeaseLock("leader", "default", sys.argv[1])
LeaderElection(Config(lock, 3, 2, 1, lambda: print("leads", flush=True), None)).run()
"""


@contextlib.contextmanager
def candidate(server: ServerProcess, name: str) -> Iterator[subprocess.Popen[str]]:
    """A program that prints a line when it leads."""
    argv = [sys.executable, "-c", _CANDIDATE, name]
    with subprocess.Popen(
        argv, env=server.environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()
