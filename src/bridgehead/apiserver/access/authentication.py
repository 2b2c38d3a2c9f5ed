"""Authentication of a request by the headers of a front proxy, client certificate or bearer token.

Tokens are those of a static file (Kubernetes' CSV: token, user, uid, "group1,group2"), service account tokens that this
server signed (`tokens`), or those of other issuers (`jwtissuers`). A request with invalid credentials is refused; a
request without any is `system:anonymous`. Source: Kubernetes "Authenticating".
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bridgehead.apiserver.http.user import ANONYMOUS, AUTHENTICATED, CredentialNotes, InvalidCredentials, User

from .credentials import bearer_token
from .request_headers import RequestHeaders
from .token_claims import issuer_of, matching_audiences
from .tokens import TokenAuthority

if TYPE_CHECKING:
    from .jwtissuers.issuers import JwtIssuers


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
    """Static tokens first, then the tokens of service accounts, then those of other issuers."""

    def __init__(
        self,
        tokens: Mapping[str, User],
        service_accounts: TokenAuthority,
        issuers: JwtIssuers | None = None,
        request_headers: RequestHeaders | None = None,
    ) -> None:
        self._tokens = tokens
        self._service_accounts = service_accounts
        self._issuers = issuers
        self._request_headers = request_headers

    def user_of_proxy(self, proxy: str, headers: Iterable[tuple[bytes, bytes]]) -> User | None:
        """Return the user whom the front proxy named `proxy` names, None without one."""
        return None if self._request_headers is None else self._request_headers.user(proxy, headers)

    def without_proxy_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> Iterable[tuple[bytes, bytes]]:
        """Return a request's headers without those that name a front proxy's user."""
        return headers if self._request_headers is None else self._request_headers.without(headers)

    async def authenticate(
        self,
        headers: Mapping[bytes, bytes],
        peer: User | InvalidCredentials | None,
        path: str,
        notes: CredentialNotes,
    ) -> User:
        """Return the user of a request for `path`. Raises `InvalidCredentials`. Adds to `notes`.

        Names of headers are in lower case. `peer` is the user of the connection's certificate, or why it is not valid.
        """
        if isinstance(peer, User):
            return peer
        token = bearer_token(headers)
        if not token:
            if peer is not None:
                raise InvalidCredentials(str(peer))
            return self._anonymous(path)
        user, _ = await self.verify(token, self._service_accounts.audiences, notes)
        return user

    def _anonymous(self, path: str) -> User:
        if self._issuers is not None and not self._issuers.allows_anonymous(path):
            raise InvalidCredentials("anonymous requests are not allowed")
        return ANONYMOUS

    async def verify(
        self, token: str, audiences: Sequence[str], notes: CredentialNotes
    ) -> tuple[User, tuple[str, ...]]:
        """Return the user of a token, and those of `audiences` that it is for; (): the API server's own.

        Raises `InvalidCredentials`. Adds to `notes`.
        """
        own = self._service_accounts.audiences
        audiences = audiences or own
        user = self._tokens.get(token)
        if user is not None:
            return user, matching_audiences(own, audiences)
        found = self._service_accounts.verify(token, audiences, notes)
        if found is not None:
            return found
        issuer = issuer_of(token) if self._issuers is not None else None
        user = await self._issuers.verify(token, issuer) if self._issuers is not None and issuer else None
        if user is None:
            raise InvalidCredentials("invalid bearer token")
        return user, matching_audiences(own, audiences)
