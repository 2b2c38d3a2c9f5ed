"""Namespaces of tests, in the API of any cluster."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Final

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.objects.kinds import NAMESPACES, SERVICE_ACCOUNTS

from .namespace_names import namespace_name

LABEL: Final = "bridgehead.io/test"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.2


async def create(client: ApiClient, test: str) -> str:
    """Create a namespace for a test, wait until it takes pods, and return its name. Raises ClientError."""
    name = namespace_name(test, secrets.token_hex(3))
    await client.create(NAMESPACES, {"metadata": {"name": name, "labels": {LABEL: "true"}}})
    pause = _FIRST_PAUSE
    while True:
        try:
            await client.get(SERVICE_ACCOUNTS, "default", name)
            return name
        except NotFound:
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, _LONGEST_PAUSE)


async def delete(client: ApiClient, name: str) -> None:
    """Delete a namespace without waiting for its end. A cluster that has ended meanwhile needs no deletion."""
    with contextlib.suppress(ClientError):
        await client.delete(NAMESPACES, name)
