"""HTTP connections of one client to several API servers: it uses one of them until that fails, then the next one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Sequence

from bridgehead.client.http_library import aiohttp

from .answers import Answer, Body

# A server answers within this time, or the outcome is unknown: it waits for etcd for less.
_ANSWER_SECONDS = 20.0
_CONNECT_SECONDS = 2.0
# Pause after all servers have failed in turn.
_PAUSE_SECONDS = 0.05

_TIMEOUT = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS)
_STREAM_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)


class NoAnswer(Exception):
    """A request was sent, and no answer came."""


@contextlib.asynccontextmanager
async def open_session(context: ssl.SSLContext) -> AsyncIterator[aiohttp.ClientSession]:
    """A session for all clients. It never repeats a request by itself: its first attempt may have been carried out."""
    connector = aiohttp.TCPConnector(limit=0, ssl=context)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
        session._retry_connection = False
        yield session


class Connections:
    """The servers of one client, which begins with the one at index `current`."""

    def __init__(self, session: aiohttp.ClientSession, urls: Sequence[str], current: int) -> None:
        self._session = session
        self._urls = urls
        self.current = current % len(urls)

    def leave(self) -> None:
        """Use the next server from now on."""
        self.current = (self.current + 1) % len(self._urls)

    async def send(self, method: str, path: str, body: Body | None = None) -> Answer:
        """Return the answer of the first server that carries the request out. Raises `NoAnswer`.

        Updates are merge patches.
        """
        failures = 0
        while True:
            try:
                answer = await self._send_once(method, path, body)
            except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):  # nothing was sent
                pass
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                self.leave()
                if method != "GET":
                    raise NoAnswer(str(error)) from error
                continue
            else:
                if not answer.is_not_done:
                    return answer
            self.leave()
            failures += 1
            if failures % len(self._urls) == 0:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _send_once(self, method: str, path: str, body: Body | None) -> Answer:
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        url = self._urls[self.current] + path
        async with self._session.request(
            method, url, data=data, headers={"Content-Type": kind}, timeout=_TIMEOUT
        ) as response:
            text = await response.read()
            is_json = response.content_type == "application/json"
            return Answer(response.status, json.loads(text) if is_json else {"message": text.decode()})

    @contextlib.asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer of the current server to a watch. Raises `aiohttp.ClientError`."""
        url = self._urls[self.current] + path
        async with self._session.get(url, timeout=_STREAM_TIMEOUT, read_bufsize=2**20) as response:
            yield response
