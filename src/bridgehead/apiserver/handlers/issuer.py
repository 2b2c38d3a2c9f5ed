"""Discovery documents of the issuer of service account tokens, for programs that verify tokens by themselves.

Source: Kubernetes pkg/serviceaccount/openidmetadata.go, pkg/routes/openidmetadata.go; OpenID Connect Discovery 1.0.
"""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

import msgspec

from bridgehead.apiserver.access.service_account_tokens import TokenAuthority
from bridgehead.apiserver.http.request import Response

CONFIGURATION_PATH, JWKS_PATH = "/.well-known/openid-configuration", "/openid/v1/jwks"
_MAX_AGE_SECONDS = 3600


class IssuerDiscovery:
    """Serves the two documents, if the issuer is an HTTPS URL. `jwks_uri` is the URL of the keys."""

    def __init__(self, tokens: TokenAuthority, jwks_uri: str) -> None:
        self._tokens = tokens
        self._jwks_uri = jwks_uri
        self._responses: dict[str, Response] = {}
        parts = urlsplit(tokens.issuers[0])
        self._is_served = parts.scheme == "https" and not parts.query and not parts.fragment

    def serves(self, path: str) -> bool:
        return self._is_served and path in (CONFIGURATION_PATH, JWKS_PATH)

    def handle(self, path: str) -> Response:
        """Return the response to a GET."""
        response = self._responses.get(path)
        if response is None:
            response = self._responses[path] = self._configuration() if path == CONFIGURATION_PATH else self._keys()
        return response

    def _configuration(self) -> Response:
        configuration = {
            "issuer": self._tokens.issuers[0],
            "jwks_uri": self._jwks_uri,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({key.algorithm for key in self._tokens.keys.values()}),
        }
        return _response(msgspec.json.encode(configuration), "application/json")

    def _keys(self) -> Response:
        keys = [key.jwk() for key in self._tokens.keys.values()]
        return _response(msgspec.json.encode({"keys": keys}), "application/jwk-set+json")


def _response(body: bytes, content_type: str) -> Response:
    headers = (
        (b"cache-control", b"public, max-age=%d" % _MAX_AGE_SECONDS),
        (b"etag", f'"{hashlib.sha256(body).hexdigest()[:32].upper()}"'.encode()),
    )
    return Response(200, body, content_type, headers)
