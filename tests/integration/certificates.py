"""Certificates of servers and clients in tests."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import tempfile
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

PEM, PKCS8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
_SIGNS = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


class Authority:
    """A CA whose certificate is `ca.crt` in `directory`."""

    def __init__(self, directory: Path, name: str = "test-ca") -> None:
        self.directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._certificate(self._name, self._key.public_key(), is_ca=True)
        (directory / "ca.crt").write_bytes(certificate)
        (directory / "ca.key").write_bytes(self._key.private_bytes(PEM, PKCS8, serialization.NoEncryption()))

    def issue(
        self,
        file: str,
        common_name: str,
        *organizations: str,
        serves: str = "",
        until: datetime.datetime | None = None,
    ) -> None:
        """Write `file`.crt and `file`.key, for a server on 127.0.0.1, of the DNS name `serves`, and for a client.

        The certificate is valid until a day from now if `until` is None.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        attributes += [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in organizations]
        certificate = self._certificate(
            x509.Name(attributes), key.public_key(), is_ca=False, serves=serves, until=until
        )
        (self.directory / f"{file}.crt").write_bytes(certificate)
        (self.directory / f"{file}.key").write_bytes(key.private_bytes(PEM, PKCS8, serialization.NoEncryption()))

    def _certificate(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *,
        is_ca: bool,
        serves: str = "",
        until: datetime.datetime | None = None,
    ) -> bytes:
        end = until or datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(end - datetime.timedelta(hours=25))
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(is_ca, None), critical=True)
        )
        # Python's own contexts demand key identifiers and a CA's key usage since 3.13.
        authority = self._key.public_key()
        if is_ca:
            builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(authority), critical=False)
            builder = builder.add_extension(_SIGNS, critical=True)
        else:
            identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority)
            builder = builder.add_extension(identifier, critical=False)
            names: list[x509.GeneralName] = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            if serves:
                names.append(x509.DNSName(serves))
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(PEM)


def server_certificate() -> ssl.SSLContext:
    """Return the context of a server whose certificate only clients accept that verify none."""
    with tempfile.TemporaryDirectory() as directory:
        Authority(Path(directory)).issue("web", "web")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(f"{directory}/web.crt", f"{directory}/web.key")
    return context
