"""Registries on loopback: Debian's docker-registry, and a small one that fails in the ways in which registries fail."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from tests.image_files import Blob, BuiltImage

from .api_world import free_ports

DEADLINE = 100.0
USER, PASSWORD = "reader", "secret"
BASIC = f"Basic {base64.b64encode(f'{USER}:{PASSWORD}'.encode()).decode()}"
# bcrypt of PASSWORD, which docker-registry demands.
_HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n"


@contextlib.contextmanager
def docker_registry(directory: Path, *, has_password: bool = False, authentication: str = "") -> Iterator[str]:
    """Run docker-registry; yields its address (`127.0.0.1:PORT`). Tests have the marker needs("docker-registry").

    `authentication` is a part of its configuration.
    """
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    (directory / "htpasswd").write_text(_HTPASSWD)
    if has_password:
        authentication = f"auth: {{htpasswd: {{realm: test, path: {directory}/htpasswd}}}}\n"
    (directory / "config.yml").write_text(
        "version: 0.1\nlog: {level: error, accesslog: {disabled: true}}\n"
        f"storage: {{filesystem: {{rootdirectory: {directory}/data}}}}\n"
        f"http: {{addr: '{address}'}}\n{authentication}"
    )
    argv = ["docker-registry", "serve", str(directory / "config.yml")]
    with (
        open(directory / "registry.log", "wb") as log,
        subprocess.Popen(argv, stdout=log, stderr=log) as process,
    ):
        try:
            _wait_for_answer(f"http://{address}/v2/", process)
            yield address
        finally:
            process.kill()


def _wait_for_answer(url: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + DEADLINE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            opener.open(url, timeout=DEADLINE).close()
            return
        except urllib.error.HTTPError as error:
            error.close()
            return
        except OSError:
            time.sleep(0.02)
    raise AssertionError(f"docker-registry does not answer at {url}")


Fault = Callable[[web.Request, "FaultyRegistry"], Awaitable[web.StreamResponse | None]]


@dataclass
class FaultyRegistry:
    """A registry with images in memory. Each request goes to the first of `faults` that answers it.

    `requests` are method and path, with the count of each; `headers` those of each request, in their order.
    """

    manifests: dict[str, Blob] = field(default_factory=dict)  # by tag and by digest
    blobs: dict[str, Blob] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    requests: Counter[str] = field(default_factory=Counter)
    headers: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    address: str = ""

    def add(self, tag: str, image: BuiltImage) -> None:
        self.manifests[tag] = self.manifests[image.manifest.digest] = image.manifest
        self.blobs |= {blob.digest: blob for blob in image.blobs}

    @contextlib.asynccontextmanager
    async def serving(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultyRegistry]:
        server = web.Server(self._answer)
        runner = web.ServerRunner(server)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        self.address = f"{host}:{port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: Any) -> web.StreamResponse:
        key = f"{request.method} {request.path}"
        self.requests[key] += 1
        self.headers.append((key, dict(request.headers)))
        for fault in list(self.faults):
            answer = await fault(request, self)
            if answer is not None:
                return answer
        return self.serve(request)

    def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer as a registry without faults."""
        kind, name = request.path.split("/")[-2:]
        found = (self.manifests if kind == "manifests" else self.blobs).get(name)
        if found is None:
            return web.json_response({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "unknown"}]}, status=404)
        content, start = found.content, 0
        if wanted := request.headers.get("Range"):
            start = int(wanted.removeprefix("bytes=").rstrip("-"))
        headers = {"Content-Type": found.media_type}
        if wanted:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        return web.Response(body=content[start:], headers=headers, status=206 if wanted else 200)


def is_blob(request: web.BaseRequest) -> bool:
    return "/blobs/" in request.path


def times(count: int, fault: Fault) -> Fault:
    """A fault that occurs so many times."""
    left = count

    async def answer(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        nonlocal left
        if left <= 0:
            return None
        found = await fault(request, registry)
        left -= found is not None
        return found

    return answer


def status(code: int, applies: Callable[[web.BaseRequest], bool] = is_blob, **headers: str) -> Fault:
    """Answer with this status. `headers` have underscores for hyphens."""

    async def answer(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
        if not applies(request):
            return None
        body = {"errors": [{"code": "TOOMANYREQUESTS", "message": "slow down"}]}
        return web.json_response(
            body, status=code, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )

    return answer


async def break_off(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
    """Break the connection in the middle of a blob."""
    if not is_blob(request):
        return None
    whole = registry.serve(request)
    body = bytes(whole.body)  # type: ignore[attr-defined]
    response = web.StreamResponse(status=whole.status, headers={**whole.headers, "Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[: len(body) // 2])
    await asyncio.sleep(0)
    if request.transport is not None:
        request.transport.abort()
    return response


async def in_two_pieces(request: web.BaseRequest, body: bytes) -> web.StreamResponse:
    """Answer with a body that comes in two pieces, a moment apart."""
    response = web.StreamResponse(headers={"Content-Length": str(len(body))})
    await response.prepare(request)
    await response.write(body[:1])
    await asyncio.sleep(0.05)
    await response.write(body[1:])
    return response


async def truncate(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
    """Serve only half of a blob, as if that were all."""
    if not is_blob(request):
        return None
    body = registry.blobs[request.path.rpartition("/")[2]].content
    return web.Response(body=body[: len(body) // 2], status=200)


async def falsify(request: web.Request, registry: FaultyRegistry) -> web.StreamResponse | None:
    """Serve other content of the same size."""
    if not is_blob(request):
        return None
    whole = registry.serve(request)
    body = bytes(whole.body)  # type: ignore[attr-defined]
    return web.Response(body=bytes(len(body)), status=whole.status, headers=whole.headers)
