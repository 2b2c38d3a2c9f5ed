"""Answers at URLs that name no resource: health, metrics, the version, discovery, OpenAPI.

As in Kubernetes, some of these pages accept any method: the handlers of kube-apiserver's path recorder. All others are
web services of go-restful, which accept only GET and answer for all paths below their own.
Source: apiserver/pkg/server/handler.go (`director`), apiserver/pkg/server/routes, kube-aggregator/pkg/apiserver.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from bridgehead import GIT_VERSION, KUBERNETES_VERSION, architecture
from bridgehead.apiserver.errors import PageNotFound, method_not_allowed, not_acceptable, not_found_path
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.request_info import parse_query_list
from bridgehead.apiserver.metrics.page import Metrics
from bridgehead.storage import StoreBroken
from bridgehead.zpages import FLAGZ, STATUSZ, ZPages, offered_forms

from .discovery import Discovery
from .health import SLIS_PATH, Health
from .issuer import IssuerDiscovery
from .openapi import OpenApi
from .rendering import Rendering

# Pages about the resources, of which another server may have defined some.
_OF_RESOURCES = ("/apis", "/openapi/")
_MAJOR, _MINOR = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
_VERSION = {
    "major": _MAJOR,
    "minor": _MINOR,
    "emulationMajor": _MAJOR,
    "emulationMinor": _MINOR,
    "minCompatibilityMajor": _MAJOR,
    "minCompatibilityMinor": str(int(_MINOR) - 1),
    "gitVersion": GIT_VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "",
    "goVersion": "",
    "compiler": platform.python_implementation().lower(),
    "platform": f"linux/{architecture()}",
}


class NonResourceUrls:
    """The pages of a server. `handle` expects that the user may use the URL."""

    def __init__(
        self,
        *,
        health: Health,
        metrics: Metrics,
        zpages: ZPages,
        issuer: IssuerDiscovery,
        openapi: OpenApi,
        discovery: Discovery,
        rendering: Rendering,
        catch_up: Callable[[], Awaitable[None]],
    ) -> None:
        self._health = health
        self._metrics = metrics
        self._zpages = zpages
        self._issuer = issuer
        self._openapi = openapi
        self._discovery = discovery
        self._rendering = rendering
        self._catch_up = catch_up
        # Indented for all clients, as Kubernetes shows it.
        self._version = Response(200, msgspec.json.format(msgspec.json.encode(_VERSION), indent=2))

    async def handle(self, request: Request) -> Response:
        """Answer a request. Raises a 404, a 405 or a 406."""
        path = request.info.path
        if path.startswith(_OF_RESOURCES):
            with suppress(StoreBroken):  # the resources of this server are a better answer than none
                await self._catch_up()
        if self._health.serves(path):
            return self._health.handle(path, parse_query_list(request.scope["query_string"]))
        if path.startswith("/openapi/"):
            return await self._openapi.handle(path, request)
        match path:
            case "/metrics":
                return await self._metrics.render(request.header(b"accept"))
            case _ if path == SLIS_PATH:
                return self._health.slis(request.header(b"accept"))
            case _ if path in (STATUSZ, FLAGZ):
                return self._zpage(path, request.header(b"accept"))
            case "/" | "/index.html":
                path = "/"
            case _:
                path = path.removesuffix("/")
        response = self._page(path, request)
        if response is None:
            is_claimed = path.startswith("/version/") or self._discovery.is_web_service(path)
            raise not_found_path() if is_claimed else PageNotFound
        if path in ("/", "/version"):
            return response
        return await self._rendering.other(request.header(b"accept"), response)

    def _zpage(self, path: str, accept: str) -> Response:
        answer = self._zpages.answer(path, accept)
        if answer is None:
            raise not_acceptable(offered_forms(path))
        return Response(200, answer.body, answer.content_type)

    def _page(self, path: str, request: Request) -> Response | None:
        """Return the page of a path without a slash at its end; None without a page. Raises a 405."""
        if path == "/version":
            _check_get(request)
            return self._version
        if self._issuer.serves(path):
            _check_get(request)
            return self._issuer.handle(path)
        document = self._discovery.document(path)
        if document is None:
            return None
        if self._discovery.is_web_service(path):
            _check_get(request)
        aggregated = self._discovery.aggregated_for(path, request.header(b"accept"))
        if aggregated is None:
            return Response(200, document)
        body, content_type, etag = aggregated
        headers = ((b"etag", etag.encode()), (b"vary", b"Accept"))
        if request.header(b"if-none-match") == etag:
            return Response(304, b"", content_type, headers)
        return Response(200, body, content_type, headers)


def _check_get(request: Request) -> None:
    """Raise a 405 for another method than GET, also for HEAD."""
    if request.method != "GET":
        raise method_not_allowed()
