"""Certificate files of the etcd client."""

from __future__ import annotations

import datetime
import ssl
from pathlib import Path

from cryptography import x509

from .errors import CertificateProblem
from .quiet_grpc import grpc
from .settings import EtcdSettings


class TlsFiles:
    """The CA file, and the certificate and key of this client, which are read anew for each connection: they rotate."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings

    def credentials(self) -> grpc.ChannelCredentials:
        """Return gRPC's credentials. Raises `CertificateProblem` for files that cannot be used."""
        settings = self._settings
        ca_file = settings.ca_file or _system_authorities()
        root = _read(ca_file)
        if root is not None:
            _certificates(root, ca_file)
        certificate, key = _read(settings.cert_file), _read(settings.key_file)
        if certificate is not None:
            _check_dates(_certificates(certificate, settings.cert_file)[0], settings.cert_file)
            _check_pair(settings)
        return grpc.ssl_channel_credentials(root, key, certificate)


def _system_authorities() -> Path | None:
    path = ssl.get_default_verify_paths().cafile
    return Path(path) if path else None


def _check_pair(settings: EtcdSettings) -> None:
    """Raise `CertificateProblem` unless the key is the certificate's. gRPC would only report a failed handshake."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(str(settings.cert_file), settings.key_file)
    except ssl.SSLError as error:
        raise CertificateProblem(
            f"{settings.cert_file} and {settings.key_file} are no certificate and key of a client of etcd: "
            f"{error.reason or error}"
        ) from None


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise CertificateProblem(f"{path}, a file of the connection to etcd: {error.strerror}") from None


def _certificates(content: bytes, path: Path | None) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError:
        raise CertificateProblem(f"{path} has no certificate in PEM; give the file of one") from None


def _check_dates(certificate: x509.Certificate, path: Path | None) -> None:
    now = datetime.datetime.now(datetime.UTC)
    if now > certificate.not_valid_after_utc:
        raise CertificateProblem(
            f"the client certificate {path} for etcd expired at {certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}; "
            "renew it"
        )
    if now < certificate.not_valid_before_utc:
        raise CertificateProblem(
            f"the client certificate {path} for etcd is not valid before "
            f"{certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}; check this machine's clock"
        )
