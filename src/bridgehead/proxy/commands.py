"""Run the kernel's tools: `nft`, `iptables` and so on. The modes' `apply.py` interpret their output."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from io import FileIO

_is_temporary = re.compile(
    r"Cannot allocate memory|Memory allocation failure|Resource temporarily unavailable|Interrupted system call"
    r"|holding the xtables lock|ended with status -\d"
).search


def find_command(name: str) -> str | None:
    """Return the path of a tool, even if PATH lacks the directories of system tools. None: not installed."""
    return shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")


def describe_failure(command: str, status: int, error: str) -> str:
    """Return the text of a failure: the tool's own, or its status, which is negative after a signal."""
    return error or f"{command} ended with status {status}"


def is_temporary(failure: str) -> bool:
    """Return whether the same input may succeed later: the tool lacked memory or a lock, or was killed."""
    return _is_temporary(failure) is not None


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
