"""Logging of the parts: one line each to standard error, in UTC with milliseconds."""

from __future__ import annotations

import logging
import sys
import time


def configure(verbosity: int = 0) -> None:
    """0 logs what an operator wants to know, 1 and more what a developer does."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname).1s %(name)s: %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    _set_level(root, logging.DEBUG if verbosity else logging.INFO)
    for chatty in ("asyncio", "aiohttp", "uvicorn", "pyroute2"):
        _set_level(logging.getLogger(chatty), logging.WARNING)


def _set_level(logger: logging.Logger, level: int) -> None:
    """Setting it writes to all loggers that there are; the lab's parts share them with the process they come from."""
    if logger.level != level:
        logger.setLevel(level)
