"""HTTP requests of probes and lifecycle hooks: one connection for each. `handlers.py` calls it.

`go_urls.py` and `http_messages.py` decide what is sent. A pod's answer is bounded: its head, and the part of its body
that is read.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port
from bridgehead.tls_failures import is_plain_answer

from .go_urls import Url, parse_url, resolve, to_text
from .http_messages import Head, Headers, headers_of_redirect, parse_head, render_request

_MAX_REQUESTS = 10  # with those that follow redirects
_MAX_HEAD_BYTES = 64 << 10
_MAX_BODY_BYTES = 10 << 10  # a kubelet reads no more
_MAX_INFORMATIONAL = 5  # responses 1xx before the final one
_TIMEOUT = "context deadline exceeded"
_REDIRECTS = (301, 302, 303, 307, 308)


class Response(NamedTuple):
    """The last response. `body`: its first bytes, at most 10 KiB."""

    status: int
    body: bytes


class RequestFailed(Exception):
    """No response: the text is Go's, with the URL. `is_plain`: the server does not speak TLS."""

    def __init__(self, url: Url | str, why: str, *, is_plain: bool = False) -> None:
        super().__init__(f'Get "{to_text(str(url))}": {why}')
        self.is_plain = is_plain


class BodyFailed(Exception):
    """The body of the response is incomplete."""


