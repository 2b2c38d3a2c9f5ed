"""Versions and cipher suites that servers offer."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from bridgehead import tls_offers
from bridgehead.tls_offers import DEFAULT_OFFER, TlsOffer, parse_offer

STRONG = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
]


def offered(offer: TlsOffer) -> list[str]:
    """Return the suites of TLS 1.2 in the order of OpenSSL."""
    ciphers = offer.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)).get_ciphers()
    return [cipher["name"] for cipher in ciphers if cipher["protocol"] != "TLSv1.3"]


def test_servers_offer_authenticated_encryption_with_forward_secrecy_only() -> None:
    assert offered(DEFAULT_OFFER) == STRONG
    assert DEFAULT_OFFER.minimum == ssl.TLSVersion.TLSv1_2


def test_each_server_has_an_offer() -> None:
    sources = [path.read_text() for path in Path(tls_offers.__file__).parent.rglob("*.py")]
    servers = [source for source in sources if "PROTOCOL_TLS_SERVER" in source or "CLIENT_AUTH)" in source]
    assert len(servers) == 5
    assert all("FER.apply(" in source or "offer.apply(" in source for source in servers)


@pytest.mark.parametrize(
    ("min_version", "suites", "minimum", "ciphers"),
    [
        ("", "", ssl.TLSVersion.TLSv1_2, STRONG),
        ("VersionTLS12", " ", ssl.TLSVersion.TLSv1_2, STRONG),
        ("VersionTLS13", "TLS_AES_128_GCM_SHA256", ssl.TLSVersion.TLSv1_3, STRONG),
        (
            "",
            "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, TLS_RSA_WITH_AES_256_GCM_SHA384",
            ssl.TLSVersion.TLSv1_2,
            ["ECDHE-RSA-AES128-SHA", "AES256-GCM-SHA384"],
        ),
    ],
)
def test_options(min_version: str, suites: str, minimum: ssl.TLSVersion, ciphers: list[str]) -> None:
    offer = parse_offer(min_version, suites)
    assert (offer.minimum, offered(offer)) == (minimum, ciphers)


def test_the_library_has_each_suite_that_may_be_named() -> None:
    for name, cipher in (tls_offers._STRONG | tls_offers._OTHERS).items():
        assert offered(parse_offer("", name)) == [cipher]


@pytest.mark.parametrize(
    ("min_version", "suites", "message"),
    [
        (
            "VersionTLS11",
            "",
            'unknown tls version "VersionTLS11"; --tls-min-version is one of VersionTLS12, VersionTLS13',
        ),
        ("", "TLS_RSA_WITH_RC4_128_SHA", "Cipher suite TLS_RSA_WITH_RC4_128_SHA not supported or doesn't exist"),
        ("", "ECDHE-RSA-AES128-SHA", "Cipher suite ECDHE-RSA-AES128-SHA not supported or doesn't exist"),
    ],
)
def test_options_that_are_refused(min_version: str, suites: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
        parse_offer(min_version, suites)
    assert str(caught.value) == message
