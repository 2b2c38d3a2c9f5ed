"""Versions of etcd.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

_OLDEST = (3, 4, 0)


def parse_version(text: str) -> tuple[int, int, int]:
    """Return the numbers of a version such as 3.4.23 or 3.6.0-rc.1; (0, 0, 0) for other text."""
    match = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def is_supported(version: str) -> bool:
    return parse_version(version) >= _OLDEST
