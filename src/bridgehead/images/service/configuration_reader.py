"""The puller's configuration, read for each pull by another process, which has kept the rights of the user.

Changes of files therefore count at once, and the puller has no access to them.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from bridgehead.images.errors import PullFailed
from bridgehead.images.references import Reference

from .puller_config import PullerConfig
from .user_client import UserClient
from .user_requests import ReadConfiguration

_FRESH_SECONDS: Final = 2.0  # a hundred pods that start together need one look at the files


class ConfigurationReader:
    """Asks the process with the user's rights, and asks once for pulls that start together."""

    def __init__(self, user: UserClient) -> None:
        self._user = user
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
        try:
            content = self._user.ask(ReadConfiguration(registry))
        except OSError as error:
            raise PullFailed(f"the configuration of registries cannot be read: {error.strerror}") from error
        try:
            return msgspec.json.decode(content, type=PullerConfig)
        except msgspec.MsgspecError as error:
            raise PullFailed(
                "the configuration of registries cannot be read; the lab's log `puller` has the reason"
            ) from error
