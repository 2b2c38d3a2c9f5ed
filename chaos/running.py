"""A new lab in a mode of the proxy, which ends with the block that uses it, or with this process if that is killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from .lab import CommandFailed, Lab

_DISK_MEBIBYTES = 512
_READY = b'The lab "'
# Maximum time for the end of a lab: `up` waits 15 s, kills it and waits again (seconds).
_END_BOUND = 45.0


@contextlib.asynccontextmanager
async def running_lab(mode: str) -> AsyncIterator[tuple[Lab, Path | None]]:
    """Start a lab and configure its proxies; the second is the file system of its state (see `_lab_directory`).

    Raises `CommandFailed` when the lab does not start.
    """
    with _lab_directory() as (directory, disk):
        lab = Lab(f"chaos-{os.getpid()}", directory / "lab")
        async with _up(lab):
            await _configure(lab, mode)
            yield lab, disk


@contextlib.asynccontextmanager
async def _up(lab: Lab) -> AsyncIterator[None]:
    """Run `bridgehead up` in the foreground, which ends its lab at SIGTERM and when nobody reads its output.

    The lab therefore ends even if this process is killed. It has no load balancer, as no fault concerns one. A session
    of its own keeps Ctrl-C from the lab: this process ends it after what it does with the lab.
    """
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *lab.argv("up", "--ephemeral", "--offline", "--no-balancer"), stdout=pipe, start_new_session=True
    )
    ready = asyncio.Event()
    reading = asyncio.create_task(_read_output(process, ready))
    try:
        waiting = asyncio.create_task(ready.wait())
        await asyncio.wait((waiting, reading), return_when=asyncio.FIRST_COMPLETED)
        if not waiting.done():
            waiting.cancel()
            raise CommandFailed(f"up: exit code {await process.wait()}")
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        async with asyncio.timeout(_END_BOUND):
            await process.wait()
            await reading


async def _read_output(process: asyncio.subprocess.Process, ready: asyncio.Event) -> None:
    """Read standard output to its end, so that the process is never blocked; set `ready` at its closing screen."""
    while process.stdout and (line := await process.stdout.readline()):
        if line.startswith(_READY):
            ready.set()


async def _configure(lab: Lab, mode: str) -> None:
    """Switch the proxies as a user does: edit the ConfigMap, restart the DaemonSet, wait."""
    proxy = ("-n", "kube-system")
    config = json.loads(await lab.kubectl(*proxy, "get", "configmap", "kube-proxy", "-o", "json"))
    text = config["data"]["config.conf"]
    config["data"]["config.conf"] = re.sub(r"(?m)^mode: .*$", f"mode: {mode}", text)
    if config["data"]["config.conf"] == text:
        return
    await lab.kubectl("replace", "-f", "-", stdin=json.dumps(config))
    await lab.kubectl(*proxy, "rollout", "restart", "daemonset/kube-proxy")
    await lab.kubectl(*proxy, "rollout", "status", "daemonset/kube-proxy", "--timeout=120s")


@contextlib.contextmanager
def _lab_directory() -> Iterator[tuple[Path, Path | None]]:
    """A directory for the lab's state; the second is its file system, None for those who may not mount one."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as directory:
        path = Path(directory)
        if os.getuid() != 0:
            yield path, None
            return
        mount = ("mount", "-t", "tmpfs", "-o", f"size={_DISK_MEBIBYTES}m,mode=700", "chaos", directory)
        subprocess.run(mount, check=True)
        try:
            yield path, path
        finally:
            subprocess.run(("umount", "--lazy", directory), check=True)
