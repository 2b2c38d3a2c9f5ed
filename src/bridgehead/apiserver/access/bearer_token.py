"""The bearer token of a request: of its header `Authorization`, or of a WebSocket's subprotocols.

Browsers cannot set headers of a WebSocket's handshake but its subprotocols. Pure: no I/O, no clock, no randomness.
Source: RFC 6750, 2.1; authentication/request/bearertoken, authentication/request/websocket.
"""

from __future__ import annotations

import binascii
import re
from base64 import urlsafe_b64decode
from collections.abc import Mapping

from bridgehead.apiserver.http.user import InvalidCredentials

_SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
_BASE64_URL = re.compile(r"[A-Za-z0-9_-]*")


def bearer_token(headers: Mapping[bytes, bytes]) -> str:
    """Return a request's token, "" without one. Names of headers are in lower case. Raises `InvalidCredentials`."""
    scheme, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    if scheme.lower() == "bearer" and token.strip():
        return token.strip()
    if headers.get(b"upgrade", b"").lower() == b"websocket":
        return _token_of_subprotocols(headers.get(b"sec-websocket-protocol", b"").decode("latin-1"))
    return ""


def _token_of_subprotocols(text: str) -> str:
    names = [name.strip() for name in text.split(",")]
    encoded = [name.removeprefix(_SUBPROTOCOL) for name in names if name.startswith(_SUBPROTOCOL)]
    if not encoded:
        return ""
    if len(encoded) > 1:
        raise InvalidCredentials("multiple base64.bearer.authorization tokens specified")
    if not _BASE64_URL.fullmatch(encoded[0]):
        raise InvalidCredentials("invalid base64.bearer.authorization token encoding")
    try:
        token = urlsafe_b64decode(encoded[0] + "=" * (-len(encoded[0]) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):
        raise InvalidCredentials("invalid base64.bearer.authorization token") from None
    # The server answers with one of the subprotocols, which must not be the token.
    if token and len(names) == 1:
        raise InvalidCredentials("missing additional subprotocol")
    return token
