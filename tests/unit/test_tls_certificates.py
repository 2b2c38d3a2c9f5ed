"""Certificates of TLS connections: those that cannot be used are refused without a question."""

from __future__ import annotations

import datetime
import os
import pty
import select
import signal
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridgehead.tls_certificates import check_certificate, load_certificate, verifying_context

DEADLINE = 30.0


@pytest.fixture
def encrypted(tmp_path: Path) -> Path:
    """A certificate with its encrypted key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "me")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=1))
        .sign(key, hashes.SHA256())
    )
    path = tmp_path / "client.pem"
    pem = serialization.Encoding.PEM
    path.write_bytes(
        certificate.public_bytes(pem)
        + key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"secret"))
    )
    return path


def load(path: Path) -> None:
    load_certificate(ssl.create_default_context(), path.read_bytes())


def check(path: Path) -> None:
    check_certificate(path, path)


def test_certificates_are_verified_as_by_go_with_every_python() -> None:
    flags = verifying_context().verify_flags
    assert flags & ssl.VERIFY_X509_PARTIAL_CHAIN
    assert not flags & ssl.VERIFY_X509_STRICT


@pytest.mark.parametrize("use", [load, check])
def test_nobody_is_asked_for_the_password_of_a_key(encrypted: Path, use: Callable[[Path], None]) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        status = 1
        try:
            use(encrypted)
        except ssl.SSLError:
            status = 0
        finally:
            os._exit(status)
    printed = b""
    while b"pass" not in printed and select.select([terminal], [], [], DEADLINE)[0]:
        try:
            printed += os.read(terminal, 1000)
        except OSError:  # the child has ended
            break
    os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    assert os.waitpid(pid, 0)[1] in (0, signal.SIGKILL)
    assert printed == b""
