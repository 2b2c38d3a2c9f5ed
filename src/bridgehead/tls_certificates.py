"""Certificates of TLS connections: this side's with their keys, and the authorities of a server's."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography import x509

# Password for encrypted keys, which fail by it. OpenSSL would otherwise ask for one on the terminal, and wait.
_NO_PASSWORD: Final = ""
_CLOCK_SKEW: Final = timedelta(hours=1)


def verifying_context(*, cafile: Path | str | None = None, cadata: str | None = None) -> ssl.SSLContext:
    """Return the settings of a client that trusts the authorities in a PEM file or text; without any, the system's.

    As in Go, for whose clients most servers' certificates are made, each of these certificates may end a chain, and
    extensions that RFC 5280 demands may be missing. Python 3.13 demands them by default, earlier ones do neither.
    Raises OSError, ssl.SSLError.
    """
    context = ssl.create_default_context(cafile=cafile, cadata=cadata)
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def load_certificate(context: ssl.SSLContext, pem: bytes) -> None:
    """Let a context use a certificate with its key, both in `pem`. Raises ssl.SSLError for damaged ones.

    OpenSSL, as Python's ssl module uses it, reads a key from a file only; this one is in memory and has no name.
    """
    with os.fdopen(os.memfd_create("certificate", os.MFD_CLOEXEC), "wb") as file:
        file.write(pem)
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_NO_PASSWORD)


def check_certificate(certificate: Path, key: Path) -> None:
    """Check that two PEM files belong together, without a context that is in use. Raises OSError, ssl.SSLError."""
    ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(certificate, key, password=_NO_PASSWORD)


def issue_certificate(
    serves: Sequence[str], *, name: str, ca_name: str, days: int = 3650
) -> tuple[bytes, bytes, bytes]:
    """Return a new CA, a server's certificate for these DNS names and IP addresses, and its key, in PEM.

    The key of the CA is thrown away. The library takes 10 MiB, so it is imported when it is needed.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ca_name)])
    begin = datetime.now(UTC) - _CLOCK_SKEW

    def builder(subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(begin + timedelta(days=days))
        )

    ca = (
        builder(issuer, ca_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    certificate = (
        builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), key.public_key())
        .add_extension(x509.SubjectAlternativeName([_general_name(text) for text in serves]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return (
        ca.public_bytes(pem),
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )


def _general_name(text: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
