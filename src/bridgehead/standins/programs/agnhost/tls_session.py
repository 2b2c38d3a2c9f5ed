"""TLS in the stand-in for agnhost: a `Session` around another one, and the certificates."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from typing import Final

from bridgehead.standins.programs.stream_server import LateAnswer, Peer, Session, SessionFactory
from bridgehead.tls_certificates import load_certificate
from bridgehead.tls_offers import DEFAULT_OFFER

# The file of the image with a certificate for this host, beside its key. The stand-in makes one at its start.
LOCALHOST_CERTIFICATE: Final = "/localhost.crt"
_LIFETIME: Final = datetime.timedelta(days=365)
_CHUNK: Final = 64 << 10  # bytes


class TlsSession:
    """Decrypts for `inner` what arrives, and encrypts its answers."""

    def __init__(self, context: ssl.SSLContext, inner: Session) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._inner = inner
        self.closing = False
        self.busy = False

    def receive(self, data: bytes, *, draining: bool) -> bytes | LateAnswer:
        self._incoming.write(data)
        plain = b""
        try:
            self._tls.do_handshake()  # does nothing once it is done
            while chunk := self._tls.read(_CHUNK):
                plain += chunk
            self.closing = True  # the client has ended the connection
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError:
            self.closing = True
        if plain:
            answer = self._inner.receive(plain, draining=draining)
            self.closing, self.busy = self.closing or self._inner.closing, self._inner.busy
            if isinstance(answer, LateAnswer):
                compute = answer.compute
                return LateAnswer(lambda: self._encrypt(compute()))
            return self._encrypt(answer)
        return self._outgoing.read()

    def _encrypt(self, plain: bytes) -> bytes:
        if plain:
            self._tls.write(plain)
        return self._outgoing.read()


def secure(context: ssl.SSLContext | None, factory: SessionFactory) -> SessionFactory:
    """A factory of sessions behind TLS; `factory` itself without a context."""
    if context is None:
        return factory

    def open_session(peer: Peer) -> Session:
        return TlsSession(context, factory(peer))

    return open_session


def load_server_context(certificate: str, key: str) -> ssl.SSLContext:
    """A server's context with the certificate of a PEM file. Raises OSError, ssl.SSLError."""
    context = DEFAULT_OFFER.apply(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    if certificate == LOCALHOST_CERTIFICATE and not os.path.exists(certificate):
        load_certificate(context, _make_localhost_certificate())
    else:
        context.load_cert_chain(certificate, key or None)
    return context


def _make_localhost_certificate() -> bytes:
    """A self-signed certificate for this host, and its key, in PEM."""
    # Most containers of stand-ins need none of it.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Bridgehead stand-in")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", "::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem) + key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
