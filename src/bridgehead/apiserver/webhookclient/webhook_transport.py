"""HTTPS connections to webhooks. Imported with the first call, because most servers call none."""

from __future__ import annotations

import errno
import ssl
from collections import OrderedDict

import aiohttp
from yarl import URL

from bridgehead.apiserver.service_endpoints import Address
from bridgehead.objects.addresses import join_host_port
from bridgehead.tls_certificates import verifying_context

from .errors import CallFailed, NotConfigured
from .webhook_location import ClientConfig

_MAX_CONNECTIONS, _MAX_CONNECTIONS_PER_HOST = 512, 64
_IDLE_SECONDS = 90.0
_MAX_CONTEXTS = 200
_HEADERS = {"Content-Type": "application/json", "Accept": "application/json, */*", "Accept-Encoding": "identity"}

# The texts of Go's net package.
_DIAL_ERRORS = {
    errno.ECONNREFUSED: "connection refused",
    errno.EHOSTUNREACH: "no route to host",
    errno.ENETUNREACH: "network is unreachable",
    errno.ETIMEDOUT: "connection timed out",
    errno.ECONNRESET: "connection reset by peer",
}
# The texts of Go's crypto/x509, by OpenSSL's X509_V_ERR codes.
_UNKNOWN_AUTHORITY = "certificate signed by unknown authority"
_VERIFY_ERRORS = {
    9: "certificate has expired or is not yet valid",
    10: "certificate has expired or is not yet valid",
    18: _UNKNOWN_AUTHORITY,
    19: _UNKNOWN_AUTHORITY,
    20: _UNKNOWN_AUTHORITY,
    21: _UNKNOWN_AUTHORITY,
}


class Transport:
    """Connections to webhooks. An answer may have `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._contexts: OrderedDict[bytes, ssl.SSLContext] = OrderedDict()
        connector = aiohttp.TCPConnector(
            limit=_MAX_CONNECTIONS, limit_per_host=_MAX_CONNECTIONS_PER_HOST, keepalive_timeout=_IDLE_SECONDS
        )
        # The caller bounds the time of the whole call.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=None)
        self._session = aiohttp.ClientSession(
            connector=connector, timeout=timeout, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )

    async def post(self, url: str, address: Address | None, config: ClientConfig, body: bytes) -> tuple[int, bytes]:
        """Return status and body of the answer. `address` is the chosen endpoint of a Service.

        Raises `CallFailed`.
        """
        context = self._context(config.ca_bundle)
        try:
            return await self._post(url, address, config, context, body)
        except aiohttp.ServerDisconnectedError:
            # The connection was idle, and the webhook closed it meanwhile. Webhooks may be called twice.
            pass
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failed(url, address, error) from error
        try:
            return await self._post(url, address, config, context, body)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _failed(url, address, error) from error

    async def close(self) -> None:
        await self._session.close()

    async def _post(
        self, url: str, address: Address | None, config: ClientConfig, context: ssl.SSLContext, body: bytes
    ) -> tuple[int, bytes]:
        target, headers, server_name = URL(url, encoded=True), _HEADERS, None
        if address is not None and config.service is not None:
            headers = {**_HEADERS, "Host": f"{config.service.server_name}:{config.service.port}"}
            server_name = config.service.server_name
            target = URL(f"https://{join_host_port(*address)}{target.raw_path_qs}", encoded=True)
        async with self._session.post(
            target, data=body, headers=headers, ssl=context, server_hostname=server_name, allow_redirects=False
        ) as response:
            pieces = bytearray()
            async for piece in response.content.iter_any():
                pieces += piece
                if len(pieces) > self._max_bytes:
                    response.close()
                    raise CallFailed(f'Post "{url}": the answer is larger than {self._max_bytes} bytes')
            return response.status, bytes(pieces)

    def _context(self, bundle: bytes) -> ssl.SSLContext:
        """Return the TLS settings for a bundle of authorities. Raises `NotConfigured`."""
        context = self._contexts.get(bundle)
        if context is not None:
            self._contexts.move_to_end(bundle)
            return context
        try:
            context = verifying_context(cadata=bundle.decode("ascii") or None)
        except (ssl.SSLError, UnicodeDecodeError, ValueError):
            raise NotConfigured("unable to load root certificates: unable to parse bytes as PEM block") from None
        context.hostname_checks_common_name = False  # as in Go
        self._contexts[bundle] = context
        if len(self._contexts) > _MAX_CONTEXTS:
            self._contexts.popitem(last=False)
        return context


def _failed(url: str, address: Address | None, error: Exception) -> CallFailed:
    return CallFailed(f'Post "{url}": {_describe(url, address, error)}')


def _describe(url: str, address: Address | None, error: Exception) -> str:
    """Return the text that Go's HTTP client has for the error."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        cause = error.certificate_error
        if isinstance(cause, ssl.SSLCertVerificationError):
            text = _VERIFY_ERRORS.get(cause.verify_code) or cause.verify_message
            return f"tls: failed to verify certificate: x509: {text}"
        return f"tls: {cause}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    cause_of = getattr(error, "os_error", error)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {URL(url).host}: no such host"
    if isinstance(cause_of, OSError) and cause_of.errno in _DIAL_ERRORS:
        parts = URL(url)
        host, port = address or (parts.host or "", parts.port or 443)
        return f"dial tcp {join_host_port(host, port)}: connect: {_DIAL_ERRORS[cause_of.errno]}"
    return str(error) or type(error).__name__
