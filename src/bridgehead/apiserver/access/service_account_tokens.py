"""Service account tokens: issue and verification. Tokens are not stored, except for those in Secrets.

A token is a JWT that names a service account and may be bound to a pod, a node or a Secret. It is valid until it
expires, as long as the service account and the bound object exist with the same uid, and until a minute after their
deletion timestamps. The token of a Secret (a legacy token) is valid as long as the Secret holds it.
Source: KEP-1205 "Bound Service Account Tokens", pkg/serviceaccount/jwt.go.
"""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jwt
import msgspec

from bridgehead.apiserver.bodies.serialization import StoredMetadata, stored_metadata
from bridgehead.apiserver.http.user import CredentialNotes, InvalidCredentials, User
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.times import parse_time
from bridgehead.signing_keys import SigningKey, VerificationKey
from bridgehead.storage import Key, Store

from .token_claims import (
    EXTENDED_SECONDS,
    EXTENSION_SECONDS,
    LEEWAY_SECONDS,
    LEGACY_ISSUER,
    Bound,
    Claims,
    LegacyClaims,
    Reference,
    account_user,
    check_legacy,
    check_not_marked,
    check_secret,
    check_times,
    issuer_of,
    matching_audiences,
    new_claims,
    note_legacy_use,
    note_staleness,
    user_of,
)

