"""A token server for docker-registry: it answers basic authentication with tokens that the registry verifies.

Source: distribution's token authentication specification; RFC 7515 and RFC 7519.
"""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
import threading
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

_ISSUER, _SERVICE = "test-issuer", "test-registry"
_COORDINATE = 32  # bytes, of P-256
_LIFETIME = 300  # seconds


class Account(NamedTuple):
    """An account and what it may do with each repository."""

    password: str
    actions: frozenset[str]


class TokenServer:
    """Grants tokens. `granted` are the scopes of the requests that were answered with one, with the account's name."""

    def __init__(self, directory: Path, accounts: Mapping[str, Account]) -> None:
        self.granted: list[tuple[str, str]] = []
        self.realm = ""
        self._accounts = accounts
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, _ISSUER)])
        now = datetime.datetime.now(datetime.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self._chain = [base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()]
        self._bundle = directory / "token-issuer.pem"
        self._bundle.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    @property
    def registry_configuration(self) -> str:
        """The part of docker-registry's configuration that makes it ask for tokens of this server."""
        return (
            f"auth: {{token: {{realm: '{self.realm}', service: {_SERVICE}, issuer: {_ISSUER}, "
            f"rootcertbundle: {self._bundle}}}}}\n"
        )

    @contextlib.contextmanager
    def serving(self) -> Iterator[TokenServer]:
        tokens = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                status, answer = tokens.answer(self.headers.get("Authorization", ""), query)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing."""

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            self.realm = f"http://127.0.0.1:{server.server_port}/token"
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield self
            finally:
                server.shutdown()
                thread.join()

    def answer(self, authorization: str, query: Mapping[str, list[str]]) -> tuple[int, dict[str, Any]]:
        """The status and the document for a request with this header `Authorization`."""
        scheme, _, encoded = authorization.partition(" ")
        name, _, password = base64.b64decode(encoded if scheme == "Basic" else "").decode().partition(":")
        account = self._accounts.get(name)
        if account is None or account.password != password or query.get("service") != [_SERVICE]:
            return 401, {"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}
        scopes = query.get("scope", [])
        self.granted += [(name, scope) for scope in scopes]
        return 200, {"token": self._sign(name, [_access(scope, account) for scope in scopes])}

    def token(self, name: str, scope: str) -> str:
        """A token for an account, as the value of the header `Authorization`."""
        return f"Bearer {self._sign(name, [_access(scope, self._accounts[name])])}"

    def _sign(self, name: str, access: list[dict[str, Any]]) -> str:
        now = int(time.time())
        header = {"typ": "JWT", "alg": "ES256", "x5c": self._chain}
        claims = {
            "iss": _ISSUER, "sub": name, "aud": _SERVICE, "nbf": now - 10, "exp": now + _LIFETIME, "iat": now,
            "jti": str(time.monotonic_ns()), "access": access,
        }  # fmt: skip
        signed = f"{_encode(json.dumps(header).encode())}.{_encode(json.dumps(claims).encode())}"
        pair = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(b''.join(number.to_bytes(_COORDINATE, 'big') for number in pair))}"


def _access(scope: str, account: Account) -> dict[str, Any]:
    """The access that a scope `TYPE:NAME:ACTION,...` requests, as far as the account may have it."""
    kind, _, rest = scope.partition(":")
    name, _, actions = rest.rpartition(":")
    return {"type": kind, "name": name, "actions": sorted(account.actions.intersection(actions.split(",")))}


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
