"""The kubelet's client of the puller."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from bridgehead.images.disk_usage import DiskUsage
from bridgehead.images.errors import PullFailed, Unreachable
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.registry import hosts_toml
from bridgehead.images.registry.docker_config import Credential
from bridgehead.images.store.content import ContentStore
from bridgehead.images.store.image_record import ImageRecord

from . import messages
from .messages import Collected, Pulled

A = TypeVar("A", Pulled, Collected)

SOCKET: Final = "puller.sock"


class PullerClient:
    """`directory` is the content store, in which the puller's socket is. `local_only`: the puller asks no registry but
    those on its own machine, and the client need not ask the puller for others."""

    def __init__(self, directory: Path, *, local_only: bool = False) -> None:
        self._directory = directory
        self._local_only = local_only

    def list_images(self) -> list[ImageRecord]:
        """Return the images that are in the store now."""
        return ContentStore(self._directory).records()

    def find_image(self, reference: Reference) -> ImageRecord | None:
        """Return an image as the store has it."""
        return ContentStore(self._directory).find(reference.key)

    def disk_usage(self) -> DiskUsage:
        """Return the usage of the store's disk. Raises `StoreFailed`."""
        return ContentStore(self._directory).disk_usage()

    async def collect(
        self, high_threshold: int, low_threshold: int, minimum_age: float, last_used: Mapping[str, float]
    ) -> Collected:
        """Have unused images removed; see `CollectRequest`. Raises `ImageError`."""
        request = messages.CollectRequest(
            high_threshold=high_threshold,
            low_threshold=low_threshold,
            minimum_age=minimum_age,
            last_used=dict(last_used),
        )
        return await self._ask(request, Collected, lambda: None)

    async def pull(self, image: str, credentials: Sequence[Credential], on_started: Callable[[], None]) -> Pulled:
        """Pull an image; `on_started` is called when a registry is contacted. Raises `ImageError`.

        Without a puller the image is `Unreachable`.
        """
        reference = parse_reference(image)
        if self._local_only and reference is not None and not hosts_toml.is_loopback(reference.host):
            raise Unreachable(hosts_toml.describe_offline(reference.host))
        request = messages.PullRequest(image=image, credentials=tuple(credentials))
        return await self._ask(request, Pulled, on_started)

    async def _ask(self, request: messages.Request, kind: type[A], on_started: Callable[[], None]) -> A:
        """Send a request; returns the answer, which is of this kind. Raises `ImageError`."""
        try:
            reader, writer = await self._connect()
        except OSError as error:
            raise Unreachable(f"this lab has no process that pulls images: {error.strerror}") from error
        try:
            writer.write(messages.encode(request))
            while line := await reader.readline():
                match messages.decode_answer(line):
                    case messages.Started():
                        on_started()
                    case messages.Failed() as failure:
                        raise messages.error_of(failure)
                    case answer if isinstance(answer, kind):
                        return answer
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            raise PullFailed(f"the process that pulls images does not answer: {error}") from error
        finally:
            writer.close()
        raise PullFailed("the process that pulls images has ended")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # The descriptor stands for the path, which can be longer than the address of a Unix socket.
        directory = os.open(self._directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{SOCKET}", limit=messages.MAX_LINE)
        finally:
            os.close(directory)
