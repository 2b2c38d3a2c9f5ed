"""Starts the kernel's tools: `nft`, `iptables` and so on. Edge; the modes' `apply.py` know what their words mean."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from io import FileIO


def find_command(name: str) -> str | None:
    """Its path, also where the search path of who started us lacks the directories of such tools."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")


async def run_command(*command: str, text: str = "") -> tuple[int, bytes, str]:
    """The command's status, output and error text, in English. `text` is its input."""
    with _whole(text.encode()) as file:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=file,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"LC_ALL": "C"},
        )
    try:
        output, error = await process.communicate()
    except asyncio.CancelledError:
        # A transaction that has begun ends by itself, whole or not at all; nobody waits for its answer any more.
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return process.returncode or 0, output, error.decode(errors="replace")


def _whole(data: bytes) -> FileIO:
    """A file in memory. Through a pipe, the command would get the beginning of it and take that for all, if this
    process were killed meanwhile."""
    file = FileIO(os.memfd_create("input"), "r+")
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.seek(0)
    return file
