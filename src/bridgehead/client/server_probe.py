"""Detection of an API server that is silent or not ready, for clients that have several servers.

The kernel reports a server whose process has ended, at once. A machine without power, a network that drops packets and
a process that is stopped are silent, as is a watch of objects that do not change. A server at which requests or streams
are open is therefore asked for /readyz. A client leaves it only for a server that answers the same question: a client
that is late or cut off itself stays where it is, and so do clients of a cluster whose servers are all overloaded.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from .open_requests import OpenRequests
from .server_choice import ServerChoice

PROBE_SECONDS = 0.4  # between two probes
ANSWER_SECONDS = 0.5
_OTHERS_SECONDS = 0.9  # for the answers of the other servers, to which there may be no connection yet
_LATE_SECONDS = 0.2


class ServerProbe:
    """Probes of the servers that are in use.

    `is_ready(server, seconds)` asks a server for /readyz. `leave(server)` is called after another one has become the
    current one of `choice`.
    """

    def __init__(
        self,
        choice: ServerChoice,
        requests: OpenRequests,
        is_ready: Callable[[str, float], Coroutine[Any, Any, bool]],
        leave: Callable[[str], None],
    ) -> None:
        self._choice = choice
        self._requests = requests
        self._is_ready = is_ready
        self._leave = leave

    async def run(self) -> None:
        """Probe until cancelled."""
        while True:
            await asyncio.sleep(PROBE_SECONDS)
            await asyncio.gather(*map(self._probe, self._requests.servers()))

    async def _probe(self, server: str) -> None:
        began = time.monotonic()
        if await self._is_ready(server, ANSWER_SECONDS):
            return
        if time.monotonic() - began > ANSWER_SECONDS + _LATE_SECONDS:
            return  # this process was late: the answer may have arrived meanwhile
        other = await self._first_ready(server)
        if other is None:
            return
        self._choice.on_failure(server, time.monotonic())
        self._choice.use(other)
        self._leave(server)

    async def _first_ready(self, left: str) -> str | None:
        """Return the first other server that is ready, None without one."""
        others = [server for server in self._choice.servers if server != left]
        asked = {asyncio.create_task(self._is_ready(server, _OTHERS_SECONDS)): server for server in others}
        try:
            waiting = set(asked)
            while waiting:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    if task.result():
                        return asked[task]
            return None
        finally:
            for task in asked:
                task.cancel()
            await asyncio.wait(asked)
