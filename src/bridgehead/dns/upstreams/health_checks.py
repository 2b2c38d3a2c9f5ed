"""Health of upstreams: which of them do not answer, and probes until they do (source: CoreDNS' plugin `forward`).

A server is down after `max_fails` failures in a row, of queries or of probes. It is probed at an interval from the
first failure on; an answer of any kind makes it healthy. `forward.py` asks servers that are down last.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from bridgehead.dns.config import ForwardSettings, Server

log = logging.getLogger(__name__)


class Health:
    """The health of the upstreams of one domain. Needs `close` at the end.

    `is_answering` sends one probe and returns whether there was a reply.
    """

    def __init__(self, settings: ForwardSettings, is_answering: Callable[[Server], Awaitable[bool]]) -> None:
        self._settings = settings
        self._is_answering = is_answering
        self._fails: dict[Server, int] = {}
        self._silent_to_probes: set[Server] = set()  # since their last answer
        self._probes: dict[Server, asyncio.Task[None]] = {}
        self._is_closed = False

    def is_down(self, server: Server) -> bool:
        """Whether the server failed too often since its last answer."""
        return 0 < self._settings.max_fails <= self._fails.get(server, 0)

    def is_silent_to_probes(self, server: Server) -> bool:
        """Whether a probe failed since the server's last answer. Queries also fail because of what clients ask for."""
        return server in self._silent_to_probes

    def record_failure(self, server: Server, error: Exception) -> None:
        """Count a query without an answer, and start probes."""
        if self._settings.max_fails == 0:
            return
        if server not in self._fails:
            log.warning("upstream %s does not answer: %s", server, error or type(error).__name__)
        self._fails[server] = self._fails.get(server, 0) + 1
        if server not in self._probes and not self._is_closed:
            self._probes[server] = asyncio.get_running_loop().create_task(self._probe(server))

    def record_answer(self, server: Server) -> None:
        """Forget the failures of a server that answers."""
        self._silent_to_probes.discard(server)
        if self._fails.pop(server, None) is not None:
            log.info("upstream %s answers again", server)

    def close(self) -> None:
        """End the probes."""
        self._is_closed = True
        for probe in self._probes.values():
            probe.cancel()

    async def _probe(self, server: Server) -> None:
        try:
            while server in self._fails:
                await asyncio.sleep(self._settings.health_seconds)
                if await self._is_answering(server):
                    self.record_answer(server)
                elif server in self._fails:
                    self._fails[server] += 1
                    self._silent_to_probes.add(server)
        finally:
            del self._probes[server]
