"""PEM blocks in base64, and pairs of a certificate and a private key.

`cryptography` is imported for the first pair. Pure: no I/O, no clock, no randomness.
Source: Go's encoding/pem, `X509KeyPair` of crypto/tls.
"""

from __future__ import annotations

import base64
import binascii
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator

_END = re.compile(rb"^-----END ([^\r\n]*?)-----[ \t]*\r?$", re.MULTILINE)
_BEGIN = re.compile(rb"^-----BEGIN ([^\r\n]*?)-----[ \t]*\r?\n", re.MULTILINE)
_CERTIFICATE, _KEY = "CERTIFICATE", "PRIVATE KEY"


def blocks_of(data: str) -> list[tuple[str, bool, bytes]]:
    """Return the PEM blocks in base64 `data`: their type, whether they have headers, the whole text."""
    try:
        pem = base64.b64decode(data)
    except (binascii.Error, ValueError):
        return []
    return list(_blocks(pem))


def _blocks(pem: bytes) -> Iterator[tuple[str, bool, bytes]]:
    """Yield the blocks. The ends are found first, so that none is searched for once more for each beginning."""
    ends: dict[bytes, list[re.Match[bytes]]] = defaultdict(list)
    for found in _END.finditer(pem):
        ends[found[1]].append(found)
    at = 0
    while begin := _BEGIN.search(pem, at):
        at = begin.end()
        same = ends[begin[1]]
        position = bisect_left(same, at, key=re.Match.start)
        if position < len(same):
            end = same[position]
            yield begin[1].decode("latin-1"), b":" in pem[at : end.start()], pem[begin.start() : end.end()] + b"\n"
            at = end.end()


def check_key_pair(certificate: str, key: str) -> str:
    """Return the reason why `key` is not that of the first certificate, or "". Takes both as PEM in base64."""
    certificates, keys = ([(kind, text) for kind, _, text in blocks_of(data)] for data in (certificate, key))
    first_certificate = next((text for kind, text in certificates if kind == _CERTIFICATE), None)
    if first_certificate is None:
        return _explain_no_certificate([kind for kind, _ in certificates])
    first_key = next((text for kind, text in keys if kind == _KEY or kind.endswith(f" {_KEY}")), None)
    if first_key is None:
        return _explain_no_key([kind for kind, _ in keys])
    return _compare(first_certificate, first_key)


def _explain_no_certificate(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in certificate input"
    if len(kinds) == 1 and kinds[0].endswith(_KEY):
        return (
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"
        )
    return (
        'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following '
        f"types: [{' '.join(kinds)}]"
    )


def _explain_no_key(kinds: list[str]) -> str:
    if not kinds:
        return "tls: failed to find any PEM data in key input"
    if kinds == [_CERTIFICATE]:
        return "tls: found a certificate rather than a key in the PEM for the private key"
    return (
        'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the '
        f"following types: [{' '.join(kinds)}]"
    )


def _compare(certificate: bytes, key: bytes) -> str:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization

    try:
        wanted = x509.load_pem_x509_certificate(certificate).public_key()
    except (ValueError, UnsupportedAlgorithm, x509.InvalidVersion):
        return "x509: malformed certificate"
    try:
        # Its public part is all that counts. A check of a large key's primes takes a second.
        given = serialization.load_pem_private_key(key, None, unsafe_skip_rsa_key_validation=True).public_key()
    except (TypeError, ValueError, UnsupportedAlgorithm):  # TypeError: it needs a password
        return "tls: failed to parse private key"
    if type(given) is not type(wanted):
        return "tls: private key type does not match public key type"
    return "" if given == wanted else "tls: private key does not match public key"
