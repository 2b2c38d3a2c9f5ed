"""Certificates of TLS connections: this side's with their keys, and the authorities of a server's."""

from __future__ import annotations

import os
import ssl
from pathlib import Path
from typing import Final

# For encrypted keys, which fail by it. Without one, OpenSSL would ask for it on the terminal, and wait.
_NO_PASSWORD: Final = ""


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
