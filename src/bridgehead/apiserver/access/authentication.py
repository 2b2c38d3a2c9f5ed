"""Authentication of a request by client certificate or bearer token.

Tokens are those of a static file (Kubernetes' CSV: token, user, uid, "group1,group2") or service account tokens that
this server signed (`tokens`). A request with invalid credentials is refused; a request without any is
`system:anonymous`. Source: Kubernetes "Authenticating".
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from bridgehead.apiserver.http.user import ANONYMOUS, AUTHENTICATED, InvalidCredentials, User

from .claims import matching_audiences
from .tokens import TokenAuthority


def read_token_file(path: Path) -> dict[str, User]:
    """Return users by token. Raises OSError, and ValueError with the line for a malformed file."""
    users: dict[str, User] = {}
    with path.open(newline="") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if not row or row[0].lstrip().startswith("#"):
                continue
            if len(row) < 3 or not row[0]:
                raise ValueError(f"{path}: line {number}: expected at least 3 columns: token, user name, user uid")
            groups = tuple(group.strip() for group in row[3].split(",") if group.strip()) if len(row) > 3 else ()
            users[row[0]] = User(row[1], (*groups, AUTHENTICATED), row[2])
    return users


class Authenticator:
    """Static tokens first, then the tokens of service accounts."""

    def __init__(self, tokens: Mapping[str, User], service_accounts: TokenAuthority) -> None:
        self._tokens = tokens
        self._service_accounts = service_accounts

    async def authenticate(self, authorization: str, peer: User | None) -> User:
        """Return the user of a request. Raises `InvalidCredentials`.

        `authorization` is the header's value, `peer` the user of the connection's certificate.
        """
        if peer is not None:
            return peer
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user, _ = await self.verify(token, self._service_accounts.audiences)
        return user

    async def verify(self, token: str, audiences: Sequence[str] = ()) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and those of `audiences` that it is for; (): the API server's own.

        Raises `InvalidCredentials`.
        """
        own = self._service_accounts.audiences
        audiences = audiences or own
        user = self._tokens.get(token)
        if user is not None:
            return user, matching_audiences(own, audiences)
        found = self._service_accounts.verify(token, audiences)
        if found is None:
            raise InvalidCredentials("invalid bearer token")
        return found
