"""Keys of an issuer, by OpenID Connect discovery over HTTPS. Keys are kept, and fetched again for an unknown key id.

Source: OpenID Connect Discovery 1.0; go-oidc's RemoteKeySet.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import Any

import aiohttp
import jwt
import msgspec

from bridgehead.apiserver.http.user import InvalidCredentials
from bridgehead.tls_certificates import verifying_context

from .forms import Issuer

log = logging.getLogger(__name__)

_TIMEOUT_SECONDS = 10.0
_MAX_BYTES = 1024 * 1024
_RETRY_SECONDS = 10.0  # between two fetches, so that tokens with invented key ids cost the issuer nothing


class KeySet:
    """The keys of one issuer. One fetch serves all requests that wait for it."""

    def __init__(self, issuer: Issuer) -> None:
        """Raises ValueError for a CA that is not PEM."""
        self._issuer = issuer
        try:
            self._context = verifying_context(cadata=issuer.certificate_authority or None)
        except ssl.SSLError as error:
            raise ValueError(f"certificateAuthority of {issuer.url}: {error.reason}") from error
        self._keys: dict[str, jwt.PyJWK] = {}
        self._fetching: asyncio.Task[None] | None = None
        self._fetched_at = float("-inf")

    async def find(self, key_id: str) -> list[jwt.PyJWK]:
        """Return the key of this id; all for a token without one. Raises `InvalidCredentials`."""
        if not self._has(key_id):
            await self._refresh()
        found = [key for known, key in self._keys.items() if key_id in ("", known)]
        if not found:
            raise InvalidCredentials(f"oidc: no key of {self._issuer.url} verifies the token")
        return found

    def _has(self, key_id: str) -> bool:
        return key_id in self._keys if key_id else bool(self._keys)

    async def _refresh(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._fetching is None:
            if now - self._fetched_at < _RETRY_SECONDS:
                return
            self._fetched_at = now
            self._fetching = asyncio.create_task(self._fetch())
            self._fetching.add_done_callback(self._on_fetched)
        await asyncio.shield(self._fetching)

    def _on_fetched(self, task: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _fetch(self) -> None:
        issuer = self._issuer
        url = issuer.discovery_url or issuer.url.removesuffix("/") + "/.well-known/openid-configuration"
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_SECONDS)
        try:
            async with aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar()) as session:
                document = await self._read(session, url)
                if document.get("issuer") != issuer.url:
                    raise ValueError(f"the discovery document is of the issuer {document.get('issuer')!r}")
                keys = await self._read(session, str(document.get("jwks_uri", "")))
            self._keys = {key.key_id or "": key for key in jwt.PyJWKSet.from_dict(keys).keys}
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, msgspec.DecodeError, jwt.PyJWTError) as error:
            log.warning("cannot fetch the keys of the issuer %s: %s", issuer.url, error or type(error).__name__)

    async def _read(self, session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
        if not url.startswith("https://"):
            raise ValueError(f"not an HTTPS URL: {url!r}")
        async with session.get(url, ssl=self._context) as response:
            if response.status != 200:
                raise ValueError(f"{url}: HTTP {response.status}")
            body = await response.content.read(_MAX_BYTES)
            while not response.content.at_eof() and len(body) < _MAX_BYTES:
                body += await response.content.read(_MAX_BYTES - len(body))
        return msgspec.json.decode(body, type=dict[str, Any])
