"""The puller as a process beside a lab. Called by the process that starts the lab."""

from __future__ import annotations

import asyncio
import concurrent.futures.thread
import encodings.idna
import os
import resource
import socket
from collections.abc import Sequence
from typing import Final, Protocol

from bridgehead import heartbeat
from bridgehead.images.pulling import Progress, Puller
from bridgehead.images.references import Reference
from bridgehead.images.registry.docker_config import find_credentials
from bridgehead.images.registry.transport import Transport
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.zstd_library import zstd

from . import server
from .puller_config import PullerConfig
from .server import FindConfig
from .shared_blobs import SharedBlobs

# Modules that the standard library and aiohttp import when they need them: after the change of ids this process may not
# have access to the directories of Python any more.
_PRELOADED: Final = (concurrent.futures.thread, encodings.idna, zstd)


class Report(Protocol):
    def __call__(self, text: str, *, is_final: bool) -> None: ...


async def pull_all(
    config: PullerConfig,
    store: ContentStore,
    references: Sequence[Reference],
    report: Report,
    shared: SharedBlobs | None = None,
) -> None:
    """Pull images one after the other, for a user who waits. Raises `ImageError`."""
    async with Transport() as transport:
        puller = Puller(store, transport, config.hosts, shared)
        for reference in references:

            def show(progress: Progress, reference: Reference = reference) -> None:
                done, total = (f"{size / 1e6:.1f}" for size in (progress.done, progress.total))
                report(f"{reference}: {done} of {total} MB", is_final=False)

            record = await puller.pull(reference, find_credentials([config.credentials], reference), show)
            report(f"{reference}: {record.digest}", is_final=True)
        await puller.finish()


def run(
    find_config: FindConfig,
    store: ContentStore,
    listener: socket.socket,
    lab: int,
    *,
    is_offline: bool,
    shared: SharedBlobs | None = None,
) -> None:
    """Serve `listener` until the lab ends. `lab` is a pidfd of the lab's first process."""

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # several descriptors for each layer of each pull

    async def serve() -> None:
        # Immediately: nothing may be written any more to a state directory that `down --delete` removes.
        loop = asyncio.get_running_loop()
        loop.add_reader(lab, os._exit, 0)
        heartbeat.start(loop.call_later)
        await server.serve(find_config, store, listener, is_offline=is_offline, shared=shared)

    asyncio.run(serve())
