"""Answers of an aiohttp application, without a socket, compared with Go's."""

from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from bridgehead.go_answers import answer_as_go


async def unprocessable(_: web.Request) -> web.Response:
    return web.Response(status=422)


async def answer(method: str, path: str) -> web.Response:
    application = web.Application()
    answer_as_go(application, ("pods",))
    application.router.add_get("/pods/all", unprocessable)
    application.freeze()
    request = make_mocked_request(method, path, app=application)
    match = await application.router.resolve(request)
    (middleware,) = application.middlewares
    response = await middleware(request, match.handler)
    assert isinstance(response, web.Response)
    for signal in application.on_response_prepare:
        response.headers["Server"] = "Python"
        await signal(request, response)
    return response


@pytest.mark.parametrize(
    ("method", "path", "status", "reason", "text"),
    [
        ("GET", "/nothing", 404, "Not Found", "404 page not found\n"),
        ("GET", "/pods/none", 404, "Not Found", "404: Page Not Found"),
        ("POST", "/pods/all", 405, "Method Not Allowed", "405: Method Not Allowed"),
        ("GET", "/pods/all", 422, "Unprocessable Entity", None),
    ],
)
async def test_answers(method, path, status, reason, text):
    response = await answer(method, path)
    assert (response.status, response.reason, response.text) == (status, reason, text)
    assert "Server" not in response.headers
    assert ("Allow" in response.headers) == (status == 405)
