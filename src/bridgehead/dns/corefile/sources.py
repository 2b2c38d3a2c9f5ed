"""Files and environment variables to which a Corefile refers."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


def _read_text(path: str) -> str:
    return Path(path).read_text(errors="replace")


def _find(pattern: str) -> list[str]:
    return sorted(glob.glob(pattern))


@dataclass(frozen=True)
class Sources:
    """Files, by paths relative to `directory`, and variables. `read` raises OSError; `find` expands a pattern."""

    directory: str = ""
    read: Callable[[str], str] = _read_text
    find: Callable[[str], list[str]] = _find
    variables: Mapping[str, str] = field(default_factory=lambda: os.environ)

    def path(self, name: str) -> str:
        """Return the path of a file that the Corefile names."""
        return os.path.join(self.directory, name)

    def paths(self, name: str) -> list[str]:
        """Return the path of a file, or those that match a pattern: none, where distributions leave room for users."""
        return self.find(self.path(name)) if glob.has_magic(name) else [self.path(name)]
