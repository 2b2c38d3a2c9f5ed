"""Authentication and authorization of the kubelet server's clients, as the API server decides them.

A client has a certificate of the cluster's CA or a bearer token. The API server knows whose token it is (TokenReview),
and whether that user may access the node's subresource to which the path belongs (SubjectAccessReview).
Source: Kubernetes "Kubelet authentication/authorization", kubelet `pkg/kubelet/server/auth.go`.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, Protocol

from aiohttp import web

from bridgehead.client.access_reviews import AccessReviews, Client, bearer_token
from bridgehead.client.errors import ClientError
from bridgehead.tls_offers import DEFAULT_OFFER, TlsOffer

log = logging.getLogger(__name__)

# The API server allows them everything that a kubelet serves, so it is not asked.
_ALLOWED_NAMES: Final = frozenset({"kube-apiserver-kubelet-client"})
_ALLOWED_GROUPS: Final = frozenset({"system:masters", "kubeadm:cluster-admins"})

_VERBS: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
# Paths with a subresource of their own. A right to all of "proxy" includes those of the second table.
_SUBRESOURCES: Final = {
    "/stats": "stats",
    "/metrics": "metrics",
    "/logs": "log",
    "/checkpoint": "checkpoint",
    "/statusz": "statusz",
    "/flagz": "configz",
}
_PARTS_OF_PROXY: Final = {"/pods": "pods", "/runningpods": "pods", "/healthz": "healthz", "/configz": "configz"}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Reviews(Protocol):
    """The API server's decisions. Methods raise ClientError."""

    async def authenticate(self, token: str) -> Client | None: ...

    async def is_allowed(self, client: Client, verb: str, subresource: str) -> bool: ...


class NodeReviews:
    """The API server's decisions about the node `node_name`."""

    def __init__(self, reviews: AccessReviews, node_name: str) -> None:
        self.authenticate = reviews.authenticate
        self._reviews = reviews
        self._node_name = node_name

    async def is_allowed(self, client: Client, verb: str, subresource: str) -> bool:
        return await self._reviews.may_access_node(client, self._node_name, verb, subresource)


def server_context(certificate: Path, key: Path, client_ca: Path, offer: TlsOffer = DEFAULT_OFFER) -> ssl.SSLContext:
    """Return the server's TLS context. Raises OSError and ssl.SSLError for unusable files."""
    context = offer.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    context.load_cert_chain(certificate, key)
    context.load_verify_locations(client_ca)
    context.verify_mode = ssl.CERT_OPTIONAL  # others have a token
    return context


def owner_of(certificate: dict[str, Any] | None) -> Client | None:
    """Return the owner of a verified certificate (in the form of `ssl.SSLSocket.getpeercert`)."""
    attributes = [pair for part in (certificate or {}).get("subject", ()) for pair in part]
    names = [value for key, value in attributes if key == "commonName"]
    groups = [value for key, value in attributes if key == "organizationName"]
    return Client(names[0], groups=(*groups, "system:authenticated")) if names else None


def verb_for(method: str) -> str:
    """Return the API's verb for an HTTP method, "" if there is none."""
    return _VERBS.get(method, "")


def subresources_for(path: str) -> tuple[str, ...]:
    """Return the subresources of the Node to which a path belongs; access to one of them is enough."""
    first = "/" + path.removeprefix("/").partition("/")[0]
    if first in _SUBRESOURCES:
        return (_SUBRESOURCES[first],)
    return (_PARTS_OF_PROXY[first], "proxy") if first in _PARTS_OF_PROXY else ("proxy",)


def authorization(reviews: Reviews) -> Any:
    """Return a middleware that refuses requests of clients without the right."""

    @web.middleware
    async def authorize(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            client = await _authenticate(reviews, request)
        except ClientError as error:
            log.warning("can't authenticate a client: %s", error)
            client = None
        if client is None:
            return web.Response(status=401, text="Unauthorized")
        verb, subresources = verb_for(request.method), subresources_for(request.path)
        asked = f"(user={client.name}, verb={verb}, resource=nodes, subresource(s)=[{' '.join(subresources)}])"
        try:
            if await _is_allowed(reviews, client, verb, subresources):
                return await handler(request)
        except ClientError as error:
            log.warning("can't authorize %s: %s", asked, error)
            return web.Response(status=500, text=f"Authorization error {asked}")
        return web.Response(status=403, text=f"Forbidden {asked}")

    return authorize


async def _authenticate(reviews: Reviews, request: web.Request) -> Client | None:
    """Raises ClientError."""
    certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
    if (owner := owner_of(certificate)) is not None:
        return owner
    token = bearer_token(request.headers.get("Authorization", ""))
    return await reviews.authenticate(token) if token else None


async def _is_allowed(reviews: Reviews, client: Client, verb: str, subresources: tuple[str, ...]) -> bool:
    """Raises ClientError."""
    if client.name in _ALLOWED_NAMES or not _ALLOWED_GROUPS.isdisjoint(client.groups):
        return True
    for subresource in subresources:
        if await reviews.is_allowed(client, verb, subresource):
            return True
    return False
