"""Logging of the parts: one line for each message to standard error, in UTC with milliseconds."""

from __future__ import annotations

import logging
import sys
import time


def configure(verbosity: int = 0) -> None:
    """Log to standard error. Verbosity 0 is for operators (INFO), 1 and more for developers (DEBUG)."""
    handler = logging.StreamHandler(sys.stderr)
    formatter = logging.Formatter(
        "%(asctime)s.%(msecs)03dZ %(levelname).1s %(name)s: %(message)s", datefmt="%Y-%m-%dT%H:%M:%S"
    )
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    _set_level(root, logging.DEBUG if verbosity else logging.INFO)
    for chatty in ("asyncio", "aiohttp", "uvicorn", "grpc"):
        _set_level(logging.getLogger(chatty), logging.WARNING)


def _set_level(logger: logging.Logger, level: int) -> None:
    """Set the level if it differs: setting it writes to all loggers, whose memory a lab's parts share with init."""
    if logger.level != level:
        logger.setLevel(level)
