"""Coroutines that run until the first of them ends, such as work until it is cancelled by an event."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable


async def race(*works: Awaitable[object]) -> None:
    """Run all works until one of them ends, then cancel the others and wait for their ends.

    Raises what one of them raised, the first in their order.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()
