"""Decoding of JSON that registries, archives and users wrote.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

T = TypeVar("T")


class InvalidJson(Exception):
    """Content that is not the expected JSON; the text is the reason."""


def decode(content: bytes | str, type: type[T]) -> T:
    """Decode JSON as `type`. Raises `InvalidJson`, also for too deep a nesting and text that is no UTF-8."""
    try:
        return msgspec.json.decode(content, type=type)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise InvalidJson(str(error)) from error
