"""Makes HTTP connections one after the other on several lanes, and counts what became of them.

Usage: connecting_client.py URL LANES. It reads names from its standard input, one each line; a name ends a phase, whose
counts are then printed as a line of JSON: the phase's connections, those that were lost, and those slower than half a
second (a packet of theirs was sent again). A program of its own, so that it runs inside a lab.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
import urllib.parse

_PATIENCE_SECONDS = 20.0
_SLOW_SECONDS = 0.5


class Client:
    """Connects until cancelled."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._request = f"GET / HTTP/1.0\r\nHost: {host}\r\n\r\n".encode()
        self.reset()

    def reset(self) -> None:
        self.connections = self.slow = 0
        self.lost: dict[str, int] = {}

    async def run(self) -> None:
        while True:
            begun = time.monotonic()
            problem = await self._connect()
            self.connections += 1
            self.slow += time.monotonic() - begun > _SLOW_SECONDS
            if problem:
                self.lost[problem] = self.lost.get(problem, 0) + 1

    async def _connect(self) -> str:
        """Return why a connection was lost, or ""."""
        writer = None
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(self._request)
                answer = await reader.read()
        except (OSError, TimeoutError) as error:
            return type(error).__name__
        finally:
            if writer is not None:
                writer.close()
        return "" if answer.startswith(b"HTTP/") else "no answer"


async def main(url: str, lanes: int) -> None:
    parts = urllib.parse.urlsplit(url)
    client = Client(parts.hostname or "", parts.port or 80)
    running = [asyncio.create_task(client.run()) for _ in range(lanes)]
    names = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(names), sys.stdin)
    while name := (await names.readline()).decode().strip():
        counts = {"phase": name, "connections": client.connections, "lost": client.lost, "slow": client.slow}
        client.reset()
        print(json.dumps(counts), flush=True)
    for task in running:
        task.cancel()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
