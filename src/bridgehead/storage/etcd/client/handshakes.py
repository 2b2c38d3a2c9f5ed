"""Reasons for which a TLS connection to etcd fails that gRPC does not report.

A server that refuses the client's certificate sends an alert after the handshake (TLS 1.3), of which gRPC only reports
that the connection has ended. Therefore a handshake is repeated here with the same files.
"""

from __future__ import annotations

import asyncio
import ssl

from bridgehead.tls_failures import is_plain_answer

from .errors import EtcdError, NotEtcd
from .failures import certificate_problem
from .settings import Endpoint, EtcdSettings

_SECONDS = 3.0


async def reason_of_failure(endpoint: Endpoint, settings: EtcdSettings) -> EtcdError | None:
    """Return the error that a handshake with the endpoint ends with, None if it is none of certificates or of TLS."""
    host, _, port = endpoint.target.rpartition(":")
    try:
        async with asyncio.timeout(_SECONDS):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=_context(settings))
            try:
                await reader.read(1)  # etcd's first frame, or the alert
            finally:
                writer.close()
    except ssl.SSLError as error:
        if is_plain_answer(error):
            return NotEtcd(f"the server at {endpoint.url} does not speak TLS; use http://, or etcd's port for clients")
        if settings.cert_file is None and "alert" in str(error).lower():  # Go's alert for none is bad_certificate
            return certificate_problem("certificate required", endpoint.url)
        return certificate_problem(str(error), endpoint.url)
    except (OSError, TimeoutError):
        return None
    return None


def _context(settings: EtcdSettings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca_file)
    context.set_alpn_protocols(["h2"])
    if settings.cert_file is not None:
        context.load_cert_chain(settings.cert_file, settings.key_file)
    return context
