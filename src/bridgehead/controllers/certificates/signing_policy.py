"""Signing of a request by a certificate authority: lifetime and content of the certificate.

The signature and the serial number are random.
Source: Kubernetes pkg/controller/certificates/authority/policies.go, signer/signer.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, ObjectIdentifier

BACKDATE = timedelta(minutes=5)  # tolerates clock skew
_SHORT = timedelta(hours=8)
_MIN_LIFETIME = timedelta(minutes=10)

_USAGES = {
    "signing": "digital_signature",
    "digital signature": "digital_signature",
    "content commitment": "content_commitment",
    "key encipherment": "key_encipherment",
    "key agreement": "key_agreement",
    "data encipherment": "data_encipherment",
    "cert sign": "key_cert_sign",
    "crl sign": "crl_sign",
    "encipher only": "encipher_only",
    "decipher only": "decipher_only",
}
_EXTENDED = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "ipsec end system": ObjectIdentifier("1.3.6.1.5.5.7.3.5"),
    "ipsec tunnel": ObjectIdentifier("1.3.6.1.5.5.7.3.6"),
    "ipsec user": ObjectIdentifier("1.3.6.1.5.5.7.3.7"),
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
    "microsoft sgc": ObjectIdentifier("1.3.6.1.4.1.311.10.3.3"),
    "netscape sgc": ObjectIdentifier("2.16.840.1.113730.4.1"),
}


class Authority:
    """A certificate authority. `lifetime` is the longest of its certificates."""

    def __init__(self, certificate: bytes, key: bytes, lifetime: timedelta) -> None:
        """Certificate and key are PEM. Raises ValueError for something else, or for a key of another certificate."""
        self._certificate = x509.load_pem_x509_certificate(certificate)
        private = serialization.load_pem_private_key(key, None)
        if not isinstance(private, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the signing key is neither RSA nor ECDSA")
        if private.public_key() != self._certificate.public_key():
            raise ValueError("the signing key is not the key of the signing certificate")
        self._key = private
        self._lifetime = lifetime

    def sign(
        self, request: x509.CertificateSigningRequest, usages: Iterable[str], seconds: int | None, now: datetime
    ) -> bytes:
        """Return a certificate in PEM. `seconds` is the wanted lifetime. Raises ValueError when the CA has expired."""
        not_before, not_after = validity(seconds, self._lifetime, now)
        limit = self._certificate.not_valid_after_utc
        if now >= limit:
            raise ValueError(f"refusing to sign a certificate that expired in the past: NotAfter is {limit}")
        builder = (
            x509.CertificateBuilder()
            .subject_name(request.subject)
            .issuer_name(self._certificate.subject)
            .public_key(request.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(not_before)
            .not_valid_after(min(not_after, limit))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        )
        usages = tuple(usages)
        flags = {_USAGES[usage] for usage in usages if usage in _USAGES}
        if flags:
            builder = builder.add_extension(_key_usage(flags), critical=True)
        extended = list(dict.fromkeys(_EXTENDED[usage] for usage in usages if usage in _EXTENDED))
        if extended:
            builder = builder.add_extension(x509.ExtendedKeyUsage(extended), critical=False)
        try:
            names = request.extensions.get_extension_for_class(x509.SubjectAlternativeName)
            builder = builder.add_extension(names.value, critical=names.critical)
        except x509.ExtensionNotFound:
            pass
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._certificate.public_key())  # type: ignore[arg-type]
        signed = builder.add_extension(issuer, critical=False).sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM)


def validity(seconds: int | None, longest: timedelta, now: datetime) -> tuple[datetime, datetime]:
    """Return the first and the last moment of a certificate for which `seconds` were wanted."""
    lifetime = longest
    if seconds is not None:
        lifetime = min(max(timedelta(seconds=seconds), _MIN_LIFETIME), longest)
    # Long-lived certificates are valid for the wanted time including the backdating.
    end = now + lifetime if lifetime < _SHORT else now + lifetime - BACKDATE
    return now - BACKDATE, end


def _key_usage(flags: set[str]) -> x509.KeyUsage:
    wanted: dict[str, Any] = {name: name in flags for name in set(_USAGES.values())}
    if not wanted["key_agreement"]:  # these two only restrict a key agreement
        wanted["encipher_only"] = wanted["decipher_only"] = False
    return x509.KeyUsage(**wanted)
