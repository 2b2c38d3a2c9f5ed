"""A cluster under test: calls of its API from tests, which may run an event loop of their own or none."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

from bridgehead.client import ApiClient, ClientConfig, load_kubeconfig

T = TypeVar("T")

_USER_AGENT: Final = "bridgehead-testing"
_CALL_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0


class Cluster:
    """One client in an event loop of a thread of its own, so that connections stay. `close` it.

    `context`: the one of the kubeconfig, None for its current one. Raises ClientError for an unusable kubeconfig.
    """

    def __init__(self, kubeconfig: Path, context: str | None = None) -> None:
        self.kubeconfig = kubeconfig
        self.context = context
        self.config: ClientConfig = load_kubeconfig(kubeconfig, context)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=_USER_AGENT, daemon=True)
        self._thread.start()
        self._client: ApiClient | None = None

    def call(self, work: Callable[[ApiClient], Awaitable[T]], seconds: float = _CALL_SECONDS) -> T:
        """Return the result of a coroutine function that is called with the client. Raises what it raises, and
        TimeoutError."""
        future = asyncio.run_coroutine_threadsafe(self._run(work, seconds), self._loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C
            future.cancel()
            raise

    async def _run(self, work: Callable[[ApiClient], Awaitable[T]], seconds: float) -> T:
        if self._client is None:
            self._client = await ApiClient(self.config, _USER_AGENT).__aenter__()
        async with asyncio.timeout(seconds):
            return await work(self._client)

    async def _disconnect(self) -> None:
        if self._client is not None:
            await self._client.__aexit__(None, None, None)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._disconnect(), self._loop).result(_END_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_END_SECONDS)
        self._loop.close()
