"""Service account tokens: signing and verification. Tokens are not stored.

A token is a JWT (RS256) that names a service account and may be bound to a pod. It is valid until it expires, as long
as the service account and the pod exist with the same uid, and until a minute after their deletion timestamps.
Source: KEP-1205 "Bound Service Account Tokens", pkg/serviceaccount/claims.go.
"""

from __future__ import annotations

import hashlib
import uuid
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jwt
import msgspec
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from bridgehead.apiserver.bodies.serialization import stored_metadata
from bridgehead.apiserver.http.user import AUTHENTICATED, InvalidCredentials, User
from bridgehead.objects.times import parse_time
from bridgehead.storage import Key, Store

ISSUER = "https://kubernetes.default.svc.cluster.local"
PREFIX = "system:serviceaccount:"
_CACHED_TOKENS = 4096
# After the deletion timestamp of an account or pod, so that a container can use its token until it ends.
_LEEWAY_SECONDS = 60.0


class _Reference(msgspec.Struct, frozen=True):
    name: str
    uid: str


class _Private(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: _Reference
    pod: _Reference | None = None
    node: _Reference | None = None


class _Claims(msgspec.Struct, frozen=True):
    """The claims of a token that are checked on each request."""

    aud: tuple[str, ...]
    exp: float
    nbf: float
    private: _Private = msgspec.field(name="kubernetes.io")
    jti: str = ""


class SigningKey:
    """The RSA key that signs tokens. `id` is the key id in the tokens' header."""

    def __init__(self, private_key: RSAPrivateKey) -> None:
        self.private = private_key
        self.public = private_key.public_key()
        der = self.public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id = hashlib.sha256(der).hexdigest()[:43]

    @classmethod
    def read(cls, path: Path) -> SigningKey:
        """Read a key. Raises OSError, and ValueError when the file holds no RSA private key in PEM."""
        text = path.read_bytes()
        try:
            key = serialization.load_pem_private_key(text, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:  # a TypeError is a key with a password
            raise ValueError(f"{path}: not an RSA private key without a password (PEM)") from error
        if not isinstance(key, RSAPrivateKey):
            raise ValueError(f"{path}: not an RSA private key")
        return cls(key)


class TokenAuthority:
    """Issues and verifies tokens. `issuer` is also the default audience."""

    issuer = ISSUER

    def __init__(self, key: SigningKey, store: Store, clock: Callable[[], float]) -> None:
        self._key = key
        self._store = store
        self._clock = clock
        # Verifying a signature takes 50 µs, and clients send the same token with every request.
        self._verified: OrderedDict[str, _Claims] = OrderedDict()

    def issue(
        self,
        namespace: str,
        name: str,
        uid: str,
        *,
        audiences: Sequence[str],
        seconds: int,
        pod: tuple[str, str] | None = None,
        node: tuple[str, str] | None = None,
    ) -> tuple[str, float]:
        """Return a token and its expiry (seconds since the epoch). `pod` and `node` are (name, uid)."""
        now = self._clock()
        private: dict[str, Any] = {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}
        if pod is not None:
            private["pod"] = {"name": pod[0], "uid": pod[1]}
        if node is not None:
            private["node"] = {"name": node[0], "uid": node[1]}
        claims: dict[str, Any] = {
            "aud": list(audiences) or [ISSUER],
            "exp": int(now) + seconds,
            "iat": int(now),
            "iss": ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": private,
            "nbf": int(now),
            "sub": f"{PREFIX}{namespace}:{name}",
        }
        token = jwt.encode(claims, self._key.private, algorithm="RS256", headers={"kid": self._key.id})
        return token, float(claims["exp"])

    def verify(self, token: str) -> User | None:
        """Return the service account's user; None for a token that is not a JWT. Raises `InvalidCredentials`."""
        return self.verify_for(token, (ISSUER,))[0]

    def verify_for(self, token: str, audiences: Sequence[str]) -> tuple[User | None, tuple[str, ...]]:
        """Verify a token for other audiences. Also return those of `audiences` that the token is for."""
        claims = self._verified.get(token)
        if claims is None:
            claims = self._decode(token)
            if claims is None:
                return None, ()
            self._verified[token] = claims
            if len(self._verified) > _CACHED_TOKENS:
                self._verified.popitem(last=False)
        if not claims.nbf <= self._clock() < claims.exp:
            self._verified.pop(token, None)
            raise InvalidCredentials("the service account token has expired")
        meant = tuple(audience for audience in audiences if audience in claims.aud)
        if not meant:
            given, wanted = (" ".join(f'"{one}"' for one in many) for many in (claims.aud, audiences))
            raise InvalidCredentials(f"token audiences [{given}] is invalid for the target audiences [{wanted}]")
        return self._user(claims), meant

    def _decode(self, token: str) -> _Claims | None:
        if token.count(".") != 2:
            return None
        try:
            claims = jwt.decode(
                token,
                self._key.public,
                algorithms=["RS256"],
                issuer=ISSUER,
                # Times and audiences are checked on every request, with this server's clock.
                options={
                    "verify_aud": False,
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
            return msgspec.convert(claims, _Claims)
        except (jwt.PyJWTError, msgspec.ValidationError) as error:
            raise InvalidCredentials(f"service account token: {error}") from error

    def _user(self, claims: _Claims) -> User:
        namespace, account = claims.private.namespace, claims.private.serviceaccount
        self._check_exists("serviceaccounts", namespace, account)
        extra = {"authentication.kubernetes.io/credential-id": (f"JTI={claims.jti}",)}
        pod, node = claims.private.pod, claims.private.node
        if pod is not None:
            self._check_exists("pods", namespace, pod)
            extra["authentication.kubernetes.io/pod-name"] = (pod.name,)
            extra["authentication.kubernetes.io/pod-uid"] = (pod.uid,)
        if node is not None:
            extra["authentication.kubernetes.io/node-name"] = (node.name,)
            extra["authentication.kubernetes.io/node-uid"] = (node.uid,)
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
        return User(f"{PREFIX}{namespace}:{account.name}", groups, account.uid, extra)

    def _check_exists(self, resource: str, namespace: str, wanted: _Reference) -> None:
        record = self._store.get(Key(resource, namespace, wanted.name))
        metadata = None if record is None else stored_metadata(record.value)
        if metadata is None or metadata.uid != wanted.uid:
            raise InvalidCredentials(f"{resource} {namespace}/{wanted.name} has been deleted")
        deleted_at = metadata.deletion_timestamp
        if deleted_at and parse_time(deleted_at) + _LEEWAY_SECONDS < self._clock():
            raise InvalidCredentials(f"{resource} {namespace}/{wanted.name} was to be deleted at {deleted_at}")
