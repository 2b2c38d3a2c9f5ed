"""The CA of this process in the caBundle of somebody else's webhook: beside the certificates that are there already.

Values of others are not overwritten, so that giving back is removing, also after a process was killed: certificates of
the balancer's CAs are known by their name.

Pure: no I/O, no clock, no randomness. Source: RFC 7468 for PEM, RFC 5280 for names in certificates.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

CA_NAME: Final = "bridgehead-balancer-ca"  # common name of each CA that the balancer makes
_BLOCK: Final = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----(?:\r?\n)?", re.DOTALL)


def with_ca(bundle: str, ca: bytes) -> str:
    """Return the bundle with `ca` (PEM) as its last certificate, and without earlier CAs of the balancer.

    `bundle`: base64 of PEM, "" if there is none; so is the result.
    """
    others = _without(_decode(bundle), None)
    if others and not others.endswith(b"\n"):
        others += b"\n"
    return base64.b64encode(others + ca).decode()


def without_ca(bundle: str, ca: bytes | None = None) -> str:
    """Return the bundle without `ca`, or without all CAs of the balancer; the same text if it has none of them."""
    pem = _decode(bundle)
    rest = _without(pem, ca)
    return bundle if rest == pem else base64.b64encode(rest).decode()


def _decode(bundle: str) -> bytes:
    try:
        return base64.b64decode(bundle)
    except binascii.Error:
        return b""  # the API server accepts no such value


def _without(pem: bytes, ca: bytes | None) -> bytes:
    def kept(match: re.Match[bytes]) -> bytes:
        if ca is not None:
            return b"" if match[0].strip() == ca.strip() else match[0]
        try:
            der = base64.b64decode(match[1])
        except binascii.Error:
            return match[0]
        return b"" if CA_NAME.encode() in der else match[0]

    return _BLOCK.sub(kept, pem)
