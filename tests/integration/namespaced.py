"""Runs single tests in namespaces of their own, so that they may do to the kernel what they like.

`@in_namespace` on a test function: its body runs in a new process, in user, network and mount namespaces of its
own, with no network but a loopback. This file as a module is that process.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import json
import logging
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

DEADLINE = 240
_ROOT = Path(__file__).resolve().parents[2]


def in_namespace(test: Callable[..., Awaitable[None] | None]) -> Callable[..., None]:
    """Arguments of the test have to be fit for JSON."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        # The network namespace comes after the mapping: its files in /proc/net then belong to this root.
        command = ["unshare", "--user", "--map-root-user", "unshare", "--net", "--mount", "--kill-child", "--fork"]
        command += [sys.executable, "-m", "tests.integration.namespaced", os.readlink("/proc/self/ns/net")]
        command += [test.__module__, test.__name__, json.dumps(arguments)]
        path = os.pathsep.join((str(_ROOT / "src"), str(_ROOT)))
        result = subprocess.run(
            command, cwd=_ROOT, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=DEADLINE
        )
        if result.returncode:
            raise AssertionError(f"in a namespace of its own:\n{result.stderr[-20000:]}")

    # pytest asks for what the wrapper takes, and is not to await it.
    return run


def sh(line: str) -> str:
    """Run a shell's command; its output."""
    return subprocess.run(line, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout


def main(forbidden: str, module: str, name: str, arguments: str) -> None:
    if os.readlink("/proc/self/ns/net") == forbidden:
        raise SystemExit("this is the network namespace the tests were started in; not touching it")
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d ms %(levelname).1s %(name)s: %(message)s")
    test = getattr(importlib.import_module(module), name).__wrapped__
    running = test(**json.loads(arguments))
    if inspect.isawaitable(running):
        asyncio.run(_finish(running))


async def _finish(running: Awaitable[None]) -> None:
    await running


if __name__ == "__main__":
    main(*sys.argv[1:])
