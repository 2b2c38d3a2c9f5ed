"""Claims of service account tokens: what a new token contains, and what is checked of a signed one.

Pure: no I/O, no clock, no randomness. Times are seconds since the epoch.
Source: KEP-1205 "Bound Service Account Tokens", pkg/serviceaccount/claims.go, legacy.go.
"""

from __future__ import annotations

import binascii
from base64 import b64decode, urlsafe_b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from bridgehead.apiserver.http.user import AUTHENTICATED, CREDENTIAL_ID, CredentialNotes, InvalidCredentials, User

PREFIX = "system:serviceaccount:"
LEGACY_ISSUER = "kubernetes/serviceaccount"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
LAST_USED = "kubernetes.io/legacy-token-last-used"
# The lifetime that clients ask for which may not know that tokens expire, and what they get (one year).
EXTENDED_SECONDS, EXTENSION_SECONDS = 3607, 365 * 24 * 3600
# Clocks may differ, and a container may use its token until it ends.
LEEWAY_SECONDS = 60.0


class Reference(msgspec.Struct, frozen=True):
    """An object that a token is bound to. The uid is "" for a pod's node that has no Node object."""

    name: str
    uid: str = ""


class _Private(msgspec.Struct, frozen=True):
    namespace: str
    serviceaccount: Reference
    pod: Reference | None = None
    node: Reference | None = None
    secret: Reference | None = None
    warnafter: float = 0.0  # 0: the lifetime was not extended


class Claims(msgspec.Struct, frozen=True):
    """The claims of a token that are checked on each request."""

    aud: tuple[str, ...]
    exp: float
    nbf: float
    private: _Private = msgspec.field(name="kubernetes.io")
    jti: str = ""


class LegacyClaims(msgspec.Struct, frozen=True):
    """The claims of a token that a Secret holds. Such a token does not expire."""

    namespace: str = msgspec.field(name="kubernetes.io/serviceaccount/namespace")
    secret: str = msgspec.field(name="kubernetes.io/serviceaccount/secret.name")
    account: str = msgspec.field(name="kubernetes.io/serviceaccount/service-account.name")
    account_uid: str = msgspec.field(name="kubernetes.io/serviceaccount/service-account.uid")
    sub: str


@dataclass(frozen=True, slots=True)
class Bound:
    """The objects that a token is bound to. A pod's token also names the pod's node."""

    pod: Reference | None = None
    node: Reference | None = None
    secret: Reference | None = None


class _Issued(msgspec.Struct):
    iss: str = ""


_decode_issued = msgspec.json.Decoder(_Issued).decode


def issuer_of(token: str) -> str | None:
    """Return the issuer that a token names, which is not verified; None if it is not a JWT."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        return _decode_issued(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))).iss
    except (binascii.Error, ValueError, msgspec.DecodeError, RecursionError):
        return None


def new_claims(
    namespace: str,
    account: Reference,
    bound: Bound,
    *,
    issuer: str,
    audiences: Sequence[str],
    now: int,
    seconds: int,
    warn_after: int,
    jti: str,
) -> dict[str, Any]:
    """Return the claims of a new token. `warn_after` in seconds is for a token whose lifetime was extended, else 0."""
    private: dict[str, Any] = {"namespace": namespace}
    for kind, reference in (("node", bound.node), ("pod", bound.pod), ("secret", bound.secret)):
        if reference is not None:
            private[kind] = {"name": reference.name} | ({"uid": reference.uid} if reference.uid else {})
    private["serviceaccount"] = {"name": account.name, "uid": account.uid}
    if warn_after:
        private["warnafter"] = now + warn_after
    return {
        "aud": list(audiences),
        "exp": now + seconds,
        "iat": now,
        "iss": issuer,
        "jti": jti,
        "kubernetes.io": private,
        "nbf": now,
        "sub": f"{PREFIX}{namespace}:{account.name}",
    }


def note_staleness(claims: Claims, now: float, notes: CredentialNotes) -> None:
    """Note the use of a token that its pod should have replaced, and that is valid only by its extended lifetime."""
    private = claims.private
    if private.warnafter and now > private.warnafter:
        subject = f"{PREFIX}{private.namespace}:{private.serviceaccount.name}"
        notes.annotations["authentication.k8s.io/stale-token"] = (
            f"subject: {subject}, seconds after warning threshold: {int(now) - int(private.warnafter)}"
        )


def check_times(claims: Claims, now: float) -> None:
    """Raise `InvalidCredentials` for a token that is not valid at this time."""
    if now - LEEWAY_SECONDS > claims.exp:
        raise InvalidCredentials("service account token has expired")
    if now + LEEWAY_SECONDS < claims.nbf:
        raise InvalidCredentials("service account token is not valid yet")


def matching_audiences(token: Sequence[str], wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the audiences of a token that are wanted. Raises `InvalidCredentials` if there is none."""
    meant = tuple(audience for audience in token if audience in wanted)
    if not meant:
        given, target = (" ".join(f'"{one}"' for one in many) for many in (token, wanted))
        raise InvalidCredentials(f"token audiences [{given}] is invalid for the target audiences [{target}]")
    return meant


