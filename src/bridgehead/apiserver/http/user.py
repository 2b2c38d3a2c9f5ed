"""Who makes a request, as a value, and whom a client certificate names.

A certificate's common name is the user and its organizations are the groups (source: Kubernetes "Authenticating", X.509
client certificates). Other credentials are read in `access.authentication`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

AUTHENTICATED = "system:authenticated"
UNAUTHENTICATED = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


ANONYMOUS = User("system:anonymous", (UNAUTHENTICATED,))


class InvalidCredentials(Exception):
    """The answer is a 401 that does not say why; the text is for the log."""


def user_from_certificate(peer: Mapping[str, Any] | None) -> User | None:
    """`peer` is what `ssl.SSLSocket.getpeercert` returns for a certificate that the handshake has verified."""
    if not peer:
        return None
    attributes = [attribute for name in peer.get("subject", ()) for attribute in name]
    names = [value for key, value in attributes if key == "commonName"]
    if not names:
        raise InvalidCredentials("the client certificate has no common name")
    groups = tuple(value for key, value in attributes if key == "organizationName")
    return User(names[0], (*groups, AUTHENTICATED))
