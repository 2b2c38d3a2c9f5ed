"""The user of a request, and the user that a client certificate names.

The user is the certificate's common name, the groups are its organizations. `access.authentication` reads other
credentials. Pure: no I/O, no clock, no randomness.
Source: Kubernetes "Authenticating", X.509 client certificates.
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
    """Credentials that are not valid. The answer is a 401 without a reason; the text is for the log."""


def user_from_certificate(peer: Mapping[str, Any] | None) -> User | None:
    """Return the user of a verified certificate, None without one. Raises `InvalidCredentials`.

    `peer` is the result of `ssl.SSLSocket.getpeercert`.
    """
    if not peer:
        return None
    attributes = [attribute for name in peer.get("subject", ()) for attribute in name]
    names = [value for key, value in attributes if key == "commonName"]
    if not names:
        raise InvalidCredentials("the client certificate has no common name")
    groups = tuple(value for key, value in attributes if key == "organizationName")
    return User(names[0], (*groups, AUTHENTICATED))
