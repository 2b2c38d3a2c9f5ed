"""Reads of a state that is at least as new as a resourceVersion, which the store may reach later.

Source: `waitUntilFreshAndBlock` in apiserver/pkg/storage/cacher/watch_cache.go.
"""

from __future__ import annotations

import asyncio

from bridgehead.apiserver.errors import too_large_resource_version
from bridgehead.storage import Store

# Time that a read waits (blockTimeout), and the time after which its client repeats it
# (resourceVersionTooHighRetrySeconds).
BLOCK_SECONDS = 3.0
RETRY_SECONDS = 1
_LOOK_SECONDS = 0.05


async def wait_until_fresh(store: Store, revision: int) -> None:
    """Wait until the store has reached a revision. Raises a 504 after `BLOCK_SECONDS`."""
    if store.revision >= revision:
        return
    loop = asyncio.get_running_loop()
    end = loop.time() + BLOCK_SECONDS
    while store.revision < revision:
        if loop.time() >= end:
            raise too_large_resource_version(revision, store.revision, retry_after_seconds=RETRY_SECONDS)
        await asyncio.sleep(min(_LOOK_SECONDS, BLOCK_SECONDS))
