"""The puller as a process beside a lab. Called by the process that starts the lab."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import encodings.idna
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

import zstandard

from bridgehead.images.pulling import Progress, Puller
from bridgehead.images.references import Reference
from bridgehead.images.registry.credentials import find_credentials
from bridgehead.images.registry.transport import Transport
from bridgehead.images.store.content import ContentStore

from . import server
from .configuration import PullerConfig
from .server import FindConfig

# Modules that the standard library and aiohttp import when they need them: after the change of ids this process may not
# have access to the directories of Python any more.
_PRELOADED: Final = (concurrent.futures.thread, encodings.idna, zstandard)


class Report(Protocol):
    def __call__(self, text: str, *, is_final: bool) -> None: ...


async def pull_all(config: PullerConfig, store: ContentStore, references: Sequence[Reference], report: Report) -> None:
    """Pull images one after the other, for a user who waits. Raises `ImageError`."""
    async with Transport() as transport:
        puller = Puller(store, transport, config.hosts)
        for reference in references:

            def show(progress: Progress, reference: Reference = reference) -> None:
                done, total = (f"{size / 1e6:.1f}" for size in (progress.done, progress.total))
                report(f"{reference}: {done} of {total} MB", is_final=False)

            record = await puller.pull(reference, find_credentials([config.credentials], reference), show)
            report(f"{reference}: {record.digest}", is_final=True)


def run(find_config: FindConfig, root: Path, listener: socket.socket, lab: int, *, is_offline: bool) -> None:
    """Serve `listener` until the lab ends. `root` is the content store, `lab` a pidfd of the lab's first process."""
    asyncio.run(_serve(find_config, root, listener, lab, is_offline=is_offline))


async def _serve(find_config: FindConfig, root: Path, listener: socket.socket, lab: int, *, is_offline: bool) -> None:
    # Immediately: nothing may be written any more to a state directory that `down --delete` removes.
    asyncio.get_running_loop().add_reader(lab, os._exit, 0)
    await server.serve(find_config, root, listener, is_offline=is_offline)
