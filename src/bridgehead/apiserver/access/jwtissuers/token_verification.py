"""Verification of tokens by the configuration in force, which is read again when its file has changed.

Source: Kubernetes apiserver/plugin/pkg/authenticator/token/oidc/oidc.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path

import jwt

from bridgehead.apiserver.http.user import InvalidCredentials, User

from .configuration import parse
from .forms import Anonymous, Configuration, JwtAuthenticator
from .keys import KeySet
from .mapping import Mapper

log = logging.getLogger(__name__)

_ALGORITHMS = ("RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512")

_LEEWAY_SECONDS = 300.0  # of the time before which a token is not valid


class _Issuer:
    def __init__(self, authenticator: JwtAuthenticator) -> None:
        self.audiences = authenticator.issuer.audiences
        self.keys = KeySet(authenticator.issuer)
        self.mapper = Mapper(authenticator)


class JwtIssuers:
    """The issuers of an AuthenticationConfiguration. `clock` returns seconds since the epoch.

    The file is looked at for each token of another issuer and for each request without credentials. A file that is
    invalid now leaves the earlier configuration in force.
    """

    def __init__(self, path: Path, own_issuers: Collection[str], clock: Callable[[], float]) -> None:
        """Raises OSError, and ValueError for an invalid file."""
        self._path = path
        self._own_issuers = own_issuers
        self._clock = clock
        self._issuers: dict[str, _Issuer] = {}
        self._anonymous: Anonymous | None = None
        self._version = self._read_version()
        self._load()

    def allows_anonymous(self, path: str) -> bool:
        """Whether a request for this path needs no credentials."""
        self._follow_file()
        return self._anonymous is None or self._anonymous.allows(path)

    async def verify(self, token: str, issuer: str) -> User | None:
        """Return the user of a token that names `issuer`; None for an unknown one. Raises `InvalidCredentials`."""
        self._follow_file()
        known = self._issuers.get(issuer)
        if known is None:
            return None
        try:
            header = jwt.get_unverified_header(token)
            key_id = header.get("kid", "")
            problem: jwt.PyJWTError | None = None
            for key in await known.keys.find(key_id):
                try:
                    return known.mapper.user(self._claims(token, key, issuer, known.audiences))
                except jwt.InvalidSignatureError as error:
                    problem = error
            raise InvalidCredentials(f"oidc: verify token: {problem}")
        except jwt.PyJWTError as error:
            raise InvalidCredentials(f"oidc: verify token: {error}") from error

    def _claims(self, token: str, key: jwt.PyJWK, issuer: str, audiences: Collection[str]) -> dict[str, object]:
        algorithm = jwt.get_unverified_header(token).get("alg", "")
        if algorithm not in _ALGORITHMS:
            raise InvalidCredentials(f"oidc: verify token: unexpected signature algorithm {algorithm!r}")
        claims = jwt.decode(
            token,
            key.key,
            algorithms=[algorithm],
            issuer=issuer,
            audience=list(audiences),
            # Times are checked with this server's clock.
            options={"require": ["exp"], "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
        now = self._clock()
        expiry, begin = claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(expiry, (int, float)) or expiry <= now:
            raise InvalidCredentials("oidc: verify token: oidc: token is expired")
        if not isinstance(begin, (int, float)) or begin > now + _LEEWAY_SECONDS:
            raise InvalidCredentials("oidc: verify token: oidc: current time before the nbf (not before) time")
        return claims

    def _read_version(self) -> tuple[int, int, int]:
        status = self._path.stat()
        return status.st_mtime_ns, status.st_ino, status.st_size

    def _follow_file(self) -> None:
        """Read the file again if it has changed."""
        try:
            version = self._read_version()
            if version == self._version:
                return
            self._version = version
            self._load()
            log.info("%s: the authentication configuration is in force", self._path)
        except (OSError, ValueError) as error:
            log.error("%s: the authentication configuration stays as it was: %s", self._path, error)

    def _load(self) -> None:
        configuration: Configuration = parse(self._path.read_bytes(), self._own_issuers)
        self._issuers = {one.issuer.url: _Issuer(one) for one in configuration.jwt}
        self._anonymous = configuration.anonymous
