"""TLS versions and cipher suites that a server offers.

Suites have the names of Go's package, as in Kubernetes' options. TLS 1.3 has no weak suites, and all are offered: like
Go, these servers cannot limit them. Source: component-base/cli/flag/ciphersuites_flag.go, crypto/tls/cipher_suites.go.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import Final

_VERSIONS: Final = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}
_SUITES_OF_TLS_13: Final = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
# The part of Go's defaults, in Go's order, that has authenticated encryption (no CBC) and forward secrecy. All clients
# that speak TLS 1.2 have one of these.
_STRONG: Final = {
    f"TLS_ECDHE_{signature}_WITH_{name}": f"ECDHE-{signature}-{cipher}"
    for name, cipher in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
    for signature in ("ECDSA", "RSA")
}
_OTHERS: Final = {
    **{
        f"TLS_ECDHE_{signature}_WITH_{name}": f"ECDHE-{signature}-{cipher}"
        for name, cipher in (
            ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
            ("AES_128_CBC_SHA", "AES128-SHA"),
            ("AES_256_CBC_SHA", "AES256-SHA"),
            ("AES_128_CBC_SHA256", "AES128-SHA256"),
        )
        for signature in ("ECDSA", "RSA")
    },
    "TLS_RSA_WITH_AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "TLS_RSA_WITH_AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
    "TLS_RSA_WITH_AES_256_CBC_SHA": "AES256-SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256": "AES128-SHA256",
}


@dataclass(frozen=True, slots=True)
class TlsOffer:
    """The oldest version of TLS, and the suites of TLS 1.2 under OpenSSL's names."""

    minimum: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2
    ciphers: tuple[str, ...] = tuple(_STRONG.values())

    def apply(self, context: ssl.SSLContext) -> ssl.SSLContext:
        """Limit a server's settings to this offer; return them."""
        context.minimum_version = self.minimum
        context.set_ciphers(":".join(self.ciphers))
        return context


DEFAULT_OFFER: Final = TlsOffer()


def parse_offer(min_version: str, suites: str) -> TlsOffer:
    """Parse the options `--tls-min-version` and `--tls-cipher-suites` (separated by commas); "": the default.

    Raises ValueError with Kubernetes' text for an unknown name, and for one that this side's library does not have.
    """
    if min_version and min_version not in _VERSIONS:
        raise ValueError(f'unknown tls version "{min_version}"; --tls-min-version is one of {", ".join(_VERSIONS)}')
    names = [name.strip() for name in suites.split(",") if name.strip()]
    known = _STRONG | _OTHERS
    ciphers = []
    for name in names:
        if name not in known and name not in _SUITES_OF_TLS_13:
            raise ValueError(f"Cipher suite {name} not supported or doesn't exist")
        ciphers += [known[name]] if name in known else []
    return TlsOffer(_VERSIONS.get(min_version, DEFAULT_OFFER.minimum), tuple(ciphers) or DEFAULT_OFFER.ciphers)
