"""The hooks that the application calls for each request, and the Audit-Id.

Without an audit policy, these hooks are called, which do nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from bridgehead.apiserver.http.request import Receive, Response, Scope
from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.registry.metadata import random_uuid


class Trail:
    """One request that is not audited. The hooks are in the order of their calls."""

    __slots__ = ()

    def capture(self, receive: Receive) -> Receive:
        """Return a `receive` by which the trail sees the request's body."""
        return receive

    def impersonate(self, user: User) -> None:
        """Record the user as whom the request is carried out."""

    def authorize(self, *, allowed: bool, reason: str) -> None:
        """Record the authorizer's decision."""

    def answer(self, response: Response, annotations: Mapping[str, str]) -> Response:
        """Record the answer before it is compressed, and admission's annotations; return the answer to send."""
        return response

    def panic(self, error: Exception) -> None:
        """Record an error of the server; its answer is a 500."""

    def start(self, status: int) -> None:
        """Record that the headers of an answer are sent."""

    def complete(self) -> None:
        """Record that the request has ended. Without `start`, the client has left early."""


UNAUDITED = Trail()


class Begin(Protocol):
    """Begins the trail of a request. `user` None: authentication has failed. `annotations` are authentication's."""

    def __call__(
        self,
        info: RequestInfo,
        user: User | None,
        scope: Scope,
        headers: Mapping[bytes, bytes],
        audit_id: bytes,
        annotations: Mapping[str, str],
    ) -> Trail: ...


def begin_unaudited(
    info: RequestInfo,
    user: User | None,
    scope: Scope,
    headers: Mapping[bytes, bytes],
    audit_id: bytes,
    annotations: Mapping[str, str],
) -> Trail:
    return UNAUDITED


def audit_id_of(headers: Mapping[bytes, bytes]) -> bytes:
    """Return the request's own Audit-Id, or a new one."""
    return headers.get(b"audit-id") or random_uuid().encode()
