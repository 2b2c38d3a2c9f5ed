"""The ASGI application: one request from its bytes to its answer.

Parse -> authenticate -> authorize -> handle -> answer; an exception on the way becomes a `Status`. Policy is in the
modules that this one calls.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import time
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from bridgehead import GIT_VERSION, KUBERNETES_VERSION, architecture
from bridgehead.storage import StoreBroken

from .access.authentication import Authenticator
from .access.authorization import Authorizer, refusal
from .access.impersonation import impersonate
from .audit.trail import UNAUDITED, Begin, Trail, audit_id_of, begin_unaudited
from .errors import ApiStatus, bad_request, internal_error, method_not_allowed, not_found_path, unauthorized
from .flowcontrol.control import FlowControl, Seat, is_long_running
from .flowcontrol.levels import Overloaded
from .handlers.discovery import Discovery
from .handlers.health import Health
from .handlers.issuer import IssuerDiscovery
from .handlers.metrics import Metrics
from .handlers.objects import Handlers
from .handlers.openapi import OpenApi
from .handlers.rendering import Rendering
from .handlers.reviews import Reviews
from .handlers.watch_sockets import json_only, send_watch
from .http.compression import compressed
from .http.handshake import deny
from .http.negotiation import JSON, wants_indented
from .http.paths import RequestInfo, check_timeout, parse_query, parse_request
from .http.request import Disconnected, Receive, Request, Response, Scope, Send, Stream, StreamBroken
from .http.unsent import ClientTooSlow, Connection, UnsentBudget
from .http.user import InvalidCredentials, User
from .http.worker import run_long
from .proxying.aggregation.aggregator import Aggregator
from .proxying.subresource import ProxySubresource
from .streams.pod_streams import PodStreams

log = logging.getLogger(__name__)

_VERSION = {
    "major": KUBERNETES_VERSION.removeprefix("v").split(".")[0],
    "minor": KUBERNETES_VERSION.split(".")[1],
    "gitVersion": GIT_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": platform.python_implementation().lower(),
    "platform": f"linux/{architecture()}",
}
# Limits in characters: of one warning once all together are too long, and of all together.
_MAX_WARNING, _MAX_WARNINGS = 256, 4096

# In Kubernetes' own words, which are no Status (apiserver/pkg/server/filters/maxinflight.go).
_TOO_MANY = Response(
    429,
    b"Too many requests, please try again later.\n",
    "text/plain; charset=utf-8",
    ((b"retry-after", b"1"), (b"x-content-type-options", b"nosniff")),
)

_CACHE_CONTROL = (b"cache-control", b"no-cache, private")


class Application:
    """The ASGI application."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        handlers: Handlers,
        reviews: Reviews,
        pod_streams: PodStreams,
        proxy: ProxySubresource,
        aggregator: Aggregator,
        discovery: Discovery,
        openapi: OpenApi,
        issuer: IssuerDiscovery,
        health: Health,
        metrics: Metrics,
        unsent: UnsentBudget,
        rendering: Rendering,
        flow_control: FlowControl,
        begin_trail: Begin = begin_unaudited,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._handlers = handlers
        self._reviews = reviews
        self._pod_streams = pod_streams
        self._proxy = proxy
        self._aggregator = aggregator
        self._discovery = discovery
        self._openapi = openapi
        self._issuer = issuer
        self._health = health
        self._metrics = metrics
        self._unsent = unsent
        self._rendering = rendering
        self._flow_control = flow_control
        self._begin_trail = begin_trail
        self._version = Response(200, msgspec.json.encode(_VERSION))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._answer_socket(scope, receive, send)
            return
        if scope["type"] != "http":
            return
        seat = Seat()
        try:
            await self._answer_request(scope, receive, send, seat)
        finally:
            seat.leave()

    async def _answer_request(self, scope: Scope, receive: Receive, send: Send, seat: Seat) -> None:
        started = time.perf_counter()
        headers = dict(scope["headers"])
        query = parse_query(scope["query_string"])
        info = parse_request(scope["method"], scope["path"], query)
        known, refused = False, True
        warnings: Sequence[str] = ()
        annotations: Mapping[str, str] = {}
        user: User | None = None
        trail, audit_id = UNAUDITED, audit_id_of(headers)
        try:
            if info.verb != "watch" and not is_long_running(info):
                check_timeout(query)
            user = await self._authenticate(scope, headers)
            trail = self._begin_trail(info, user, scope, headers, audit_id)
            user = self._impersonate(user, scope, info, trail)
            await seat.take(self._flow_control.classify(user, info), user, info)
            self._authorize(user, info, trail)
            known = True
            request = Request(info, scope["method"], query, headers, user, scope, trail.capture(receive))
            annotations = request.annotations
            warnings = request.warnings
            if self._aggregator.serves(info.path):
                seat.leave()  # the server behind has limits of its own
                response = await self._aggregator.answer(request)
            else:
                response = await self._dispatch(request)
            refused = False
        except ApiStatus as status:
            if user is None and status.code == 401:
                trail = self._begin_trail(info, None, scope, headers, audit_id)
            known = known and status.code not in (403, 404, 405)
            response = _refusal(status)
        except Overloaded:
            response, refused = _TOO_MANY, False
        except Disconnected:
            trail.complete()
            return
        except RecursionError:
            response = _refusal(bad_request("the body is nested too deeply"))
        except StoreBroken as error:
            log.error("%s %s: %s", scope["method"], scope["path"], error)
            response = _refusal(ApiStatus(500, "InternalError", f"Internal error occurred: {error}", {}))
        except Exception as error:
            log.exception("%s %s failed", scope["method"], scope["path"])
            trail.panic(error)
            response = _refusal(internal_error())
        response = trail.answer(response, annotations)
        if refused:
            response = await self._rendering.refusal(headers.get(b"accept", b"").decode("latin-1"), response)
        if response.content_type == JSON and response.body[:1] == b"{" and wants_indented(query, headers):
            body = response.body
            response = replace(response, body=await run_long(len(body), lambda: msgspec.json.format(body, indent=2)))
        response = await compressed(response, headers.get(b"accept-encoding", b""))
        if response.is_long_running:
            seat.leave()
        trail.start(response.status)
        try:
            more_headers = ((b"audit-id", audit_id), *response.headers, *seat.headers)
            await self._send(response, more_headers, warnings, response.receive or receive, send, scope)
        finally:
            trail.complete()
        seconds = None if response.is_long_running else time.perf_counter() - started
        self._metrics.count(info, response.status, seconds, known=known)

    def takes_upgrade(self, path: str) -> bool:
        """Whether upgrades of a path are passed on as raw bytes. Called by the server for each upgrade."""
        return self._proxy.serves(parse_request("GET", path, {})) or self._aggregator.serves(path)

    async def _answer_socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a WebSocket: exec, attach, port-forward or a watch."""
        query = parse_query(scope["query_string"])
        info = parse_request("GET", scope["path"], query)
        headers = dict(scope["headers"])
        user: User | None = None
        trail, audit_id = UNAUDITED, audit_id_of(headers)

        async def audited_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "websocket.accept":
                trail.start(101)
            await send(message)

        try:
            user = await self._authenticate(scope, headers)
            trail = self._begin_trail(info, user, scope, headers, audit_id)
            user = self._impersonate(user, scope, info, trail)
            self._authorize(user, info, trail)
            if info.verb != "watch":
                await self._pod_streams.answer_socket(info, user, scope, receive, audited_send)
                return
            request = Request(info, "GET", query, json_only(headers), user, scope, receive)
            response = await self._handlers.handle(request)
            if response.stream is not None:
                await send_watch(response.stream, receive, audited_send)
        except ApiStatus as status:
            if user is None:
                trail = self._begin_trail(info, None, scope, headers, audit_id)
            trail.answer(_refusal(status), {})
            trail.start(status.code)
            await deny(scope, send, status)
        finally:
            trail.complete()

    async def _authenticate(self, scope: Scope, headers: dict[bytes, bytes]) -> User:
        """Return the user of a request. Raises a 401."""
        try:
            # The user of the connection's certificate, from `http.server.PeerProtocol`.
            peer = scope.get("state", {}).get("peer")
            authorization = headers.get(b"authorization", b"").decode("latin-1")
            return await self._authenticator.authenticate(authorization, peer, scope["path"])
        except InvalidCredentials as error:
            log.info("%s %s: %s", scope.get("method", "GET"), scope["path"], error)  # a WebSocket's scope has no method
            raise unauthorized() from None

    def _impersonate(self, user: User, scope: Scope, info: RequestInfo, trail: Trail) -> User:
        """Return the user as whom a request is carried out. Raises a 400 or a 403."""
        wanted = impersonate(user, scope["headers"], info, self._authorizer)
        trail.impersonate(wanted)
        return wanted

    def _authorize(self, user: User, info: RequestInfo, trail: Trail) -> None:
        """Raise a 403 unless the user may make the request."""
        decision = self._authorizer.decide(user, info)
        trail.authorize(allowed=decision.allowed, reason=decision.reason)
        if not decision.allowed:
            raise refusal(user, info, decision.reason)

    async def _dispatch(self, request: Request) -> Response:
        info = request.info
        if info.is_resource:
            if self._reviews.serves(info):
                return await self._rendering.other(request.header(b"accept"), await self._reviews.handle(request))
            if self._pod_streams.serves(info):
                return await self._pod_streams.answer(request)
            if self._proxy.serves(info):
                return await self._proxy.answer(request)
            return await self._handlers.handle(request)
        return await self._serve_path(request, info)

    async def _serve_path(self, request: Request, info: RequestInfo) -> Response:
        path = info.path.rstrip("/") or "/"
        if request.method not in ("GET", "HEAD"):
            raise method_not_allowed()
        if self._health.serves(info.path):
            return self._health.handle(info.path, request.query)
        if path == "/version":
            return self._version
        if path == "/metrics":
            return self._metrics.render()
        if self._issuer.serves(path):
            return self._issuer.handle(path)
        if path.startswith("/openapi/"):
            return await self._openapi.handle(path, request)
        accept = request.header(b"accept")
        aggregated = self._discovery.aggregated_for(path, accept)
        if aggregated is not None:
            body, content_type, etag = aggregated
            headers = ((b"etag", etag.encode()), (b"vary", b"Accept"))
            if request.header(b"if-none-match") == etag:
                return Response(304, b"", content_type, headers)
            return Response(200, body, content_type, headers)
        document = self._discovery.document(path)
        if document is None:
            raise not_found_path()
        return Response(200, document)

    async def _send(
        self,
        response: Response,
        more_headers: Sequence[tuple[bytes, bytes]],
        warnings: Sequence[str],
        receive: Receive,
        send: Send,
        scope: Scope,
    ) -> None:
        headers = list(more_headers)
        if not any(name == b"cache-control" for name, _ in more_headers):
            headers.insert(0, _CACHE_CONTROL)
        if response.content_type:
            headers.insert(0, (b"content-type", response.content_type.encode("latin-1", "replace")))
        headers += [(b"warning", _warning(text)) for text in limit_warnings(warnings)]
        if response.stream is None:
            headers.append((b"content-length", b"%d" % len(response.body)))
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await send({"type": "http.response.body", "body": response.body})
            return
        if response.is_long_running:
            self._metrics.watches(1)
        try:
            await send({"type": "http.response.start", "status": response.status, "headers": headers})
            await self._send_stream(response.stream, receive, send, scope, drops_slow=response.drops_slow)
        finally:
            if response.is_long_running:
                self._metrics.watches(-1)
            await response.stream.aclose()

    async def _send_stream(
        self, stream: Stream, receive: Receive, send: Send, scope: Scope, *, drops_slow: bool
    ) -> None:
        """Send the pieces until the stream ends, the client leaves, or the client reads nothing for too long."""
        connection: Connection = scope["state"]["connection"]
        pieces = aiter(stream)
        pump = asyncio.current_task()
        left = False

        async def on_disconnect() -> None:
            nonlocal left
            while (await receive())["type"] != "http.disconnect":
                pass
            left = True
            if pump is not None:
                pump.cancel()

        watcher = asyncio.create_task(on_disconnect())
        try:
            # Sends the headers at once: they show a client that its watch has begun.
            await send({"type": "http.response.body", "body": b"", "more_body": True})
            if drops_slow:
                connection.limit_buffer()
            async for piece in pieces:
                if drops_slow and connection.is_full:
                    await self._unsent.wait(connection, stream.held_bytes + len(piece), scope["path"])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except asyncio.CancelledError:
            if not left or pump is None or pump.uncancel():
                raise
        except (ClientTooSlow, StreamBroken):
            pass  # the connection is closed
        finally:
            watcher.cancel()
            await pieces.aclose()


def _refusal(status: ApiStatus) -> Response:
    headers = status.headers
    if status.code == 413:
        # The rest of the body is not read.
        headers += ((b"connection", b"close"),)
    if status.details and status.details.get("retryAfterSeconds"):
        headers += ((b"retry-after", str(status.details["retryAfterSeconds"]).encode()),)
    return Response(status.code, msgspec.json.encode(status.to_object()), headers=headers)


def limit_warnings(texts: Iterable[str]) -> list[str]:
    """Return the warnings that fit into an answer's headers: each once, truncated when all together are too long.

    As apiserver/pkg/endpoints/filters/warning.go.
    """
    once = list(dict.fromkeys(texts))
    if sum(map(len, once)) <= _MAX_WARNINGS:
        return once
    shown: list[str] = []
    room = _MAX_WARNINGS
    for text in once:
        if room <= 0:
            break
        shown.append(text[:_MAX_WARNING])
        room -= len(shown[-1])
    return shown


def _warning(text: str) -> bytes:
    """Render a Warning header's value (RFC 7234, 5.5); code 299 is "miscellaneous persistent"."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    printable = "".join(c if c.isprintable() else " " for c in quoted)
    return f'299 - "{printable}"'.encode()