ISSUER = "https://kubernetes.default.svc.cluster.local"
_CACHED_TOKENS = 4096


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Settings of tokens.

    The first of `issuers` issues tokens; those of all are accepted. `audiences` are those of the API server itself;
    (): the issuers. `extends`: a pod's token for this server that is asked for 3607 seconds is valid for a year.
    `verification_keys` verify tokens in addition to the key that signs, so that this key can be replaced.
    """

    issuers: tuple[str, ...] = (ISSUER,)
    audiences: tuple[str, ...] = ()
    extends: bool = True
    verification_keys: tuple[VerificationKey, ...] = ()

    @property
    def own_audiences(self) -> tuple[str, ...]:
        return self.audiences or self.issuers


class IssuedToken(NamedTuple):
    """A new token, its expiry (seconds since the epoch), which is not the extended one, and its credential id."""

    token: str
    until: float
    credential_id: str


class TokenAuthority:
    """Issues and verifies tokens.

    `on_legacy_use` is called with a Secret whose token was verified, at each use.
    """

    def __init__(
        self,
        key: SigningKey,
        store: Store,
        clock: Callable[[], float],
        settings: TokenSettings = TokenSettings(),
        on_legacy_use: Callable[[JsonObject], None] = lambda secret: None,
    ) -> None:
        self._key = key
        keys = (key.verification, *settings.verification_keys)
        self.keys: dict[str, VerificationKey] = {one.id: one for one in keys}
        self.issuers = settings.issuers
        self.audiences = settings.own_audiences
        self._extends = settings.extends
        self._store = store
        self._clock = clock
        self._on_legacy_use = on_legacy_use
        # Verifying a signature takes 50 µs, and clients send the same token with every request.
        self._verified: OrderedDict[str, Claims | LegacyClaims] = OrderedDict()

    def issue(
        self, namespace: str, account: Reference, bound: Bound, *, audiences: Sequence[str], seconds: int
    ) -> IssuedToken:
        """Return a new token."""
        now, warn_after, lifetime = int(self._clock()), 0, seconds
        is_own = set(audiences) <= set(self.audiences)
        if self._extends and bound.pod is not None and seconds == EXTENDED_SECONDS and is_own:
            warn_after, lifetime = seconds, EXTENSION_SECONDS
        claims = new_claims(
            namespace,
            account,
            bound,
            issuer=self.issuers[0],
            audiences=audiences or self.audiences,
            now=now,
            seconds=lifetime,
            warn_after=warn_after,
            jti=str(uuid.uuid4()),
        )
        return IssuedToken(self._key.sign(claims), float(now + seconds), f"JTI={claims['jti']}")

    def verify(
        self, token: str, audiences: Sequence[str], notes: CredentialNotes
    ) -> tuple[User, tuple[str, ...]] | None:
        """Return a service account's user, and those of `audiences` that the token is for.

        Returns None for a token of another issuer. Raises `InvalidCredentials`. Adds to `notes`.
        """
        claims = self._verified.get(token)
        if claims is None:
            claims = self._decode(token)
            if claims is None:
                return None
            self._verified[token] = claims
            if len(self._verified) > _CACHED_TOKENS:
                self._verified.popitem(last=False)
        if isinstance(claims, LegacyClaims):
            meant = matching_audiences(self.audiences, audiences)
            return self._legacy_user(claims, token, notes), meant
        meant, now = matching_audiences(claims.aud, audiences), self._clock()
        check_times(claims, now)
        user = self._user(claims)
        note_staleness(claims, now, notes)
        return user, meant

    def _decode(self, token: str) -> Claims | LegacyClaims | None:
        issuer = issuer_of(token)
        if issuer != LEGACY_ISSUER and issuer not in self.issuers:
            return None
        try:
            claims = self._verified_claims(token)
            if issuer == LEGACY_ISSUER:
                return msgspec.convert(claims, LegacyClaims)
            return msgspec.convert(claims, Claims)
        except (jwt.PyJWTError, msgspec.ValidationError) as error:
            raise InvalidCredentials(f"service account token: {error}") from error

    def _verified_claims(self, token: str) -> dict[str, Any]:
        """Return the claims of a token that one of the keys has signed. Raises jwt.PyJWTError."""
        key = self.keys.get(jwt.get_unverified_header(token).get("kid", ""))
        failure: jwt.PyJWTError = jwt.InvalidSignatureError("no key verifies the signature")
        for candidate in (key,) if key is not None else self.keys.values():
            try:
                return jwt.decode(
                    token,
                    candidate.public,
                    algorithms=[candidate.algorithm],
                    # Times and audiences are checked on every request, with this server's clock.
                    options={"verify_aud": False, "verify_exp": False, "verify_nbf": False, "verify_iat": False},
                )
            except jwt.PyJWTError as error:
                failure = error
        raise failure

    def _user(self, claims: Claims) -> User:
        private = claims.private
        self._check_account(private.namespace, private.serviceaccount, LEEWAY_SECONDS)
        if private.secret is not None:
            self._check_bound("secret", private.namespace, private.secret)
        if private.pod is not None:
            self._check_bound("pod", private.namespace, private.pod)
        elif private.node is not None:
            self._check_bound("node", "", private.node)
        return user_of(claims)

    def _legacy_user(self, claims: LegacyClaims, token: str, notes: CredentialNotes) -> User:
        check_legacy(claims)
        record = self._store.get(Key("secrets", claims.namespace, claims.secret))
        secret: JsonObject | None = None if record is None else msgspec.json.decode(record.value)
        check_secret(claims, token, secret)
        self._check_account(claims.namespace, Reference(claims.account, claims.account_uid), 0.0)
        if secret is not None:
            self._on_legacy_use(secret)
            check_not_marked(claims, secret, notes)
            account = self._store.get(Key("serviceaccounts", claims.namespace, claims.account))
            note_legacy_use(claims.secret, {} if account is None else msgspec.json.decode(account.value), notes)
        return account_user(claims.namespace, claims.account, claims.account_uid, {})

    def _check_account(self, namespace: str, account: Reference, leeway: float) -> None:
        found = self._metadata("serviceaccounts", namespace, account.name)
        if found is None:
            raise InvalidCredentials(f'serviceaccounts "{account.name}" not found')
        if found.uid != account.uid:
            raise InvalidCredentials(f"service account UID ({found.uid}) does not match claim ({account.uid})")
        if self._is_deleted(found, leeway):
            raise InvalidCredentials(f"service account {namespace}/{account.name} has been deleted")

    def _check_bound(self, kind: str, namespace: str, bound: Reference) -> None:
        found = self._metadata(f"{kind}s", namespace, bound.name)
        if found is not None and found.uid != bound.uid:
            why = f"{kind} UID ({found.uid}) does not match service account {kind} ref claim ({bound.uid})"
            raise InvalidCredentials(why)
        if found is None or self._is_deleted(found, LEEWAY_SECONDS):
            raise InvalidCredentials("service account token has been invalidated")

    def _metadata(self, resource: str, namespace: str, name: str) -> StoredMetadata | None:
        record = self._store.get(Key(resource, namespace, name))
        return None if record is None else stored_metadata(record.value)

    def _is_deleted(self, found: StoredMetadata, leeway: float) -> bool:
        deleted_at = found.deletion_timestamp
        return bool(deleted_at) and parse_time(deleted_at) + leeway < self._clock()
