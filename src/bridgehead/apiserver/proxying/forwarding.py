"""An HTTP request that is passed on to a target, and its response. Both bodies are streams of any length."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncGenerator, Callable

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from bridgehead.apiserver.errors import unavailable
from bridgehead.apiserver.http.request import Disconnected, Request, Response, StreamBroken
from bridgehead.apiserver.http.unsent import Connection

from .connections import describe
from .decompression import CODINGS, Recoder
from .headers import request_headers, response_headers, with_location
from .html import LinkRewriter
from .routes import Route, client_address
from .urls import Links


async def forward(request: Request, route: Route, session: aiohttp.ClientSession) -> Response:
    """Pass a request on and return its response, whose body is still to be read.

    Raises a 503 if the target does not answer, `Disconnected` if the client leaves first.
    """
    upload = _Upload(request)
    headers = route.headers(request_headers(request.scope["headers"], client_address(request)))
    sending = asyncio.ensure_future(
        session.request(
            request.method,
            URL(f"{route.target.scheme}://{route.target.authority}{route.path}", encoded=True),
            headers=CIMultiDict((name.decode("latin-1"), _text(value)) for name, value in headers),
            data=upload.pieces() if upload.has_body else None,
            allow_redirects=False,
            ssl=route.tls if route.tls is not None else True,
            server_hostname=route.server_name or None,
        )
    )
    leaving = asyncio.ensure_future(upload.receive())
    try:
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not sending.done():
            raise Disconnected
        answer = sending.result()
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        raise unavailable(f"error trying to reach service: {describe(error, route.target)}") from error
    finally:
        leaving.cancel()
        if not sending.done():
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
    return _response(request, route.links, answer, upload)


def _text(value: bytes) -> str:
    """Decode a header's value so that aiohttp sends the same bytes."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")


def _response(request: Request, links: Links | None, answer: aiohttp.ClientResponse, upload: _Upload) -> Response:
    content_type = answer.headers.get("Content-Type", "")
    location = answer.headers.get("Location", "")
    coding = answer.headers.get("Content-Encoding", "")
    rewrites = (
        links is not None
        and not location
        and request.method != "HEAD"
        and content_type.partition(";")[0].strip() == "text/html"
        and coding in ("", *CODINGS)
    )
    headers = response_headers(answer.raw_headers, keeps_length=not rewrites)
    if location and links is not None:
        headers = with_location(headers, links.rewrite(location))
    connection: Connection = request.scope["state"]["connection"]
    body = _Download(answer, connection, links.rewrite if rewrites and links is not None else None, coding)
    return Response(
        answer.status,
        content_type=content_type,
        headers=tuple(headers),
        stream=body,
        is_long_running=True,
        receive=upload.receive,
    )


class _Upload:
    """The request's body, which the target reads at its own speed, and the client's disconnect."""

    def __init__(self, request: Request) -> None:
        self._receive = request.receive
        self.has_body = b"transfer-encoding" in request.headers or request.header(b"content-length") not in ("", "0")
        self._has_left = False
        self._ended = asyncio.Event()
        if not self.has_body:
            self._ended.set()

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body. Raises ConnectionError when the client leaves before its end."""
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                self._has_left = True
                self._ended.set()
                raise ConnectionError("the client has left")
            if body := message.get("body", b""):
                yield bytes(body)
            if not message.get("more_body"):
                self._ended.set()
                return

    async def receive(self) -> dict[str, str]:
        """Wait for the client's disconnect."""
        await self._ended.wait()
        while not self._has_left:
            self._has_left = (await self._receive())["type"] == "http.disconnect"
        return {"type": "http.disconnect"}


class _Download:
    """The response's body, with its links rewritten by `rewrite` if that is not None. See `request.Stream`."""

    held_bytes = 0  # aiohttp's buffer is small and bounded

    def __init__(
        self,
        answer: aiohttp.ClientResponse,
        connection: Connection,
        rewrite: Callable[[str], str] | None,
        coding: str,
    ) -> None:
        self._answer = answer
        self._connection = connection
        self._rewriter = None if rewrite is None else LinkRewriter(rewrite)
        self._coding = coding

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        try:
            if self._rewriter is None:
                async for piece in self._answer.content.iter_any():
                    yield piece
            elif self._coding:
                recoder = Recoder(self._coding, self._rewriter.feed, self._rewriter.close)
                async for piece in self._answer.content.iter_any():
                    for changed in recoder.pieces(piece):
                        yield changed
                        await asyncio.sleep(0)  # a small body may decompress to any size
                yield recoder.end()
            else:
                async for piece in self._answer.content.iter_any():
                    yield self._rewriter.feed(piece)
                yield self._rewriter.close()
        except (aiohttp.ClientError, OSError, zlib.error) as error:
            # The client sees that its body is not complete.
            self._connection.abort()
            raise StreamBroken from error

    async def aclose(self) -> None:
        self._answer.close()
