"""The API server's decisions about the clients of a server, kept for the times for which a kubelet keeps them.

Source: KubeletConfiguration `authentication.webhook.cacheTTL`, `authorization.webhook.cacheAuthorizedTTL` and
`cacheUnauthorizedTTL`, with their defaults.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Hashable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from .api import ApiClient

_TOKEN_SECONDS: Final = 120.0
_ALLOWED_SECONDS: Final = 300.0
_REFUSED_SECONDS: Final = 30.0
_REVIEWS_AT_ONCE: Final = 8
_CACHE_SIZE: Final = 1024  # entries; more clients than this cost requests, not memory

_TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"

T = TypeVar("T")


class Client(NamedTuple):
    """The user who sends a request, as in a SubjectAccessReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


class AccessReviews:
    """Asks the API server about the clients of a server. Methods raise ClientError."""

    def __init__(self, client: ApiClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._users: _Kept[Client | None] = _Kept(clock)
        self._decisions: _Kept[bool] = _Kept(clock)
        self._turns = asyncio.Semaphore(_REVIEWS_AT_ONCE)

    async def authenticate(self, token: str) -> Client | None:
        """Return the owner of a bearer token, None if it is not valid."""
        key = hashlib.sha256(token.encode("utf-8", "surrogateescape")).digest()
        kept = self._users.find(key)
        if kept is not None:
            return kept[0]
        review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        user = _owner(await self._ask(_TOKEN_REVIEWS, review))
        self._users.keep(key, user, _TOKEN_SECONDS)
        return user

    async def may_access_node(self, client: Client, node: str, verb: str, subresource: str) -> bool:
        """Whether the API server would let the client access this subresource of the node."""
        attributes = {"verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": node}
        return await self._is_allowed(client, "resourceAttributes", attributes)

    async def may_access_path(self, client: Client, verb: str, path: str) -> bool:
        """Whether the API server would let the client access this path that is no resource's."""
        return await self._is_allowed(client, "nonResourceAttributes", {"verb": verb, "path": path})

    async def _is_allowed(self, client: Client, kind: str, attributes: dict[str, str]) -> bool:
        key = (client, kind, *attributes.values())
        kept = self._decisions.find(key)
        if kept is not None:
            return kept[0]
        spec = {
            "user": client.name,
            "uid": client.uid,
            "groups": list(client.groups),
            "extra": {name: list(values) for name, values in client.extra},
            kind: attributes,
        }
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = (await self._ask(_ACCESS_REVIEWS, review)).get("status") or {}
        allowed = status.get("allowed") is True
        self._decisions.keep(key, allowed, _ALLOWED_SECONDS if allowed else _REFUSED_SECONDS)
        return allowed

    async def _ask(self, path: str, review: dict[str, Any]) -> dict[str, Any]:
        async with self._turns:  # whoever sends invalid tokens must not fill the API server
            answer: dict[str, Any] = await self._client.request("POST", path, json=review)
            return answer


def bearer_token(authorization: str) -> str:
    """Return the token of an Authorization header, "" if it has none."""
    scheme, _, token = authorization.strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" and token.isascii() else ""


def _owner(review: dict[str, Any]) -> Client | None:
    status = review.get("status") or {}
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = tuple(sorted((name, tuple(values)) for name, values in (user.get("extra") or {}).items()))
    return Client(user["username"], user.get("uid") or "", tuple(user.get("groups") or ()), extra)


class _Kept(Generic[T]):
    """Values that are kept for some time, the newest of them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._values: dict[Hashable, tuple[T, float]] = {}

    def find(self, key: Hashable) -> tuple[T] | None:
        found = self._values.get(key)
        return (found[0],) if found is not None and self._clock() < found[1] else None

    def keep(self, key: Hashable, value: T, seconds: float) -> None:
        self._values.pop(key, None)  # the new entry is the newest of the dictionary
        self._values[key] = (value, self._clock() + seconds)
        if len(self._values) > _CACHE_SIZE:
            del self._values[next(iter(self._values))]
