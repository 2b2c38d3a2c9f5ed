"""The user of a request, and the user that a client certificate names.

The user is the certificate's common name, the groups are its organizations. `access.authentication` reads other
credentials. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Authenticating", X.509 client certificates; authentication/request/x509, KEP-2799, KEP-5128.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"
# The key of the extra value that identifies the credential: a certificate's digest or a token's id.
CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
# The key of the extra value that names the node of a service account's pod.
NODE_NAME = "authentication.kubernetes.io/node-name"
_UID_ATTRIBUTE = "1.3.6.1.4.1.57683.2"  # of a certificate's subject, KEP-5128


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


@dataclass(slots=True)
class CredentialNotes:
    """Notes about a request's credential: annotations for its audit event, and warnings for the client."""

    annotations: dict[str, str] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class InvalidCredentials(Exception):
    """Credentials that are not valid. The answer is a 401 without a reason; the text is for the log."""


def user_from_certificate(peer: Mapping[str, Any] | None, der: bytes) -> User | None:
    """Return the user of a verified certificate, None without one that names a user. Raises `InvalidCredentials`.

    `peer` is the result of `ssl.SSLSocket.getpeercert`, `der` that of `getpeercert(binary_form=True)`.
    """
    name = common_name(peer or {})
    if not peer or not name:
        return None
    uids = _attributes(peer, _UID_ATTRIBUTE)
    if len(uids) > 1 or "" in uids:
        raise InvalidCredentials("the client certificate has several uids or an empty one")
    extra = {CREDENTIAL_ID: (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)}
    return User(name, (*_attributes(peer, "organizationName"), AUTHENTICATED), "".join(uids), extra)


def common_name(peer: Mapping[str, Any]) -> str:
    """Return the last common name of a certificate's subject, "" without one. `peer` is as above."""
    return "".join(_attributes(peer, "commonName")[-1:])


def _attributes(peer: Mapping[str, Any], wanted: str) -> list[str]:
    return [value for name in peer.get("subject", ()) for key, value in name if key == wanted]
