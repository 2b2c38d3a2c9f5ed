"""The ASGI application: one request from its bytes to its answer.

Parse -> authenticate -> authorize -> handle -> answer; an exception on the way becomes a `Status`. Policy is in the
modules that this one calls.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from bridgehead.media_types import JSON
from bridgehead.storage import OutcomeUnknown, StoreAway, StoreBroken

from .access.authentication import Authenticator
from .access.authorization import Authorizer, refusal
from .access.impersonation import impersonate
from .audit.trail import Begin, begin_unaudited
from .bodies.patch import APPLY_PATCH
from .errors import (
    ApiStatus,
    PageNotFound,
    TimedOut,
    bad_request,
    internal_error,
    not_found_path,
    outcome_unknown,
    unauthorized,
    unavailable,
)
from .exchange import Exchange
from .flowcontrol.apf_controller import FlowControl, is_long_running
from .flowcontrol.levels import Overloaded
from .handlers.access_reviews import Reviews
from .handlers.dispatch import Dispatch
from .handlers.non_resource_urls import NonResourceUrls
from .handlers.rendering import Rendering
from .http.compression import compressed
from .http.negotiation import wants_indented
from .http.request import (
    FRONT_PROXY,
    NEWCOMER,
    PEER_UNTIL,
    Disconnected,
    Receive,
    Request,
    Response,
    Scope,
    Send,
    text_response,
)
from .http.request_info import check_timeout, parse_query, parse_request
from .http.sending import Sender, deny_socket
from .http.socket_streams import choose_protocol, is_stream, send_over_socket
from .http.tunnel import tunnel_of
from .http.unsent import UnsentBudget
from .http.user import ANONYMOUS, InvalidCredentials, User
from .http.worker import run_long
from .metrics.access import ALLOWED, DENIED, FAILURE, SUCCESS
from .metrics.page import Metrics
from .metrics.waits import begin_waits
from .proxying.aggregation.aggregator import Aggregator
from .proxying.subresource import ProxySubresource
from .streams.pod_streams import PodStreams

log = logging.getLogger(__name__)

# Answers to a path that may be one that nobody else asks for.
_UNKNOWN_CODES = (403, 404, 405)
_READING = frozenset({"get", "list", "watch", "head", "options"})
_APPLY = APPLY_PATCH.encode()
_BRIEF = contextlib.nullcontext()
# The end of JSON that is indented already.
_INDENTED_END = b"\n}"
# Kubernetes' own text, which is no Status (apiserver/pkg/server/filters/maxinflight.go).
_TOO_MANY = text_response(429, "Too many requests, please try again later.\n", ((b"retry-after", b"1"),))


class Application:
    """The ASGI application."""

    def __init__(
        self,
        *,
        authenticator: Authenticator,
        authorizer: Authorizer,
        dispatch: Dispatch,
        reviews: Reviews,
        pod_streams: PodStreams,
        proxy: ProxySubresource,
        aggregator: Aggregator,
        non_resource_urls: NonResourceUrls,
        metrics: Metrics,
        unsent: UnsentBudget,
        rendering: Rendering,
        flow_control: FlowControl,
        has_news: Callable[[], Awaitable[bool]],
        begin_trail: Begin = begin_unaudited,
    ) -> None:
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._resource_dispatch = dispatch
        self._reviews = reviews
        self._pod_streams = pod_streams
        self._proxy = proxy
        self._aggregator = aggregator
        self._non_resource_urls = non_resource_urls
        self._metrics = metrics
        self._sender = Sender(unsent)
        self._rendering = rendering
        self._flow_control = flow_control
        self._has_news = has_news
        self._begin_trail = begin_trail

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        match scope["type"]:
            case "http":
                exchange = Exchange(scope)
                info = exchange.info
                counted = self._metrics.requests.in_flight(mutates=info.verb not in _READING)
                try:
                    with _BRIEF if info.verb == "watch" or is_long_running(info) else counted:
                        await self._answer_request(exchange, receive, send)
                finally:
                    exchange.seat.leave()
            case "websocket":
                await self._answer_socket(Exchange(scope), receive, send)

    def takes_upgrade(self, path: str) -> bool:
        """Whether upgrades of a path are passed on as raw bytes. Called by the server for each upgrade."""
        info = parse_request("GET", path, {})
        return self._proxy.serves(info) or self._pod_streams.takes_upgrade(info) or self._aggregator.serves(path)

    def takes_socket(self, path: str, query: bytes) -> bool:
        """Whether a GET of a path is answered over a WebSocket when the client asks for it.

        As in Kubernetes, other requests are answered as if they had not asked. Called by the server for each upgrade.
        """
        return is_stream(parse_request("GET", path, parse_query(query)))

    # --- A request ----------------------------------------------------------------------------------------------

    async def _answer_request(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        started, waits = time.perf_counter(), begin_waits()
        try:
            response = await self._respond(exchange, receive)
        except Disconnected:
            exchange.trail.complete()
            return
        response = exchange.trail.answer(response, exchange.annotations)
        response = await self._encode(exchange, response)
        if response.is_long_running:
            exchange.seat.leave()
        exchange.trail.start(response.status)
        headers = ((b"audit-id", exchange.audit_id), *exchange.seat.headers)
        is_counted = response.is_long_running and exchange.is_known
        try:
            with self._metrics.requests.long_running(exchange.info) if is_counted else _BRIEF:
                await self._sender.send(
                    response, headers, exchange.warnings, response.receive or receive, send, exchange.scope
                )
        finally:
            exchange.trail.complete()
        self._count(exchange, response.status, started, waits.seconds)

    def _count(self, exchange: Exchange, code: int, started: float, waited: float = 0.0) -> None:
        if exchange.is_terminated:
            self._metrics.requests.record_termination(exchange.info, code, known=exchange.is_known)
        self._metrics.requests.count(
            exchange.info,
            code,
            time.perf_counter() - started,
            waited=waited,
            known=exchange.is_known,
            dry_run=exchange.query.get("dryRun", ""),
            applies=exchange.method == "PATCH" and exchange.headers.get(b"content-type", b"") == _APPLY,
        )

    async def _respond(self, exchange: Exchange, receive: Receive) -> Response:
        """Carry a request out; return its response, also for a refusal or an error. Raises `Disconnected`."""
        try:
            response = await self._carry_out(exchange, receive)
            exchange.is_refused = False
            return response
        except Disconnected:
            raise
        except ApiStatus as status:
            exchange.is_known = exchange.is_known and status.code not in _UNKNOWN_CODES
            exchange.is_terminated = isinstance(status, TimedOut)
            return _refusal(status)
        except Overloaded:
            exchange.is_refused, exchange.is_terminated = False, True
            return _TOO_MANY
        except RecursionError:
            return _refusal(bad_request("the body is nested too deeply"))
        except StoreAway as error:
            log.warning("%s: %s", exchange, error)
            return _refusal(unavailable(str(error), retry_after_seconds=1))
        except OutcomeUnknown as error:
            log.warning("%s: %s", exchange, error)
            return _refusal(outcome_unknown(str(error)))
        except StoreBroken as error:
            log.error("%s: %s", exchange, error)
            return _refusal(internal_error(str(error)))
        except Exception as error:
            log.exception("%s failed", exchange)
            exchange.trail.panic(error)
            return _refusal(internal_error())

    async def _carry_out(self, exchange: Exchange, receive: Receive) -> Response:
        """Raises `ApiStatus` for a refused request, and what the handlers raise."""
        info, seat = exchange.info, exchange.seat
        if info.verb != "watch" and not is_long_running(info):
            check_timeout(exchange.query)
        user = self._impersonate(await self._authenticate(exchange), exchange)
        await seat.take(self._flow_control.classify(user, info), user, info)
        await self._authorize(user, exchange)
        request = exchange.accept(user, receive)
        if (tunnel := tunnel_of(exchange.scope)) is not None:
            tunnel.on_start = partial(self._start_upgrade, exchange)
        if self._aggregator.serves(info.path):
            seat.leave()  # the server behind has limits and metrics of its own
            exchange.is_known = False
            self._drop_proxy_headers(request)
            return await self._aggregator.answer(request)
        return await self._dispatch(request)

    def _start_upgrade(self, exchange: Exchange) -> None:
        """Record that an upgraded connection begins."""
        exchange.trail.answer(Response(101), exchange.annotations)
        exchange.trail.start(101)

    async def _encode(self, exchange: Exchange, response: Response) -> Response:
        """Return a response in the form that the client wants: the media type of a refusal, indented, compressed."""
        headers = exchange.headers
        if exchange.is_refused:
            response = await self._rendering.refusal(headers.get(b"accept", b"").decode("latin-1"), response)
        body = response.body
        if response.content_type == JSON and body[:1] == b"{":
            if wants_indented(exchange.query, exchange.headers):
                body = await run_long(len(body), lambda: msgspec.json.format(body, indent=2))
            elif body[-2:] != _INDENTED_END and not exchange.scope["path"].startswith("/openapi/"):
                body += b"\n"  # as Go's encoder of objects, so that `kubectl get --raw` ends with a whole line
            response = replace(response, body=body)
        return await compressed(response, headers.get(b"accept-encoding", b""))

    # --- A WebSocket --------------------------------------------------------------------------------------------

    async def _answer_socket(self, exchange: Exchange, receive: Receive, send: Send) -> None:
        """Answer a WebSocket: the stream of a watch or a log."""
        started, code = time.perf_counter(), 101

        async def audited_send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "websocket.accept":
                exchange.trail.answer(Response(101), exchange.annotations)
                exchange.trail.start(101)
            await send(message)

        try:
            user = self._impersonate(await self._authenticate(exchange), exchange)
            await self._authorize(user, exchange)
            request = exchange.accept(user, receive)
            if not is_stream(exchange.info):
                raise not_found_path()
            with self._metrics.requests.long_running(exchange.info):
                await self._stream_over_socket(exchange, request, audited_send)
        except ApiStatus as status:
            code = status.code
            exchange.is_known = exchange.is_known and code not in _UNKNOWN_CODES
            exchange.trail.answer(_refusal(status), exchange.annotations)
            exchange.trail.start(status.code)
            await deny_socket(exchange.scope, send, status)
        finally:
            exchange.trail.complete()
        self._count(exchange, code, started)

    async def _stream_over_socket(self, exchange: Exchange, request: Request, send: Send) -> None:
        """Carry out a watch, or the request of a log. Raises `ApiStatus` before the WebSocket is accepted."""
        protocol, seat = choose_protocol(request.info, request.scope.get("subprotocols", ())), exchange.seat
        try:
            await seat.take(self._flow_control.classify(request.user, request.info), request.user, request.info)
            response = await self._dispatch(request)
        except Overloaded:
            exchange.is_terminated = True
            raise ApiStatus(429, "TooManyRequests", _TOO_MANY.body.decode().strip()) from None
        finally:
            seat.leave()
        await send_over_socket(self._sender, response, protocol, request.receive, send, request.scope)

    # --- Access -------------------------------------------------------------------------------------------------

    async def _authenticate(self, exchange: Exchange) -> User:
        """Return the user of the credentials, and begin the trail. Raises a 401."""
        scope, headers, user = exchange.scope, exchange.headers, None
        began = time.perf_counter()
        try:
            # The user of the connection's certificate and the name of a front proxy, from `http.peer_protocol`.
            state = scope.get("state", {})
            if FRONT_PROXY in state:
                user = self._authenticator.user_of_proxy(state[FRONT_PROXY], scope["headers"])
            if user is None:
                user = await self._user_of(exchange)
            if PEER_UNTIL in state:
                self._metrics.access.record_certificate(state[PEER_UNTIL] - time.time())
            newcomer = state.get(NEWCOMER)
            if newcomer is not None and user is not ANONYMOUS:
                newcomer.leave()
        except InvalidCredentials as error:
            log.info("%s: %s", exchange, error)
            raise unauthorized() from None
        finally:
            exchange.user = user
            self._metrics.access.record_authentication(
                FAILURE if user is None else SUCCESS, time.perf_counter() - began, "" if user is None else user.name
            )
            annotations = exchange.notes.annotations
            exchange.trail = self._begin_trail(exchange.info, user, scope, headers, exchange.audit_id, annotations)
        return user

    async def _user_of(self, exchange: Exchange) -> User:
        """Return the user of certificate or token. Raises `InvalidCredentials`.

        A service account may have been created through another server a moment ago.
        """
        peer = exchange.scope.get("state", {}).get("peer")
        authenticate = partial(
            self._authenticator.authenticate, exchange.headers, peer, exchange.scope["path"], exchange.notes
        )
        try:
            return await authenticate()
        except InvalidCredentials:
            if not await self._has_news():
                raise
        return await authenticate()

    def _drop_proxy_headers(self, request: Request) -> None:
        """Remove the headers that name a front proxy's user from a request that is passed on."""
        request.scope["headers"] = self._authenticator.without_proxy_headers(request.scope["headers"])

    def _impersonate(self, user: User, exchange: Exchange) -> User:
        """Return the user as whom a request is carried out. Raises a 400 or a 403."""
        wanted = impersonate(user, exchange.scope["headers"], exchange.info, self._authorizer)
        exchange.trail.impersonate(wanted)
        return wanted

    async def _authorize(self, user: User, exchange: Exchange) -> None:
        """Raise a 403 unless the user may make the request, also by what other servers have written a moment ago."""
        began = time.perf_counter()
        decision = self._authorizer.decide(user, exchange.info)
        if not decision.allowed and await self._has_news():
            decision = self._authorizer.decide(user, exchange.info)
        self._metrics.access.record_authorization(ALLOWED if decision.allowed else DENIED, time.perf_counter() - began)
        exchange.trail.authorize(allowed=decision.allowed, reason=decision.reason)
        if not decision.allowed:
            raise refusal(user, exchange.info, decision.reason)

    # --- Handlers -----------------------------------------------------------------------------------------------

    async def _dispatch(self, request: Request) -> Response:
        info = request.info
        if info.is_resource:
            if self._reviews.serves(info):
                return await self._rendering.other(request.header(b"accept"), await self._reviews.handle(request))
            if self._pod_streams.serves(info):
                with self._metrics.requests.long_running(info) if self._pod_streams.takes_upgrade(info) else _BRIEF:
                    return await self._pod_streams.answer(request)
            if self._proxy.serves(info):
                self._drop_proxy_headers(request)
                with self._metrics.requests.long_running(info):  # an upgraded connection ends before its response
                    return await self._proxy.answer(request)
            return await self._resource_dispatch.handle(request)
        return await self._non_resource_urls.handle(request)


def _refusal(status: ApiStatus) -> Response:
    headers = status.headers
    if isinstance(status, PageNotFound):
        return text_response(404, f"{status.message}\n", headers)
    if status.code == 413:
        # The rest of the body is not read.
        headers += ((b"connection", b"close"),)
    if status.details and status.details.get("retryAfterSeconds", 0) > 0:
        headers += ((b"retry-after", str(status.details["retryAfterSeconds"]).encode()),)
    return Response(status.code, msgspec.json.encode(status.to_object()), headers=headers)
