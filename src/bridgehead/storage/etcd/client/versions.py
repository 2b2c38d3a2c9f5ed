"""Versions of etcd.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re

_OLDEST = (3, 4, 0)
# Source: Kubernetes' apiserver/pkg/storage/feature/feature_support_checker.go, for etcd's issues 15220 and 17507.
_PROGRESS_3_4, _PROGRESS_3_5 = (3, 4, 31), (3, 5, 13)


def parse_version(text: str) -> tuple[int, int, int]:
    """Return the numbers of a version such as 3.4.23 or 3.6.0-rc.1; (0, 0, 0) for other text."""
    match = re.match(r"(\d{1,9})\.(\d{1,9})\.(\d{1,9})", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def is_supported(version: str) -> bool:
    return parse_version(version) >= _OLDEST


def has_reliable_progress(version: str) -> bool:
    """Whether an answer to a progress request promises that all events up to its revision have been sent.

    Older versions may send it ahead of events.
    """
    numbers = parse_version(version)
    return _PROGRESS_3_4 <= numbers < (3, 5, 0) or numbers >= _PROGRESS_3_5
