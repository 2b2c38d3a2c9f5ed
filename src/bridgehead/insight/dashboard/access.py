"""Access to the dashboard: its token, the hosts and origins that are served, and the headers of every answer.

A page is opened by an address with the token in its fragment, which browsers send to nobody. The page sends the token
in the header Authorization or, for its WebSocket, as a subprotocol. There is no cookie, so no other page can make a
browser send a request with the user's rights. `Host` and `Origin` are checked besides: a name that resolves to this
machine (DNS rebinding) is not served.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping

PROTOCOL = "bridgehead.dashboard.v1"  # of the WebSocket
_BEARER = "bearer."
_LONGEST = 256  # characters of a token that is compared

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}


def is_token(given: str, token: str) -> bool:
    """Return whether the token is right, in a time that does not depend on where it differs."""
    return hmac.compare_digest(given[:_LONGEST].encode(errors="replace"), token.encode())


def token_of(authorization: str, protocols: str) -> str:
    """Return the token of a request's headers Authorization and Sec-WebSocket-Protocol; "" without one."""
    scheme, _, given = authorization.partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    for protocol in protocols[: 2 * _LONGEST].split(","):
        if protocol.strip().startswith(_BEARER):
            return protocol.strip().removeprefix(_BEARER)
    return ""


def hosts_of(port: int) -> frozenset[str]:
    """Return the values of `Host` that are served."""
    return frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))


def refusal(headers: Mapping[str, str], hosts: Collection[str], *, is_page: bool) -> str:
    """Return why a request is not served whatever its token, "" if it is. `headers` ignores case.

    A request of the page itself names its origin, or none, and browsers mark requests of other sites. `is_page`: the
    page itself is asked for, to which any other may have a link.
    """
    host = headers.get("Host", "")
    if host not in hosts:
        return "this host is not served here"
    origin = headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        return "requests of other origins are not served"
    if not is_page and headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
        return "requests of other sites are not served"
    return ""
