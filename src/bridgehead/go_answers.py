"""Answers of aiohttp's server as Go's servers give them: without the library's name, with Go's phrases and texts.

Source: Go's net/http (NotFound), github.com/emicklei/go-restful (writeServiceError).
"""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .go_http import NOT_FOUND, reason_phrase


def answer_as_go(application: web.Application, services: Collection[str] = ()) -> None:
    """Make an application answer as a Go server does. Call it before others add middlewares.

    `services`: the first segments of paths below which go-restful looks for a route.
    """
    application.middlewares.append(_answers(frozenset(services)))
    application.on_response_prepare.append(_without_server)


async def _without_server(_: web.Request, response: web.StreamResponse) -> None:
    response.headers.popall("Server", None)


def _answers(services: frozenset[str]) -> Middleware:
    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = await handler(request)
        except web.HTTPNotFound:
            response = _plain(404, "404: Page Not Found" if _service_of(request) in services else NOT_FOUND)
        except web.HTTPMethodNotAllowed as error:
            response = _plain(405, "405: Method Not Allowed")
            response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        if not response.prepared:
            response.set_status(response.status, reason_phrase(response.status))
        return response

    return answer


def _service_of(request: web.Request) -> str:
    return request.path.strip("/").partition("/")[0]


def _plain(status: int, text: str) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff"} if text == NOT_FOUND else {}
    return web.Response(status=status, text=text, headers=headers)
