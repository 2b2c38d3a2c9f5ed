"""aiohttp, imported without the system's CA certificates, which it otherwise parses twice: 70 ms and 2 MiB.

They are for contexts that aiohttp makes when it is imported and uses where the caller gives none. All of this program's
requests over TLS have a context of their own. `transport` imports aiohttp from here, before any other module does.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

_VARIABLE = "SSL_CERT_FILE"  # where OpenSSL looks for the certificates


@contextlib.contextmanager
def _no_system_certificates() -> Iterator[None]:
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = os.devnull
    try:
        yield
    finally:
        if before is None:
            del os.environ[_VARIABLE]
        else:
            os.environ[_VARIABLE] = before


with _no_system_certificates():
    import aiohttp

__all__ = ["aiohttp"]
