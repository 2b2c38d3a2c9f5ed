"""Authorization of requests to a registry: basic, or a bearer token from the token server that the registry names.

Source: the Docker registry's token authentication and OAuth2 specifications.
"""

from __future__ import annotations

import base64
from typing import Final
from urllib.parse import urlencode, urlsplit

import msgspec

from bridgehead.images.errors import Denied, PullFailed
from bridgehead.images.untrusted_json import InvalidJson, decode

from .challenges import Challenge, parse_challenges
from .docker_config import Credential
from .hosts_toml import Endpoint, token_server
from .transport import Transport, read_bounded

ACCESS_DENIED: Final = "pull access denied, repository does not exist or may require authorization"
_MAX_ANSWER: Final = 1 << 20  # bytes
_CLIENT_ID: Final = "bridgehead"


class _TokenAnswer(msgspec.Struct):
    token: str = ""
    access_token: str = ""


async def authorize(
    transport: Transport, endpoint: Endpoint, challenges: list[str], path: str, credential: Credential | None
) -> str:
    """Return the value of the header `Authorization` for the challenges of a 401 answer, "" if none is supported.

    `path` is the repository's. Raises `PullFailed`, `Denied` without credentials, or when a token server refuses them.
    """
    if credential is not None and credential.registry_token:
        return f"Bearer {credential.registry_token}"
    parsed = parse_challenges(challenges)
    for challenge in parsed:
        if challenge.scheme == "bearer" and challenge.parameters.get("realm"):
            return f"Bearer {await _fetch_token(transport, endpoint, challenge, path, credential)}"
    if not any(each.scheme == "basic" for each in parsed):
        return ""
    if credential is None or not credential.username:
        raise Denied(f"{ACCESS_DENIED}: authorization failed: no basic auth credentials")
    return _basic(credential)


def _basic(credential: Credential) -> str:
    text = f"{credential.username}:{credential.password}"
    return f"Basic {base64.b64encode(text.encode()).decode()}"


async def _fetch_token(
    transport: Transport, endpoint: Endpoint, challenge: Challenge, path: str, credential: Credential | None
) -> str:
    realm = challenge.parameters["realm"]
    parts = urlsplit(realm)
    if parts.scheme not in ("http", "https") or (parts.scheme == "http" and endpoint.url.startswith("https:")):
        raise PullFailed(f"failed to authorize: the registry names the token server {realm[:200]!r}")
    service = challenge.parameters.get("service", "")
    scope = challenge.parameters.get("scope") or f"repository:{path}:pull"
    query = {"service": service, "scope": scope} if service else {"scope": scope}
    server = token_server(realm, endpoint)
    headers = {"Accept": "application/json"}
    body = None
    method = "GET"
    if credential is not None and credential.identity_token:
        method = "POST"
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        form = {
            **query,
            "grant_type": "refresh_token",
            "refresh_token": credential.identity_token,
            "client_id": _CLIENT_ID,
        }
        body = urlencode(form).encode()
        url = realm
    else:
        url = f"{realm}{'&' if parts.query else '?'}{urlencode(query)}"
        if credential is not None and credential.username:
            headers["Authorization"] = _basic(credential)
    async with transport.request(method, url, server, headers, body=body) as response:
        if response.status != 200:
            kind = "anonymous" if credential is None else "oauth"
            reason = (
                f"failed to authorize: failed to fetch {kind} token: unexpected status from"
                f" {method} request to {url}: {response.status} {response.reason or ''}".rstrip()
            )
            raise (Denied if response.status in (400, 401, 403) else PullFailed)(reason)
        content = await read_bounded(response, _MAX_ANSWER)
    try:
        answer = decode(content, _TokenAnswer)
    except InvalidJson as error:
        raise PullFailed(f"failed to authorize: {realm} answered no token: {error}") from error
    token = answer.token or answer.access_token
    if not token or not token.isascii() or not token.isprintable():
        raise PullFailed(f"failed to authorize: {realm} answered no token")
    return token
