"""The puller's configuration, read by another process that has kept the rights of the user.

For each pull, the puller sends the registry's name with the writing end of a pipe, and the other process has the
configuration written to it (`configuration.write_config`). So changes of files count at once, and the puller has no
access to them.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import Final

import msgspec

from bridgehead.images.errors import PullFailed
from bridgehead.images.references import Reference

from .configuration import PullerConfig

_FRESH_SECONDS: Final = 2.0  # a hundred pods that start together need one look at the files


class ConfigurationReader:
    """`parent` is a socket of datagrams to the process with the user's rights."""

    def __init__(self, parent: socket.socket) -> None:
        self._parent = parent
        self._reads: dict[str, tuple[float, asyncio.Task[PullerConfig]]] = {}  # by registry, with their beginnings

    async def find(self, reference: Reference) -> PullerConfig:
        """Return the configuration for pulls from a registry. Raises `PullFailed`."""
        now = asyncio.get_running_loop().time()
        self._reads = {key: read for key, read in self._reads.items() if read[0] > now - _FRESH_SECONDS}
        if reference.registry not in self._reads:
            task = asyncio.create_task(asyncio.to_thread(self._read, reference.registry))
            self._reads[reference.registry] = now, task
        return await asyncio.shield(self._reads[reference.registry][1])

    def _read(self, registry: str) -> PullerConfig:
        reading, writing = os.pipe2(os.O_CLOEXEC)
        with open(reading, "rb") as pipe:
            try:
                socket.send_fds(self._parent, [registry.encode()], [writing])
            except OSError as error:
                raise PullFailed(f"the configuration of registries cannot be read: {error.strerror}") from error
            finally:
                os.close(writing)
            content = pipe.read()
        try:
            return msgspec.json.decode(content, type=PullerConfig)
        except msgspec.MsgspecError as error:
            raise PullFailed(
                "the configuration of registries cannot be read; the lab's log `puller` has the reason"
            ) from error
