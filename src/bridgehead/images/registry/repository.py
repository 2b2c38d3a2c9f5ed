"""One repository of a registry: its manifests and blobs, from the first server that has them.

Source: OCI distribution specification 1.1, "Pull".
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar
from urllib.parse import urlencode, urlsplit

import aiohttp
from multidict import CIMultiDict

from bridgehead.images import manifests
from bridgehead.images.errors import BadImage, Denied, ImageError, NotFound, PullFailed, Unreachable
from bridgehead.images.manifests import Descriptor
from bridgehead.images.references import Reference

from . import hosts_toml, retries
from .authorizer import ACCESS_DENIED, authorize
from .docker_config import Credential
from .hosts_toml import Endpoint
from .transport import Transport, describe, origin, read_bounded, shown_url

T = TypeVar("T")

_CHUNK: Final = 1 << 20  # bytes
_ACCEPT: Final = ", ".join((*manifests.MANIFESTS, *manifests.INDEXES))


class Sink(Protocol):
    """A file that a blob is downloaded to. `size` is what it has already, in bytes."""

    size: int

    def write(self, data: bytes) -> None: ...

    def restart(self) -> None:
        """Forget everything that was written."""
        ...


class Repository:
    """The repository of `reference` at `endpoints`, which are tried in their order, for one pull."""

    def __init__(
        self,
        transport: Transport,
        reference: Reference,
        endpoints: Sequence[Endpoint],
        credential: Credential | None = None,
    ) -> None:
        self._transport = transport
        self._reference = reference
        self._endpoints = endpoints
        self._credential = credential
        self._settled: dict[Endpoint, Endpoint] = {}  # with the schemes that the servers speak
        self._authorizations: dict[str, str] = {}  # by the endpoint's URL
        self._authorizing = asyncio.Lock()

    def check_reachable(self) -> None:
        """Raises `Unreachable` when no endpoint may be tried."""
        failures = []
        for endpoint in self._endpoints:
            try:
                self._transport.check_reachable(endpoint.url)
                return
            except Unreachable as error:
                failures.append(error)
        raise failures[-1]

    async def resolve(self) -> tuple[Descriptor, bytes]:
        """Return the index or manifest that the reference names, with its digest. Raises `ImageError`."""
        reference = self._reference

        async def fetch(endpoint: Endpoint) -> tuple[Descriptor, bytes]:
            descriptor, content = await self._fetch_document(endpoint, reference.target)
            if reference.digest:
                manifests.verify(content, reference.digest)
            return descriptor, content

        capability = hosts_toml.PULL if reference.digest else hosts_toml.RESOLVE
        return await self._first_of(capability, f'failed to resolve reference "{reference}"', fetch)

    async def fetch_document(self, descriptor: Descriptor) -> bytes:
        """Return the manifest of a descriptor, verified. Raises `ImageError`."""

        async def fetch(endpoint: Endpoint) -> bytes:
            _, content = await self._fetch_document(endpoint, descriptor.digest)
            manifests.verify(content, descriptor.digest)
            return content

        return await self._first_of(hosts_toml.PULL, f"failed to fetch {descriptor.digest}", fetch)

    async def download(self, descriptor: Descriptor, sink: Sink, on_progress: Callable[[int], None]) -> None:
        """Download a blob, from where `sink` ends; broken downloads are resumed. The caller verifies the digest.

        `on_progress` is called with the numbers of new bytes. Raises `ImageError`.
        """

        async def fetch(endpoint: Endpoint) -> None:
            await self._download(endpoint, descriptor, sink, on_progress)

        await self._first_of(hosts_toml.PULL, f"failed to copy {descriptor.digest}", fetch)

    async def _first_of(self, capability: str, what: str, fetch: Callable[[Endpoint], Awaitable[T]]) -> T:
        """Return what the first endpoint with `capability` has. Raises an error of the kind of the last one's, which is
        the registry's own, with the reasons of all."""
        able = [endpoint for endpoint in self._endpoints if capability in endpoint.capabilities]
        error: ImageError = PullFailed("no configured host may do that")
        reasons = []
        for endpoint in able:
            try:
                return await fetch(await self._settle(endpoint))
            except (PullFailed, BadImage) as failure:
                error = failure
            except (aiohttp.ClientError, TimeoutError) as failure:
                error = PullFailed(describe(failure))
                error.__cause__ = failure
            except ValueError as failure:  # a redirect or a challenge to an address that is none
                error = PullFailed(f"invalid request: {failure}")
                error.__cause__ = failure
            reasons.append(f"{urlsplit(endpoint.url).netloc}: {error}")
        raise type(error)(f"{what}: {'; '.join([*reasons[:-1], str(error)])}") from error

    async def _settle(self, endpoint: Endpoint) -> Endpoint:
        """Raises `ImageError`."""
        if endpoint not in self._settled:
            self._settled[endpoint] = await self._transport.settle(endpoint)
        return self._settled[endpoint]

    async def _fetch_document(self, endpoint: Endpoint, target: str) -> tuple[Descriptor, bytes]:
        url = self._url(endpoint, f"manifests/{target}")
        async with self._get(endpoint, url, {"Accept": _ACCEPT}) as response:
            content = await read_bounded(response, manifests.MAX_DOCUMENT)
            media_type = response.headers.get("Content-Type", "").partition(";")[0].strip()
        return Descriptor(digest=manifests.digest_of(content), size=len(content), media_type=media_type), content

    async def _download(
        self, endpoint: Endpoint, descriptor: Descriptor, sink: Sink, on_progress: Callable[[int], None]
    ) -> None:
        url = self._url(endpoint, f"blobs/{descriptor.digest}")
        failures = restarts = 0
        pace = retries.Pace(time.monotonic())

        def count(size: int) -> None:
            pace.count(size, time.monotonic())
            on_progress(size)

        def restart() -> None:
            nonlocal restarts
            restarts += 1
            if restarts > retries.RESTARTS:  # the bytes of each attempt count as progress
                raise PullFailed("the download breaks off, and the server does not go on where it ended")
            sink.restart()

        while sink.size < descriptor.size:
            before = sink.size
            try:
                is_continued = await self._download_rest(endpoint, url, descriptor, sink, count, restart)
            except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, TimeoutError) as error:
                failures = 1 if sink.size > before else failures + 1  # a download that goes on is no failure
                delay = retries.delay_seconds(failures, "", time.time())
                if delay is None:
                    raise PullFailed(f"the download breaks off: {describe(error)}") from error
                pace.count(0, time.monotonic())
                await asyncio.sleep(delay)
            else:
                if is_continued and sink.size < descriptor.size:
                    raise BadImage(f"{descriptor.digest} has {sink.size} bytes, not {descriptor.size}")

    async def _download_rest(
        self,
        endpoint: Endpoint,
        url: str,
        descriptor: Descriptor,
        sink: Sink,
        on_progress: Callable[[int], None],
        restart: Callable[[], None],
    ) -> bool:
        """Download until the server ends the answer. Returns False when the download has to begin anew."""
        headers = {"Range": f"bytes={sink.size}-"} if sink.size else {}
        async with self._get(endpoint, url, headers, accepted=(200, 206, 416)) as response:
            if sink.size and not _continues(response, sink.size):
                restart()  # the server does not know ranges, or has other content
                if response.status != 200:
                    return False
            async for data in response.content.iter_chunked(_CHUNK):
                if sink.size + len(data) > descriptor.size:
                    raise BadImage(f"{descriptor.digest} has more than {descriptor.size} bytes")
                sink.write(data)
                on_progress(len(data))
        return True

    @contextlib.asynccontextmanager
    async def _get(
        self, endpoint: Endpoint, url: str, headers: dict[str, str], *, accepted: Sequence[int] = (200,)
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """GET with authorization. Raises `ImageError` for any other status than those of `accepted`."""
        for is_last in (False, True):
            used = self._authorizations.get(endpoint.url, "")
            sent = CIMultiDict(endpoint.headers)
            sent.update({**headers, **({"Authorization": used} if used else {})})
            async with self._transport.request("GET", url, endpoint, sent) as response:
                if response.status in accepted:
                    yield response
                    return
                # A server to which the endpoint redirects must not ask for the credentials of the endpoint.
                if response.status != 401 or is_last or origin(str(response.url)) != origin(url):
                    raise await self._refusal(response, url)
                challenges = response.headers.getall("WWW-Authenticate", [])
            async with self._authorizing:  # several layers at once need one token
                if self._authorizations.get(endpoint.url, "") == used:
                    granted = await authorize(
                        self._transport, endpoint, challenges, self._reference.path, self._credential
                    )
                    if not granted or granted == used:
                        raise Denied(_unexpected("GET", url, response))
                    self._authorizations[endpoint.url] = granted

    def _url(self, endpoint: Endpoint, name: str) -> str:
        url = f"{endpoint.url}/{self._reference.path}/{name}"
        if not hosts_toml.is_mirror(endpoint, self._reference.registry):
            return url
        # One mirror can be that of several registries. Source: containerd, core/remotes/docker (`addNamespace`).
        return f"{url}?{urlencode({'ns': self._reference.registry})}"

    async def _refusal(self, response: aiohttp.ClientResponse, url: str) -> ImageError:
        if response.status == 404:
            return NotFound(f"{self._reference}: not found")
        if response.status in (401, 403):
            message = await _server_message(response)
            return Denied(f"{ACCESS_DENIED}: server message: {message or 'insufficient_scope: authorization failed'}")
        message = await _server_message(response)
        return PullFailed(_unexpected("GET", url, response) + (f": {message}" if message else ""))


def _continues(response: aiohttp.ClientResponse, offset: int) -> bool:
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(f"bytes {offset}-")


def _unexpected(method: str, url: str, response: aiohttp.ClientResponse) -> str:
    shown = shown_url(url)
    return f"unexpected status from {method} request to {shown}: {response.status} {response.reason or ''}".rstrip()


async def _server_message(response: aiohttp.ClientResponse) -> str:
    """Return the registry's reason, as `toomanyrequests: You have reached your pull rate limit`, or ""."""
    try:
        content = await read_bounded(response, 1 << 16)
        return manifests.describe_errors(content)
    except (aiohttp.ClientError, TimeoutError, ImageError):
        return ""