class Requests:
    """Sends requests. `describe`: the text of an error of a connection."""

    def __init__(self, describe: Callable[[OSError], str]) -> None:
        self._describe = describe

    @cached_property
    def _unverified(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE  # Kubernetes' probes skip verification
        return context

    async def get(self, url: Url, headers: Headers, extra: tuple[tuple[str, str], ...], timeout: float) -> Response:
        """GET a URL, following redirects to the same host name. Raises RequestFailed and BodyFailed.

        A redirect to another host is the last response. `timeout`: seconds for everything.
        """
        heads: list[Head] = []
        try:
            async with asyncio.timeout(timeout):
                return await self._follow(url, headers, extra, heads)
        except TimeoutError:
            if heads:
                raise BodyFailed(f"{_TIMEOUT} (Client.Timeout or context cancellation while reading body)") from None
            raise RequestFailed(url, f"{_TIMEOUT} (Client.Timeout exceeded while awaiting headers)") from None

    async def _follow(
        self, url: Url, headers: Headers, extra: tuple[tuple[str, str], ...], heads: list[Head]
    ) -> Response:
        """Return the last response, and add its head to `heads` before the body is read."""
        sent, host, location = headers, headers.get("Host", [""])[0], ""
        for _ in range(_MAX_REQUESTS):
            head, reader, writer = await self._exchange(url, host, sent, extra)
            try:
                location = head.first("location") if head.status in _REDIRECTS else ""
                target = _resolve(url, location) if location else url
                if not location or target.host_name != url.host_name:
                    heads.append(head)
                    return Response(head.status, await _read_body(reader, head))
            finally:
                writer.transport.abort()
            if parse_url(location).scheme:
                host = ""  # the caller's own Host stays for a relative redirect only
            sent = headers_of_redirect(headers, url, target)
            url = target
        raise RequestFailed(location, f"stopped after {_MAX_REQUESTS} redirects")

    async def _exchange(
        self, url: Url, host: str, headers: Headers, extra: tuple[tuple[str, str], ...]
    ) -> tuple[Head, asyncio.StreamReader, asyncio.StreamWriter]:
        if not url.host:
            raise RequestFailed(url, "http: no Host in request URL")
        try:
            request, port = render_request(url, host or url.host, headers, extra), url.port
        except ValueError as error:
            raise RequestFailed(url, str(error)) from error
        if url.scheme not in ("http", "https"):
            raise RequestFailed(url, f'unsupported protocol scheme "{url.scheme}"')
        reader, writer = await self._connect(url, port)
        try:
            writer.write(request)
            return await _read_head(reader), reader, writer
        except (ValueError, EOFError) as error:
            writer.transport.abort()
            raise RequestFailed(url, str(error)) from error
        except ssl.SSLError as error:
            writer.transport.abort()
            raise _tls_failure(url, error) from error
        except OSError as error:
            writer.transport.abort()
            raise RequestFailed(url, self._describe(error).replace("connect:", "read:", 1)) from error
        except BaseException:
            writer.transport.abort()
            raise

    async def _connect(self, url: Url, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name = url.host_name
        try:
            return await asyncio.open_connection(
                name, port, ssl=self._unverified if url.scheme == "https" else None, limit=_MAX_HEAD_BYTES
            )
        except socket.gaierror as error:
            raise RequestFailed(url, f"dial tcp: lookup {to_text(name)}: no such host") from error
        except ssl.SSLError as error:
            raise _tls_failure(url, error) from error
        except ConnectionResetError as error:  # in the handshake
            raise RequestFailed(url, "EOF" if error.errno is None else "read: connection reset by peer") from error
        except OSError as error:
            dialled = join_host_port(to_text(name), port)
            raise RequestFailed(url, f"dial tcp {dialled}: {self._describe(error)}") from error
        except UnicodeError as error:  # no name of a host
            raise RequestFailed(url, f"dial tcp: lookup {to_text(name)}: no such host") from error


def _tls_failure(url: Url, error: ssl.SSLError) -> RequestFailed:
    if is_plain_answer(error):
        return RequestFailed(url, "http: server gave HTTP response to HTTPS client", is_plain=True)
    return RequestFailed(url, f"tls: {error.reason or error}")


def _resolve(url: Url, location: str) -> Url:
    try:
        return resolve(url, parse_url(location))
    except ValueError as error:
        raise RequestFailed(url, f"failed to parse Location header {to_text(location)!r}: {error}") from error


async def _read_head(reader: asyncio.StreamReader) -> Head:
    """Read the head of the first response that is not informational. Raises ValueError and EOFError."""
    for _ in range(_MAX_INFORMATIONAL + 1):
        lines: list[bytes] = []
        size = 0
        while True:
            try:
                line = await reader.readuntil(b"\n")
            except asyncio.IncompleteReadError as error:
                broken = "net/http: HTTP/1.x transport connection broken: unexpected EOF"
                raise EOFError(broken if lines or error.partial else "EOF") from error
            except asyncio.LimitOverrunError as error:
                raise ValueError(_TOO_LONG) from error
            if line in (b"\r\n", b"\n") and lines:
                break
            lines.append(line)
            size += len(line)
            if size > _MAX_HEAD_BYTES:
                raise ValueError(_TOO_LONG)
        head = parse_head(lines)
        if not 100 <= head.status < 200:
            return head
    raise ValueError("net/http: too many 1xx informational responses")


_TOO_LONG = f"net/http: server response headers exceeded {_MAX_HEAD_BYTES} bytes; aborted"


async def _read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """Read the body, or its first 10 KiB. Raises BodyFailed."""
    try:
        if head.is_chunked:
            return await _read_chunks(reader)
        length = head.content_length
        if length is not None:
            return await reader.readexactly(min(length, _MAX_BODY_BYTES))
        found = bytearray()
        while len(found) < _MAX_BODY_BYTES and (data := await reader.read(_MAX_BODY_BYTES - len(found))):
            found += data
        return bytes(found)
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
        is_short = isinstance(error, asyncio.IncompleteReadError)
        raise BodyFailed("unexpected EOF" if is_short else "malformed chunked encoding") from error
    except OSError as error:
        raise BodyFailed("read: connection reset by peer") from error


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    found = bytearray()
    while len(found) < _MAX_BODY_BYTES:
        size = int((await reader.readuntil(b"\n")).partition(b";")[0].strip(), 16)
        if size < 0:
            raise ValueError("negative size of a chunk")
        if size == 0:
            break
        found += await reader.readexactly(min(size, _MAX_BODY_BYTES - len(found)))
        if len(found) < _MAX_BODY_BYTES:
            await reader.readexactly(2)
    return bytes(found)
