"""The token of a user, and calls with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from . import messages_pb2 as pb
from .connection import Call, Connection, Metadata
from .failures import CallFailed, is_disabled_authentication, is_stale_token
from .settings import EtcdSettings


class Authentication:
    """Calls as the user of the settings. etcd gives a token for user and password, and forgets it after minutes."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._user, self._password, self._timeout = settings.user, settings.password, settings.timeout
        self._token: str | None = None  # "": authentication is disabled
        self._renewal = asyncio.Lock()

    async def call(self, connection: Connection, call: Call, request: Any, timeout: float) -> Any:
        """Return the answer of a unary call. Raises `CallFailed`."""

        async def once(metadata: Metadata) -> Any:
            return await connection.unary(call, request, timeout, metadata)

        return await self.authorized(connection, once)

    async def authorized(self, connection: Connection, attempt: Callable[[Metadata], Any]) -> Any:
        """Return what `attempt` returns with the token as metadata; try once more with a new one if etcd wants it."""
        if not self._user:
            return await attempt(())
        token = self._token
        if token is None:
            token = await self._renew(connection, None)
        try:
            return await attempt(_metadata(token))
        except CallFailed as failure:
            if not is_stale_token(failure.details):
                raise
        return await attempt(_metadata(await self._renew(connection, token)))

    async def _renew(self, connection: Connection, old: str | None) -> str:
        """Return a token other than `old`. Concurrent calls share one renewal."""
        async with self._renewal:
            if self._token is None or self._token == old:
                self._token = await self._authenticate(connection)
            return self._token

    async def _authenticate(self, connection: Connection) -> str:
        request = pb.AuthenticateRequest(name=self._user, password=self._password)
        try:
            answer = await connection.unary(connection.authenticate, request, self._timeout)
        except CallFailed as failure:
            if is_disabled_authentication(failure.details):
                return ""
            raise
        token: str = answer.token
        return token


def _metadata(token: str) -> Metadata:
    return (("token", token),) if token else ()