def user_of(claims: Claims) -> User:
    """Return the user that a token stands for."""
    private = claims.private
    extra: dict[str, tuple[str, ...]] = {}
    if claims.jti:
        extra[CREDENTIAL_ID] = (f"JTI={claims.jti}",)
    for kind, reference in (("pod", private.pod), ("node", private.node)):
        if reference is not None:
            extra[f"authentication.kubernetes.io/{kind}-name"] = (reference.name,)
            if reference.uid or kind == "pod":
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (reference.uid,)
    return account_user(private.namespace, private.serviceaccount.name, private.serviceaccount.uid, extra)


def account_user(namespace: str, name: str, uid: str, extra: dict[str, tuple[str, ...]]) -> User:
    """Return the user of a service account."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"{PREFIX}{namespace}:{name}", groups, uid, extra)


def check_legacy(claims: LegacyClaims) -> None:
    """Raise `InvalidCredentials` for claims that contradict each other."""
    for name in ("namespace", "secret", "account", "account_uid"):
        if not getattr(claims, name):
            missing = {"secret": "secretName", "account": "serviceAccountName", "account_uid": "serviceAccountUID"}
            raise InvalidCredentials(f"{missing.get(name, name)} claim is missing")
    if claims.sub != f"{PREFIX}{claims.namespace}:{claims.account}":
        raise InvalidCredentials("sub claim is invalid")


def check_secret(claims: LegacyClaims, token: str, secret: dict[str, Any] | None) -> None:
    """Raise `InvalidCredentials` unless the Secret still holds this token. `secret` is None if there is none."""
    if secret is None or "deletionTimestamp" in secret["metadata"]:
        raise InvalidCredentials("Token has been invalidated")
    try:
        held = b64decode(secret.get("data", {}).get("token", ""))
    except binascii.Error:
        held = b""
    if held != token.encode():
        raise InvalidCredentials("Token does not match server's copy")


def note_legacy_use(secret: str, account: dict[str, Any], notes: CredentialNotes) -> None:
    """Note which Secret a token is of. Kubernetes has made the Secrets that an account names, until 1.23."""
    if all(reference.get("name") != secret for reference in account.get("secrets", ())):
        notes.annotations["authentication.k8s.io/legacy-token-manual-secret"] = secret
        return
    notes.annotations["authentication.k8s.io/legacy-token-autogenerated-secret"] = secret
    notes.warnings.append(
        "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated "
        "secret-based tokens."
    )


def check_not_marked(claims: LegacyClaims, secret: dict[str, Any], notes: CredentialNotes) -> None:
    """Raise `InvalidCredentials` if the Secret's token was marked as unused for long."""
    if secret["metadata"].get("labels", {}).get(INVALID_SINCE):
        notes.annotations["authentication.k8s.io/legacy-token-invalidated"] = f"{claims.secret}/{claims.namespace}"
        raise InvalidCredentials(
            f"the token in secret {claims.namespace}/{claims.secret} for service account "
            f"{claims.namespace}/{claims.account} has been marked invalid. Use tokens from the TokenRequest API or "
            f"manually created secret-based tokens, or remove the '{INVALID_SINCE}' label from the secret to "
            "temporarily allow use of this token"
        )
