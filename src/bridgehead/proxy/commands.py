"""Run the kernel's tools: `nft`, `iptables` and so on. The modes' `apply.py` interpret their output."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from io import FileIO


def find_command(name: str) -> str | None:
    """Return the path of a tool, even if PATH lacks the directories of system tools. None: not installed."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")


async def run_command(*command: str, text: str = "") -> tuple[int, bytes, str]:
    """Run a command with `text` as its input. Returns its status, output, and error text in English."""
    with _memory_file(text.encode()) as file:
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
        # The kernel applies a transaction as a whole or not at all, even if the tool is killed.
        if process.returncode is None:
            process.kill()
            await process.wait()
        raise
    return process.returncode or 0, output, error.decode(errors="replace")


def _memory_file(data: bytes) -> FileIO:
    """Return a file in memory with the data.

    Through a pipe, the command would take the beginning for the whole input if this process were killed meanwhile.
    """
    file = FileIO(os.memfd_create("input"), "r+")
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]
    file.seek(0)
    return file
