"""The puller as a process beside a lab. Called by the process that starts the lab."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import encodings.idna
import os
import socket
from pathlib import Path
from typing import Final

import zstandard

from . import configuration, server
from .configuration import PullerConfig

# Modules that the standard library and aiohttp import when they need them: after the change of ids this process may not
# have access to the directories of Python any more.
_PRELOADED: Final = (concurrent.futures.thread, encodings.idna, zstandard)


def prepare(registries: Path, *, is_offline: bool) -> PullerConfig:
    """Read the configuration, with the rights of the user; the caller then changes to the lab's ids."""
    return configuration.read_config(registries, is_offline=is_offline)


def run(config: PullerConfig, root: Path, listener: socket.socket, lab: int) -> None:
    """Serve `listener` until the lab ends. `root` is the content store, `lab` a pidfd of the lab's first process."""
    asyncio.run(_serve(config, root, listener, lab))


async def _serve(config: PullerConfig, root: Path, listener: socket.socket, lab: int) -> None:
    # Immediately: nothing may be written any more to a state directory that `down --delete` removes.
    asyncio.get_running_loop().add_reader(lab, os._exit, 0)
    await server.serve(config, root, listener)
