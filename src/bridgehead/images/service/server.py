"""The puller's server: pulls what kubelets ask for, equal pulls once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from bridgehead.images.errors import BadImage, ImageError, StoreFailed, Unreachable
from bridgehead.images.pulling import Puller
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.registry import hosts_toml
from bridgehead.images.registry.docker_config import Credential, find_credentials
from bridgehead.images.registry.transport import Transport
from bridgehead.images.store import garbage_collection
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord

from . import messages
from .puller_config import PullerConfig
from .shared_blobs import SharedBlobs

log = logging.getLogger(__name__)

FindConfig = Callable[[Reference], Awaitable[PullerConfig]]


class PullerServer:
    """Answers connections; `serve` makes one."""

    def __init__(
        self, store: ContentStore, transport: Transport, find_config: FindConfig, shared: SharedBlobs | None = None
    ) -> None:
        self._store = store
        self._shared = shared
        self._puller = Puller(store, transport, shared=shared)
        self._find_config = find_config
        self._running: dict[tuple[str, tuple[Credential, ...]], asyncio.Task[ImageRecord]] = {}

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        try:
            match messages.decode_request(await reader.readline()):
                case messages.PullRequest() as request:
                    what = request.image
                    answer: messages.Answer = await self._pull(request, writer)
                case messages.CollectRequest() as collection_request:
                    what = "collection of images"
                    answer = await asyncio.to_thread(self._collect, collection_request)
        except (ValueError, msgspec.MsgspecError, ConnectionError) as error:
            log.warning("a connection does not use the puller's protocol: %s", error)
        except ImageError as error:
            log.info("%s: %s", what, error)
            writer.write(messages.encode(messages.failure_of(error)))
        else:
            log.info("%s: %s", what, answer)
            writer.write(messages.encode(answer))
        finally:
            with contextlib.suppress(OSError):
                writer.close()
                await writer.wait_closed()

    def _collect(self, request: messages.CollectRequest) -> messages.Collected:
        """Blocks. Raises `ImageError`."""
        for name, at in request.last_used.items():
            self._store.mark_used(name, at)
        usage = self._store.disk_usage()
        wanted = usage.bytes_to_free(request.high_threshold, request.low_threshold)
        freed = self._trim_shared() if wanted else 0
        if freed < wanted:
            removed = garbage_collection.free_space(self._store, wanted - freed, request.minimum_age)
            if removed is None:
                raise StoreFailed("cannot collect images: an image is being pulled or loaded")
            freed += removed.size + self._trim_shared()  # the cache still has the blobs of the images
        return messages.Collected(wanted=wanted, freed=freed, capacity=usage.capacity, percent=usage.percent)

    def _trim_shared(self) -> int:
        return self._shared.trim() if self._shared is not None else 0

    async def _pull(self, request: messages.PullRequest, writer: asyncio.StreamWriter) -> messages.Pulled:
        """Raises `ImageError`."""
        began = time.monotonic()
        reference = parse_reference(request.image)
        if reference is None:
            raise BadImage(f'couldn\'t parse image name "{request.image}": invalid reference format')
        config = await self._find_config(reference)
        self._puller.hosts = config.hosts
        self._check_reachable(reference)
        writer.write(messages.encode(messages.Started()))
        own = find_credentials([config.credentials], reference)
        key = (reference.key, (*request.credentials, *own))
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(
                self._puller.pull(reference, own, pod_credentials=request.credentials)
            )
            task.add_done_callback(lambda _: self._running.pop(key, None))
        record = await asyncio.shield(task)
        seconds = time.monotonic() - began
        return messages.Pulled(id=record.id, size=record.size, seconds=seconds, waiting_seconds=seconds)

    def _check_reachable(self, reference: Reference) -> None:
        """Raises `Unreachable` without a time-out when the machine has no network."""
        self._puller.check_reachable(reference)
        is_local = hosts_toml.is_loopback(reference.host)
        if not (is_local or self._puller.hosts or has_default_route()):
            raise Unreachable(f"no network: this machine has no default route to {reference.registry}")


def has_default_route() -> bool:
    """Whether this network namespace has a default route of either family."""
    with contextlib.suppress(OSError):
        lines = Path("/proc/net/route").read_text("ascii").splitlines()[1:]
        if any(line.split()[1] == "00000000" == line.split()[7] for line in lines):
            return True
    with contextlib.suppress(OSError):
        lines = Path("/proc/net/ipv6_route").read_text("ascii").splitlines()
        # The kernel has a default route on "lo" that rejects everything.
        return any(line.startswith("0" * 32 + " 00 ") and not line.endswith(" lo") for line in lines)
    return False


async def serve(
    find_config: FindConfig,
    store: ContentStore,
    listener: socket.socket,
    *,
    is_offline: bool,
    shared: SharedBlobs | None = None,
) -> None:
    """Serve the Unix socket `listener` until cancelled.

    `find_config` returns the configuration as it is now, for a pull from the reference's registry. `shared` has blobs
    of the user's other labs.
    """
    try:
        await asyncio.to_thread(garbage_collection.remove_unfinished, store)
    except StoreFailed as error:
        log.warning("what an earlier process left is not removed: %s", error)
    async with Transport(is_offline=is_offline) as transport:
        server = PullerServer(store, transport, find_config, shared)
        async with await asyncio.start_unix_server(server.answer, sock=listener, limit=messages.MAX_LINE) as sockets:
            await sockets.serve_forever()
