"""Certificate files of the etcd client."""

from __future__ import annotations

import datetime
from pathlib import Path

import grpc
from cryptography import x509

from .errors import CertificateProblem
from .settings import EtcdSettings


class TlsFiles:
    """The CA file, and the certificate and key of this client, which are read anew for each connection: they rotate."""

    def __init__(self, settings: EtcdSettings) -> None:
        self._settings = settings

    def credentials(self) -> grpc.ChannelCredentials:
        """Return gRPC's credentials. Raises `CertificateProblem` for files that cannot be used."""
        settings = self._settings
        root = _read(settings.ca_file)
        if root is not None:
            _certificates(root, settings.ca_file)
        certificate, key = _read(settings.cert_file), _read(settings.key_file)
        if certificate is not None:
            _check_dates(_certificates(certificate, settings.cert_file)[0], settings.cert_file)
        return grpc.ssl_channel_credentials(root, key, certificate)


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
