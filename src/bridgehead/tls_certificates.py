"""Certificates of this side of a TLS connection, with their keys."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

# For encrypted keys, which fail by it. Without one, OpenSSL would ask for it on the terminal, and wait.
_NO_PASSWORD: Final = ""


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
