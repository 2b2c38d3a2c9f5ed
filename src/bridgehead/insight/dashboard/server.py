"""The dashboard's server: files of the page, answers to its questions, and feeds of the live model.

It answers GET and HEAD only, on loopback. Files of the page need no token, and have no data.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from importlib.resources import files
from typing import Any, NamedTuple, Protocol

import msgspec
from aiohttp import web
from aiohttp.abc import AbstractAccessLogger
from aiohttp.web_protocol import RequestHandler

from bridgehead.client.errors import ClientError
from bridgehead.insight.findings import printable
from bridgehead.insight.live.subscriptions import Feed
from bridgehead.insight.live.updates import Table
from bridgehead.insight.network_namespaces import NotEntered

from .access import HEADERS, PROTOCOL, hosts_of, is_token, refusal, token_of
from .browsers import HEARTBEAT_SECONDS, MOST_BYTES, Browser
from .errors import Unanswerable
from .flow_watch import FlowWatch
from .history import History
from .manifests import NoManifest

MOST_PAGES = 16  # open at a time
MOST_CONNECTIONS = 200  # besides, as many again whose client has not shown the token
MOST_QUESTIONS = 4  # answered at a time; more wait
QUESTION_SECONDS = 20.0
SILENT_SECONDS = 10.0  # until the first request of a connection is complete
_SWEEP_SECONDS = 2.0
_LONGEST_QUERY = 2_000

log = logging.getLogger(__name__)

TABLES = frozenset(Table)
LANGUAGES = ("en", "zh")

_FILES = {
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/app.css": ("app.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


# Connections from the oldest on, with the time of the loop at which each was opened; None: its client has the token.
_Connections = dict[asyncio.BaseTransport, float | None]


class Live(Protocol):
    """The part of `LiveCluster` that the server uses."""

    def subscribe(self, tables: Any) -> Feed: ...


class _NoLog(AbstractAccessLogger):
    """Requests are not logged: their paths name objects."""

    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        pass

    @property
    def enabled(self) -> bool:
        return False


class _Connection(RequestHandler):
    """One connection, in the table of all of them: the oldest whose client has not shown the token makes room."""

    __slots__ = ("_table",)

    def __init__(self, table: _Connections, manager: web.Server, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(manager, loop=loop, access_log_class=_NoLog, keepalive_timeout=20.0, tcp_keepalive=False)
        self._table = table

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        unknown = [each for each, opened in self._table.items() if opened is not None]
        for each in unknown[: max(0, len(unknown) + 1 - MOST_CONNECTIONS)]:
            _abort(each)
        self._table[transport] = self._loop.time()
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.transport is not None:
            self._table.pop(self.transport, None)
        super().connection_lost(exc)


Question = Callable[[Mapping[str, str]], Awaitable[Any]]


class Dashboard(NamedTuple):
    """Everything that the server shows.

    `questions`: by name, what a page can ask with GET /api/NAME?parameters; the answers are encoded to JSON.
    """

    name: str  # of the cluster
    live: Live
    questions: Mapping[str, Question]
    flows: FlowWatch
    history: History
    language: str = ""  # of the page; "": the browser's


class Server:
    """Serves a dashboard at one port to those who have the token."""

    def __init__(self, dashboard: Dashboard, token: str) -> None:
        self._dashboard = dashboard
        self._token = token
        self._hosts: frozenset[str] = frozenset()
        self._pages: set[Browser] = set()
        self._asking = asyncio.Semaphore(MOST_QUESTIONS)
        self._has_pages = asyncio.Event()
        self._connections: _Connections = {}
        self._answers = {path: self._file(*file) for path, file in _FILES.items()}

    @property
    def pages(self) -> int:
        """Number of open pages."""
        return len(self._pages)

    @contextlib.asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[int]:
        """Serve at 127.0.0.1 during the block, and yield the port. Raises OSError."""
        handler = web.Server(self._serve)
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(
            lambda: _Connection(self._connections, handler, loop), "127.0.0.1", port, backlog=64
        )
        bound: int = listening.sockets[0].getsockname()[1]
        self._hosts = hosts_of(bound)
        tasks = [
            asyncio.create_task(each) for each in (self._dashboard.flows.run(), self._keep_history(), self._sweep())
        ]
        try:
            yield bound
        finally:
            listening.close()
            for page in tuple(self._pages):
                page.drop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await handler.shutdown(1.0)

    # Connections

    async def _sweep(self) -> None:
        """End connections whose client does not show the token in time."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            limit = asyncio.get_running_loop().time() - SILENT_SECONDS
            for transport, opened in tuple(self._connections.items()):
                if opened is not None and opened < limit:
                    _abort(transport)
                if transport.is_closing():
                    self._connections.pop(transport, None)

    # Requests

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        why = refusal(request.headers, self._hosts, is_page=request.path == "/")
        if why:
            return _error(403, why)
        if request.method not in ("GET", "HEAD"):
            return _error(405, "the dashboard only reads", {"Allow": "GET, HEAD"})
        found = self._answers.get(request.path)
        if found is not None:
            body, type_ = found
            return web.Response(body=body, content_type=type_, charset="utf-8", headers=HEADERS)
        if request.path != "/feed" and not request.path.startswith("/api/"):
            return _error(404, "there is no such page")
        given = token_of(request.headers.get("Authorization", ""), request.headers.get("Sec-WebSocket-Protocol", ""))
        if not is_token(given, self._token):
            return _error(401, "token", {"WWW-Authenticate": "Bearer"})
        if request.transport in self._connections:
            self._connections[request.transport] = None
        if request.path == "/feed":
            return await self._feed(request)
        return await self._answer(request)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        name = request.path.removeprefix("/api/")
        if name == "session":
            full = len(self._pages) >= MOST_PAGES
            return _error(503, "full") if full else _json({"name": self._dashboard.name})
        question = self._dashboard.questions.get(name)
        if question is None:
            return _error(404, "absent")
        if len(request.query_string) > _LONGEST_QUERY:
            return _error(400, "the question is too long")
        try:
            async with asyncio.timeout(QUESTION_SECONDS), self._asking:
                return _json(await question(request.query))
        except TimeoutError:
            return _error(504, f"no answer within {QUESTION_SECONDS:g} s")
        except (Unanswerable, NoManifest) as error:
            return _error(404, printable(str(error)))
        except (ClientError, NotEntered) as error:
            return _error(502, printable(str(error)))
        except Exception:  # a bug in one question leaves the others answered
            log.exception("the question %s", name)
            return _error(500, "the dashboard failed; its log has the reason")

    async def _feed(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.method != "GET" or request.headers.get("Upgrade", "").lower() != "websocket":
            return _error(400, "this is a WebSocket")
        if "Origin" not in request.headers:  # every browser sends it; `refusal` has compared it
            return _error(403, "this WebSocket is for pages")
        if len(self._pages) >= MOST_PAGES:
            return _error(503, "full")
        socket = web.WebSocketResponse(
            protocols=(PROTOCOL,), heartbeat=HEARTBEAT_SECONDS, max_msg_size=MOST_BYTES, compress=False
        )
        await socket.prepare(request)
        page = Browser(socket, request.transport)
        self._pages.add(page)
        self._has_pages.set()
        try:
            hello = {
                "cluster": {"name": printable(self._dashboard.name)},
                "questions": sorted(self._dashboard.questions),
            }
            with self._dashboard.live.subscribe(TABLES) as feed:
                await page.run(hello, feed, self._dashboard.flows)
        finally:
            self._pages.discard(page)
            if not self._pages:
                self._has_pages.clear()
        return socket

    async def _keep_history(self) -> None:
        """Record the latencies of syncs while a page is open: metrics are read only for subscribers."""
        history = self._dashboard.history
        while True:
            await self._has_pages.wait()
            with self._dashboard.live.subscribe(frozenset((Table.SYNCS,))) as feed:
                async for update in feed:
                    rows: list[Any] = list(update.rows.get(Table.SYNCS, ()))
                    rows += [change.row for change in update.changes if change.row is not None]
                    now = time.time()
                    for row in rows:
                        history.record(f"sync {row.key}", now, row.p99)
                        history.record(f"programmed {row.key}", now, row.programmed_p99)
                    if not self._has_pages.is_set():
                        break
                else:
                    return

    def _file(self, name: str, type_: str) -> tuple[bytes, str]:
        body = files("bridgehead.insight.dashboard").joinpath("static", name).read_bytes()
        if name == "index.html" and self._dashboard.language in LANGUAGES:
            marker = b'name="bridgehead-language" content="'
            body = body.replace(marker, marker + self._dashboard.language.encode())
        return body, type_


def _abort(transport: asyncio.BaseTransport) -> None:
    with contextlib.suppress(AttributeError):
        transport.abort()  # type: ignore[attr-defined]


def _json(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json", headers=HEADERS)


def _error(code: int, text: str, headers: Mapping[str, str] | None = None) -> web.Response:
    return web.Response(
        status=code,
        body=msgspec.json.encode({"error": text}),
        content_type="application/json",
        headers={**HEADERS, **(headers or {})},
    )
