"""HTTPS server of the webhook: `/validate...` for admission, `/convert` for versions of BGPPeer."""

from __future__ import annotations

import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable

import msgspec
from aiohttp import web

from bridgehead.go_answers import answer_as_go
from bridgehead.tls_certificates import load_certificate
from bridgehead.tls_offers import DEFAULT_OFFER

from .reviews import BadReview, Convert, Json, Judge, answer_admission, answer_conversion
from .server_identity import Identity

log = logging.getLogger(__name__)

_LARGEST_REVIEW = 8 * 1024 * 1024  # two objects of the largest size that the API accepts, and their frame


@contextlib.asynccontextmanager
async def serving(host: str, port: int, identity: Identity, judge: Judge, convert: Convert) -> AsyncIterator[int]:
    """Serve during the block and yield the port, which the kernel chooses for 0. Raises OSError."""
    app = web.Application(client_max_size=_LARGEST_REVIEW)
    answer_as_go(app)
    app.router.add_post("/convert", _handler(lambda body: answer_conversion(body, convert)))
    app.router.add_post("/validate{kind:.*}", _handler(lambda body: answer_admission(body, judge)))
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, ssl_context=_context(identity)).start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def _handler(answer: Callable[[bytes], Json]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        try:
            reply = answer(await request.read())
        except BadReview as error:
            return web.Response(status=400, text=f"{error}\n")
        return web.Response(body=msgspec.json.encode(reply), content_type="application/json")

    return handle


def _context(identity: Identity) -> ssl.SSLContext:
    context = DEFAULT_OFFER.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    load_certificate(context, identity.certificate + identity.key)
    return context
