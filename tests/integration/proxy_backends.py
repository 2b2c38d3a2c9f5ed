"""Servers behind the API server's proxy, in a test's own namespace, and the objects that lead to them."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import subprocess
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from .api_world import ApiWorld

POD_IP = "10.244.1.5"

PAGE = '<a href="/rewriteme">test</a>'


async def echo(request: web.Request) -> web.Response:
    """Describe the request."""
    body = await request.read()
    seen = {
        "method": request.method,
        "path": request.raw_path,
        "headers": [(name.lower(), value) for name, value in request.headers.items()],
        "length": len(body),
    }
    return web.json_response(seen, headers={"Access-Control-Allow-Origin": "*", "X-Backend": "echo"})


async def page(_: web.Request) -> web.Response:
    return web.Response(text=PAGE, content_type="text/html")


async def zipped(_: web.Request) -> web.Response:
    body = gzip.compress(PAGE.encode() * 20_000)
    return web.Response(body=body, content_type="text/html", headers={"Content-Encoding": "gzip"})


async def redirect(_: web.Request) -> web.Response:
    raise web.HTTPFound("/elsewhere/?a=1")


async def ticks(request: web.Request) -> web.StreamResponse:
    """Send an event, and the next one when the client's next request line has come."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    async for line in request.content:
        await response.write(b"data: " + line + b"\n")
    return response


async def large(_: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    response.content_length = 8 << 20
    await response.prepare(_)
    for _piece in range(8):
        await response.write(bytes(1 << 20))
    return response


async def breaks(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"half")
    assert request.transport is not None
    request.transport.abort()
    return response


async def socket(request: web.Request) -> web.WebSocketResponse:
    """Echo WebSocket messages, the first one with the request's headers."""
    messages = web.WebSocketResponse(protocols=("chat",))
    await messages.prepare(request)
    await messages.send_str(json.dumps(sorted(name.lower() for name in request.headers)))
    async for message in messages:
        if message.type is web.WSMsgType.TEXT:
            await messages.send_str(message.data)
        else:
            await messages.send_bytes(message.data)
    return messages


async def teapot(_: web.Request) -> web.Response:
    return web.Response(status=418, text="no sockets here")


async def unnamed(_: web.Request) -> web.Response:
    return web.Response(status=599)


class Never:
    """A page that never ends, and begins only if the query asks for it."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.ended = asyncio.Event()

    async def serve(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        try:
            if request.query_string:
                await response.prepare(request)
                await response.write(b"x")
            self.began.set()
            await asyncio.Event().wait()
        finally:
            self.ended.set()
        return response


def application(never: Never | None = None) -> web.Application:
    app = web.Application(client_max_size=64 << 20)
    app.router.add_get("/never", (never or Never()).serve)
    app.router.add_get("/page", page)
    app.router.add_get("/dir/", page)
    app.router.add_get("/zipped", zipped)
    app.router.add_get("/redirect", redirect)
    app.router.add_post("/ticks", ticks)
    app.router.add_get("/large", large)
    app.router.add_get("/breaks", breaks)
    app.router.add_get("/socket", socket)
    app.router.add_get("/teapot", teapot)
    app.router.add_get("/unnamed", unnamed)
    app.router.add_route("*", "/{path:.*}", echo)
    return app


@contextlib.asynccontextmanager
async def backend(address: str, port: int, app: web.Application, **options: Any) -> AsyncIterator[None]:
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port, **options).start()
        yield
    finally:
        await runner.cleanup()


def add_addresses(*addresses: str) -> None:
    """Give addresses to the loopback of the test's namespace."""
    for address in addresses:
        subprocess.run(["ip", "address", "add", f"{address}/32", "dev", "lo"], check=True)


async def start_kubectl(world: ApiWorld, *arguments: str) -> asyncio.subprocess.Process:
    """Start kubectl as the admin."""
    options = (f"--server={world.config.server}", "--token=admin", "--insecure-skip-tls-verify")
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/run"}
    return await asyncio.create_subprocess_exec(
        "kubectl", *options, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )


async def kubectl(world: ApiWorld, *arguments: str, fails: bool = False) -> str:
    """Run kubectl as the admin; return its output, or its errors."""
    process = await start_kubectl(world, *arguments)
    output, errors = await process.communicate()
    assert (process.returncode != 0) == fails, errors.decode()
    return (errors if fails else output).decode()
