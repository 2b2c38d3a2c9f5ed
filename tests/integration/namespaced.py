"""Runs single tests in namespaces of their own, so that they may do to the kernel what they like.

`@in_namespace` on a test function: its body runs in a new process, in user, network and mount namespaces of its
own, with no network but a loopback. It is forked from a process that has imported the test's module (`tests/forks.py`).
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import inspect
import logging
import os
import subprocess
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from bridgehead.network import syscalls
from tests import forks

DEADLINE = 240


def in_namespace(test: Callable[..., Awaitable[None] | None]) -> Callable[..., None]:
    """Arguments of the test have to be fit for JSON."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        with open(os.devnull) as nothing, tempfile.TemporaryFile("w+", errors="replace") as output:
            streams = (nothing.fileno(), output.fileno(), output.fileno())
            forbidden = os.readlink("/proc/self/ns/net")
            request = (f"{__name__}:run_here", forbidden, test.__module__, test.__name__, arguments)
            code = forks.fork(*request, streams=streams, modules=[test.__module__]).wait(DEADLINE)
            if code:
                output.seek(0)
                raise AssertionError(f"in a namespace of its own:\n{output.read()[-20000:]}")

    # pytest asks for what the wrapper takes, and is not to await it.
    return run


def sh(line: str) -> str:
    """Run a shell's command; its output."""
    return subprocess.run(line, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout


def enter_namespaces(*, is_user: bool = True) -> None:
    """Enter new network and mount namespaces, as root of a new user namespace unless `is_user` is False."""
    user, group, parent = os.geteuid(), os.getegid(), os.getppid()
    if is_user:
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        for file, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
            with open(f"/proc/self/{file}", "w", encoding="ascii") as written:
                written.write(text)
    # The network namespace comes after the mapping: its files in /proc/net then belong to this root, and
    # iptables-legacy can read them.
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS)
    syscalls.mount("none", "/", flags=syscalls.MS_REC | syscalls.MS_PRIVATE)
    forks.end_with(parent)


def run_here(forbidden: str, module: str, name: str, arguments: dict[str, Any]) -> None:
    """Run a test in this process, which has been forked for it. `forbidden` is pytest's network namespace."""
    importlib.import_module(module)
    enter_namespaces()
    if os.readlink("/proc/self/ns/net") == forbidden:
        raise SystemExit("this is the network namespace the tests were started in; not touching it")
    subprocess.run(["mount", "-t", "tmpfs", "none", "/run"], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)d ms %(levelname).1s %(name)s: %(message)s")
    test = getattr(importlib.import_module(module), name).__wrapped__
    running = test(**arguments)
    if inspect.isawaitable(running):
        asyncio.run(_finish(running))


async def _finish(running: Awaitable[None]) -> None:
    await running
