"""The client that calls webhooks. Source: apiserver/pkg/util/webhook/client.go."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

import msgspec

from bridgehead.apiserver.go_json import check_depth
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject
from bridgehead.apiserver.service_endpoints import NoEndpoint, read_endpoints
from bridgehead.storage import Store

from .errors import CallFailed, describe_status
from .webhook_location import ClientConfig

if TYPE_CHECKING:
    from .webhook_transport import Transport

# A webhook may answer with a patch that contains the whole object in base64, or with converted objects of a list.
MAX_ANSWER_BYTES = 8 * 1024 * 1024


class WebhookClient:
    """Calls webhooks over HTTPS. Connections are kept alive. The owner must call `close`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transport: Transport | None = None

    async def post(self, config: ClientConfig, body: bytes, *, seconds: float) -> JsonObject:
        """Send JSON to a webhook; return the JSON object that it answers with.

        The call takes at most `seconds`, and the answer may have `MAX_ANSWER_BYTES`. Redirects are not followed.
        Raises `CallFailed`.
        """
        url = config.url_with_timeout(seconds)
        try:
            async with asyncio.timeout(seconds):
                code, answer = await self._exchange(config, url, body)
        except TimeoutError:
            raise CallFailed(f'Post "{url}": context deadline exceeded') from None
        if not 200 <= code < 300:
            raise CallFailed(_refusal(code, answer), code)
        try:
            check_depth(answer)
            value = await run_long(len(answer), lambda: msgspec.json.decode(answer))
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise CallFailed(f"couldn't get version/kind; json parse error: {error}", code) from None
        if not isinstance(value, dict):
            raise CallFailed("couldn't get version/kind; json parse error: the answer is not an object", code)
        return value

    async def close(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.close()
            self._transport = None

    async def _exchange(self, config: ClientConfig, url: str, body: bytes) -> tuple[int, bytes]:
        address, service = None, config.service
        if service is not None:
            try:
                found = read_endpoints(self._store, service.namespace, service.name).addresses(service.port)
            except NoEndpoint as error:
                raise CallFailed(f'Post "{url}": {error}') from None
            address = random.choice(found)
        if self._transport is None:
            from .webhook_transport import Transport

            self._transport = Transport(MAX_ANSWER_BYTES)
        return await self._transport.post(url, address, config, body)


def _refusal(code: int, answer: bytes) -> str:
    """Return the reason of an answer that is not a success: that of a Status, or a general one."""
    try:
        status = msgspec.json.decode(answer)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status" and isinstance(status.get("message"), str):
        message: str = status["message"]
        return message or describe_status(code, "")
    return describe_status(code, answer[:4096].decode(errors="replace"))
