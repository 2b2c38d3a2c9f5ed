"""Warnings about Secrets of a certificate and a key that do not belong together."""

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from bridgehead.apiserver.resources.shared.pem import blocks_of
from tests.unit.apiserver.resources.certificate_requests import KEY, PEM, encoded, make_certificate
from tests.unit.apiserver.resources.steps import Steps, table

SECRETS = table()["secrets"]
NOT_FOUND = (
    'tls: failed to find "CERTIFICATE" PEM block in certificate input after skipping PEM blocks of the following'
)
NO_KEY = 'tls: failed to find PEM block with type ending in "PRIVATE KEY" in key input after skipping PEM blocks of the'


def key_of(key):
    plain = serialization.NoEncryption()
    return encoded(key.private_bytes(PEM, serialization.PrivateFormat.PKCS8, plain))


def block(kind):
    return f"-----BEGIN {kind}-----\neA==\n-----END {kind}-----\n".encode()


@pytest.mark.parametrize(
    ("certificate", "key", "expected"),
    [
        (make_certificate(), key_of(KEY), []),
        (encoded(b"a"), encoded(b"b"), ["tls: failed to find any PEM data in certificate input"]),
        (encoded(block("A") + block("B")), encoded(b"b"), [f"{NOT_FOUND} types: [A B]"]),
        (key_of(KEY), make_certificate(), [
            "tls: failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may "
            "have been switched"]),
        (make_certificate(), encoded(b"b"), ["tls: failed to find any PEM data in key input"]),
        (make_certificate(), make_certificate(), [
            "tls: found a certificate rather than a key in the PEM for the private key"]),
        (make_certificate(), encoded(block("A")), [f"{NO_KEY} following types: [A]"]),
        (encoded(block("CERTIFICATE")), key_of(KEY), ["x509: malformed certificate"]),
        (make_certificate(), encoded(block("EC PRIVATE KEY")), ["tls: failed to parse private key"]),
        (make_certificate(), key_of(ed25519.Ed25519PrivateKey.generate()), [
            "tls: private key type does not match public key type"]),
        (make_certificate(), key_of(ec.generate_private_key(ec.SECP256R1())), [
            "tls: private key does not match public key"]),
    ],
)  # fmt: skip
def test_pairs_are_compared(certificate, key, expected):
    data = {"data": {"tls.crt": certificate, "tls.key": key}}
    secret = Steps(SECRETS).create({"metadata": {"name": "a"}, "type": "kubernetes.io/tls", **data})
    assert SECRETS.strategy.warnings(secret) == expected
    assert SECRETS.strategy.warnings({**secret, "type": "Opaque"}) == []


def test_text_without_ends_is_passed_once():
    """Each beginning searched to the end of the text, a Secret of 1 MiB takes minutes."""
    begins = b"".join(b"-----BEGIN %d-----\n" % number for number in range(20_000))
    assert blocks_of(encoded(begins + block("A"))) == [("A", False, block("A"))]
    assert blocks_of(encoded(b"-----BEGIN A-----\n" * 20_000)) == []


def test_blocks_have_the_end_of_their_own_type():
    text = b"-----BEGIN A-----\n-----END B-----\nx: y\n-----END A-----\n-----END B-----\n"
    assert blocks_of(encoded(text)) == [("A", True, text[: -len(b"-----END B-----\n")])]
