"""Access to the pages of the balancer's processes: metrics by TLS and a token, as with MetalLB.

Probes have no credential and need none. /metrics and /status show which Services and nodes there are, to whoever the
API server grants it (TokenReview, and SubjectAccessReview for `get` of the path). A token in plain text is not even
looked at. Programs on the machine itself get an answer at the port without TLS, as behind a kube-rbac-proxy.
Source: controller-runtime, pkg/metrics/filters (answers); MetalLB 0.16, which replaced kube-rbac-proxy by it.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import ssl
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

from bridgehead.client.access_reviews import AccessReviews, bearer_token
from bridgehead.client.errors import ClientError
from bridgehead.pages import Page, Request
from bridgehead.tls_certificates import load_certificate
from bridgehead.tls_offers import DEFAULT_OFFER

from .admission.server_identity import make_identity

log = logging.getLogger(__name__)

SECURE_PORT: Final = 9120  # as that of MetalLB's kube-rbac-proxy
_OPEN: Final = frozenset({"/healthz", "/readyz", "/livez", "/started"})
_STATUS: Final = "/status"  # `bridgehead balancer status` reads it through the API server's proxy of pods


class PageAccess:
    """Decides on requests. `api_servers` returns the addresses from which the API server's proxy connects."""

    def __init__(
        self, reviews: AccessReviews, api_servers: Callable[[], Collection[str]] = frozenset, secure_port: int = 0
    ) -> None:
        self._reviews = reviews
        self._api_servers = api_servers
        self._secure_port = secure_port

    async def __call__(self, request: Request) -> Page | None:
        """Return the answer to a client without the right, None to one that has it."""
        if request.path in _OPEN or _is_loopback(request.peer):
            return None
        if request.path == _STATUS and request.peer in self._api_servers():
            return None  # the API server has checked the right to the pod's proxy
        if not request.is_secure:
            where = f"at port {self._secure_port}" if self._secure_port else "(no port with TLS is configured)"
            return Page(403, f"{request.path} needs TLS and a token, {where}\n".encode())
        token = bearer_token(request.authorization)
        return await self._refusal(token, request.path) if token else Page(401, b"Unauthorized\n")

    async def _refusal(self, token: str, path: str) -> Page | None:
        try:
            client = await self._reviews.authenticate(token)
            if client is None:
                return Page(401, b"Unauthorized\n")
            if await self._reviews.may_access_path(client, "get", path):
                return None
        except ClientError as error:
            log.warning("cannot decide who may read %s: %s", path, error)
            return Page(500, b"Authentication failed\n")
        return Page(403, f"Authorization denied for user {client.name}\n".encode())


def server_context(certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return the settings of the port with TLS. Without files, the certificate is one of its own.

    That one is made at the first connection, because to make it takes a tenth of a second. Raises OSError and
    ssl.SSLError.
    """
    context = DEFAULT_OFFER.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    if certificate is not None and key is not None:
        context.load_cert_chain(certificate, key)
        return context

    @functools.cache
    def own() -> ssl.SSLContext:
        made = DEFAULT_OFFER.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        identity = make_identity(["localhost"])
        load_certificate(made, identity.certificate + identity.key)
        return made

    def choose(connection: ssl.SSLObject, name: str | None, _: ssl.SSLContext) -> None:
        connection.context = own()  # also for clients that name no server

    context.sni_callback = choose
    return context


def _is_loopback(peer: str) -> bool:
    try:
        return ipaddress.ip_address(peer).is_loopback
    except ValueError:
        return False
