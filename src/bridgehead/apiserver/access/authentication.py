"""Authentication of a request by the headers of a front proxy, client certificate or bearer token.

Tokens are those of a static file (`static_tokens`), service account tokens that this server signed
(`service_account_tokens`), or those of other issuers (`jwtissuers`). A request with invalid credentials is refused; a
request without any is `system:anonymous`. Source: Kubernetes "Authenticating".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from bridgehead.apiserver.http.user import ANONYMOUS, CredentialNotes, InvalidCredentials, User

from .bearer_token import bearer_token
from .request_headers import RequestHeaders
from .service_account_tokens import TokenAuthority
from .token_claims import issuer_of, matching_audiences

if TYPE_CHECKING:
    from .jwtissuers.token_verification import JwtIssuers


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
