"""Work that must not be left half done when the one who waits for it is cancelled.

Called by the pod worker and its helpers, whose life ends by cancellation as soon as the pod begins to end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

log = logging.getLogger(__name__)

T = TypeVar("T")


async def uninterrupted(work: Coroutine[Any, Any, T]) -> T:
    """The result of `work`; who is cancelled meanwhile is so only after its end."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,))
        if not task.cancelled() and (error := task.exception()) is not None:
            log.debug("ended meanwhile: %s", error)
        raise
