"""TLS to the API server: certificates, and sessions that later connections resume. Used by `credentials`."""

from __future__ import annotations

import ssl
import weakref
from asyncio import sslproto
from typing import Any

from bridgehead.tls_certificates import load_certificate

from .errors import ConfigError
from .kubeconfig import ClientConfig

# asyncio allocates a zeroed buffer of this size, by default 256 KiB, for each TLS connection and keeps it until the
# connection ends. Most connections are idle watches. No TLS record is longer, so bigger buffers save only calls.
sslproto.SSLProtocol.max_size = 16 * 1024


def client_context(config: ClientConfig) -> ssl.SSLContext:
    """Return the TLS settings of a client. Raises ConfigError."""
    # `create_default_context` would parse the system's CA certificates, which costs megabytes in every process.
    context = _ResumingContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if config.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif config.ca is not None:
            context.load_verify_locations(cadata=config.ca.decode("ascii"))
        else:
            context.load_default_certs()
        if config.client_certificate is not None and config.client_key is not None:
            load_certificate(context, config.client_certificate + b"\n" + config.client_key)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{config.server}: a certificate or key in the kubeconfig is damaged: {error}") from error
    return context


class _ResumingContext(ssl.SSLContext):
    """A client's context. Each connection resumes the latest session that has a ticket.

    An informer has a connection of its own for its watch, and most connections are made when a process starts. Resumed,
    a connection takes a third of the processor time on both sides, because nobody signs or verifies a certificate.
    Python's ssl resumes sessions only if it is given one, and asyncio gives none. A server that does not know the
    ticket, because it has started again or is another one of several, makes a new session.
    """

    _resumable: ssl.SSLSession | None = None
    _newest: weakref.ref[ssl.SSLObject] | None = None

    def wrap_bio(self, *args: Any, **settings: Any) -> ssl.SSLObject:
        """Return the TLS of a new connection; asyncio and uvloop call this method."""
        newest = self._newest() if self._newest is not None else None
        # A ticket comes after the handshake, so the session is read when the next connection is made. During the
        # handshake there is no version yet, and reading the session fails.
        if newest is not None and newest.version() is not None:
            session = newest.session
            if session is not None and session.has_ticket:
                self._resumable = session
        tls = super().wrap_bio(*args, **{**settings, "session": self._resumable})
        self._newest = weakref.ref(tls)
        return tls
