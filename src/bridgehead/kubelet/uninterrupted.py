"""Await work that must not be cancelled halfway.

Pod workers use it: their sync loop is cancelled as soon as the pod begins to terminate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. A cancellation of the caller takes effect after `work` has ended."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("failed after the caller was cancelled: %s", error)
        raise
