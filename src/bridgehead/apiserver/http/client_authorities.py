"""The CA that has issued a client's certificate: that of users or that of front proxies.

OpenSSL verifies the certificate with both together, and a resumed session keeps no chain that would name the CA. The
certificate must therefore be issued directly by a certificate of one of the two files; otherwise it identifies no one.
Source: apiserver/pkg/authentication/request/headerrequest; pkg/controlplane/apiserver/options (both CAs for TLS).
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature


@dataclass(frozen=True, slots=True)
class ClientAuthorities:
    """The certificates of both CA files."""

    users: tuple[x509.Certificate, ...]
    front_proxies: tuple[x509.Certificate, ...]

    @classmethod
    def read(cls, users: Path | None, front_proxies: Path) -> Self:
        """Raises OSError, ValueError."""
        return cls(() if users is None else _read(users), _read(front_proxies))

    def issued(self, der: bytes) -> tuple[bool, bool]:
        """Return whether a certificate is one of a user, and whether it is one of a front proxy."""
        certificate = x509.load_der_x509_certificate(der)
        return _is_issued_by(self.users, certificate), _is_issued_by(self.front_proxies, certificate)


class ServerContext(ssl.SSLContext):
    """TLS settings with the CAs of clients. `authorities` None: every verified certificate is one of a user."""

    authorities: ClientAuthorities | None = None


def _read(path: Path) -> tuple[x509.Certificate, ...]:
    return tuple(x509.load_pem_x509_certificates(path.read_bytes()))


def _is_issued_by(authorities: tuple[x509.Certificate, ...], certificate: x509.Certificate) -> bool:
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):  # another name, another kind of key, another key
            continue
        return True
    return False
