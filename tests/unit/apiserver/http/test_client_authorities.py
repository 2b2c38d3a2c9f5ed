"""Clients' certificates: which of two CAs has issued them."""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridgehead.apiserver.http.client_authorities import ClientAuthorities, ServerContext
from bridgehead.apiserver.http.peer_protocol import peer_of

FRONT_PROXIES = "front-proxy-ca"


@dataclass(frozen=True)
class Issuer:
    """A CA with its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    def issue(self, name: str) -> bytes:
        """Return the certificate of a client (DER)."""
        key = ec.generate_private_key(ec.SECP256R1()).public_key()
        return sign(name, key, self.certificate.subject, self.key).public_bytes(serialization.Encoding.DER)

    def intermediate(self, name: str) -> Issuer:
        key = ec.generate_private_key(ec.SECP256R1())
        return Issuer(sign(name, key.public_key(), self.certificate.subject, self.key), key)


def sign(
    name: str, key: ec.EllipticCurvePublicKey, issuer: x509.Name | None, issuers_key: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    """Return a certificate. `issuer` None: it is signed with its own key."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    day = datetime.datetime(2026, 11, 24, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(issuer or subject, subject, key, x509.random_serial_number(), day, day)
    return builder.sign(issuers_key, hashes.SHA256())


def authority(name: str) -> Issuer:
    key = ec.generate_private_key(ec.SECP256R1())
    return Issuer(sign(name, key.public_key(), None, key), key)


USERS, PROXIES = authority("ca"), authority(FRONT_PROXIES)


@pytest.mark.parametrize(
    ("issuer", "issued"),
    [
        (USERS, (True, False)),
        (PROXIES, (False, True)),
        # OpenSSL verifies these, if the client sends the CA between.
        (USERS.intermediate("other"), (False, False)),
        (USERS.intermediate(FRONT_PROXIES), (False, False)),
        (PROXIES.intermediate("ca"), (False, False)),
    ],
)
def test_a_certificate_is_of_the_ca_that_has_signed_it(issuer, issued):
    authorities = ClientAuthorities((USERS.certificate,), (PROXIES.certificate,))
    assert authorities.issued(issuer.issue("gateway")) == issued


def test_a_ca_of_both_issues_both():
    authorities = ClientAuthorities((USERS.certificate,), (PROXIES.certificate, USERS.certificate))
    assert authorities.issued(USERS.issue("alice")) == (True, True)


def test_without_a_ca_of_users_no_certificate_is_of_a_user():
    assert ClientAuthorities((), (PROXIES.certificate,)).issued(PROXIES.issue("gateway")) == (False, True)


def test_a_front_proxy_needs_no_common_name():
    der = PROXIES.issue("gateway")
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.authorities = ClientAuthorities((), (PROXIES.certificate,))
    parsed = {"subject": (), "notAfter": "Nov 24 00:00:00 2026 GMT"}
    connection = SimpleNamespace(context=context, getpeercert=lambda binary_form=False: der if binary_form else parsed)
    transport: Any = SimpleNamespace(get_extra_info={"ssl_object": connection}.get)
    assert peer_of(transport).front_proxy == ""
