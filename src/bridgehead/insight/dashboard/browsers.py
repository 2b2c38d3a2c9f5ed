"""One open page: the live model's updates and the counts of connections are sent to it as it reads them.

Nothing queues up for a page that does not read: the live model gives it a fresh snapshot instead of what it missed, a
count of connections is replaced by the next one, and a page that does not read for SEND_SECONDS is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Protocol

import msgspec
from aiohttp import WSMsgType, web

from bridgehead.insight.live.subscriptions import Feed

SEND_SECONDS = 10.0
HEARTBEAT_SECONDS = 15.0  # a page that does not answer pings is dropped, too
MOST_BYTES = 1024  # of a message from the page

LOOKS = frozenset(("map", "services", "service", "nodes", "node", "pod", "events"))
COUNTING = frozenset(("map", "services", "service"))  # views that show connections


class Watcher(Protocol):
    """The part of `FlowWatch` that a page uses."""

    def look(self, page: Browser, is_looking: bool) -> None: ...


class Browser:
    """A page and its WebSocket."""

    def __init__(self, socket: web.WebSocketResponse, transport: asyncio.BaseTransport | None) -> None:
        self._socket = socket
        self._transport = transport
        self._flows = b""
        self._has_flows = asyncio.Event()
        self.look = ""  # the view that is looked at; "" while the page is hidden

    async def run(self, hello: dict[str, Any], feed: Feed, watcher: Watcher) -> None:
        """Send to the page until it closes, or is dropped."""
        try:
            await self._send(msgspec.json.encode({"type": "hello", **hello}))
            tasks = [
                asyncio.create_task(each)
                for each in (self._send_updates(feed), self._send_flows(), self._receive(watcher))
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception) and not isinstance(result, (ConnectionError, TimeoutError)):
                    raise result
        except (ConnectionError, TimeoutError):
            pass
        finally:
            watcher.look(self, False)
            self.drop()

    def offer_flows(self, message: bytes) -> None:
        """Replace the count of connections that the page has not received yet."""
        self._flows = message
        self._has_flows.set()

    def drop(self) -> None:
        """Close the connection without a farewell, for which a page that does not read would have to be awaited."""
        if self._transport is not None:
            with contextlib.suppress(AttributeError):
                self._transport.abort()  # type: ignore[attr-defined]

    async def _send_updates(self, feed: Feed) -> None:
        async for update in feed:
            await self._send(update.json)

    async def _send_flows(self) -> None:
        while True:
            await self._has_flows.wait()
            self._has_flows.clear()
            await self._send(self._flows)

    async def _send(self, message: bytes) -> None:
        async with asyncio.timeout(SEND_SECONDS):
            await self._socket.send_frame(message, WSMsgType.TEXT)

    async def _receive(self, watcher: Watcher) -> None:
        async for message in self._socket:
            if message.type is not WSMsgType.TEXT:
                return
            look = read_look(message.data)
            if look is None:
                return
            self.look = look
            watcher.look(self, look in COUNTING)


def read_look(text: str) -> str | None:
    """Return the view that a page's message names, "" for none; None if it is no such message."""
    try:
        message = msgspec.json.decode(text, type=dict[str, str])
    except (msgspec.MsgspecError, UnicodeError):
        return None
    look = message.get("look", "")
    return look if look in LOOKS else ""
