"""Authentication and authorization of the kubelet server's clients, by their certificates."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

from aiohttp import web

ALLOWED_NAMES = frozenset({"kube-apiserver-kubelet-client"})
ALLOWED_GROUPS = frozenset({"system:masters", "kubeadm:cluster-admins"})


def server_context(certificate: Path, key: Path, client_ca: Path) -> ssl.SSLContext:
    """Return the server's TLS context. Raises OSError and ssl.SSLError for unusable files."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(client_ca)
    context.verify_mode = ssl.CERT_OPTIONAL  # /healthz needs no certificate
    return context


def is_allowed(certificate: dict[str, Any] | None) -> bool:
    """Whether the owner of a verified certificate (in the form of `ssl.SSLSocket.getpeercert`) may access pods."""
    if not certificate:
        return False
    attributes = [pair for part in certificate.get("subject", ()) for pair in part]
    names = {value for key, value in attributes if key == "commonName"}
    groups = {value for key, value in attributes if key == "organizationName"}
    return bool(names & ALLOWED_NAMES or groups & ALLOWED_GROUPS)


@web.middleware
async def authorize(request: web.Request, handler: Any) -> web.StreamResponse:
    """Middleware: refuse requests without an allowed certificate, except for /healthz."""
    if request.path != "/healthz" and not request.path.startswith("/healthz/"):
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        if not certificate:
            return web.Response(status=401, text="Unauthorized")
        if not is_allowed(certificate):
            return web.Response(
                status=403, text="Forbidden: this certificate names neither the API server nor an admin"
            )
    response: web.StreamResponse = await handler(request)
    return response
