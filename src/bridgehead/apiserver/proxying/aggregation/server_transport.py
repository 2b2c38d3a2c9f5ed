"""Connections to the servers of aggregated APIs: TLS, and the headers that name the user.

The server behind trusts these headers because of this server's client certificate.
Source: Kubernetes "Authenticating", authenticating proxy; client-go `transport/round_trippers.go`.
"""

from __future__ import annotations

import ssl
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.proxying.headers import escape_extra_key
from bridgehead.tls_certificates import check_certificate

from .api_service_status import RemoteApi

_MAX_CONTEXTS = 64

# The server's own user, for checks and for documents.
AGGREGATOR = User("system:kube-aggregator", ("system:masters",))


@dataclass(frozen=True)
class ProxyCertificate:
    """The API server's client certificate for the servers of aggregated APIs (PEM files)."""

    certificate: Path
    key: Path


class Transport:
    """TLS settings for aggregated APIs. `certificate` None: the servers get no proof of who asks."""

    def __init__(self, certificate: ProxyCertificate | None) -> None:
        self._certificate = certificate
        self._contexts: OrderedDict[tuple[bytes, bool], ssl.SSLContext] = OrderedDict()

    def tls(self, api: RemoteApi, *, verifies: bool = True) -> ssl.SSLContext:
        """Return the settings for an API. Raises ValueError for an unusable caBundle, OSError for missing files."""
        is_insecure = api.is_insecure or not verifies
        key = (b"" if is_insecure else api.authority, is_insecure)
        if key not in self._contexts:
            self._contexts[key] = self._context(*key)
            if len(self._contexts) > _MAX_CONTEXTS:
                self._contexts.popitem(last=False)
        self._contexts.move_to_end(key)
        return self._contexts[key]

    def reload_certificate(self) -> None:
        """Use the client certificate that the files have now, for new connections. Raises OSError."""
        if self._certificate is not None:
            # A certificate and a key that do not belong together are refused here, while the earlier ones are in use.
            check_certificate(self._certificate.certificate, self._certificate.key)
        self._contexts.clear()

    def _context(self, authority: bytes, is_insecure: bool) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if is_insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif authority:
            try:
                context.load_verify_locations(cadata=authority.decode("ascii"))
            except (ssl.SSLError, UnicodeDecodeError):
                raise ValueError("unable to load root certificates: unable to parse bytes as PEM block") from None
        else:
            context.load_default_certs()
        if self._certificate is not None:
            context.load_cert_chain(self._certificate.certificate, self._certificate.key)
        return context


def user_headers(user: User) -> tuple[tuple[bytes, bytes], ...]:
    """Return the headers that name a user to a server that trusts this one."""
    headers = [("x-remote-user", user.name)]
    if user.uid:
        headers.append(("x-remote-uid", user.uid))
    headers += [("x-remote-group", group) for group in user.groups]
    for key, values in user.extra.items():
        headers += [(f"x-remote-extra-{escape_extra_key(key)}".lower(), value) for value in values]
    return tuple((name.encode(), value.encode()) for name, value in headers)
